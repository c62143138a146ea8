# SPDX-License-Identifier: GPL-2.0-only
"""The model of sections that end in another task: exhaustive, and wrong after each mutation."""

from pathlib import Path

import pytest

from tests.models.spin import check, first_error, verify

MODEL = Path(__file__).with_name("ecs_tasks.pml")
# The states of each; other numbers mean that another model was searched.
BOUNDS: dict[str, tuple[tuple[str, ...], int]] = {
    "interrupts": (("-DROUNDS=2", "-DIRQ"), 2_617_548),
    "migration": (("-DVCPUS=2",), 4_005_299),
}
# What an assertion is about, by what stands in it and in no other.
TOO_MANY = "<=((open["
UNTRUE = "==(open["
NEGATIVE = "((moves[on[me]]&127)-(2*(moves[on[me]]&64)))>=0)"
LEFT_SO = "((moves[c]&127)-(2*(moves[c]&64)))>=0)"
PUT_AWAY = "saved[prev]<64"
NOT_NOTICED = "lent["
MUTATIONS = [
    ("NO_SWITCH", TOO_MANY), ("LEFT_NEGATIVE", LEFT_SO), ("SWITCH_NEGATIVE", PUT_AWAY),
    ("TOP_SIGN", UNTRUE), ("SAVE_BORROWED", PUT_AWAY), ("KEEP_SAVED", TOO_MANY),
    ("MARK_MOVES", NOT_NOTICED),
]
# Limits of the mechanism, not of the model, which says why.
NOT_COVERED = [("SEEN_AT_ONCE", NEGATIVE), ("BACK_AT_ONCE", NOT_NOTICED)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_words_say_no_more_than_a_task_began(bounds: str, tmp_path: Path) -> None:
    defines, states = BOUNDS[bounds]
    check(bounds, verify(MODEL, tmp_path, *defines), states)


@pytest.mark.sampled
@pytest.mark.parametrize(("mutation", "error"), [*MUTATIONS, *NOT_COVERED])
def test_each_mutation_is_found(mutation: str, error: str, tmp_path: Path) -> None:
    first = first_error(f"ecs_tasks/{mutation}", MODEL, tmp_path, "-DIRQ", f"-D{mutation}")
    assert error in first
