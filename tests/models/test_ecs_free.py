# SPDX-License-Identifier: GPL-2.0-only
"""The model of borrowed time without counting: exhaustive, and wrong after each mutation."""

from pathlib import Path

import pytest

from tests.models.spin import check, first_error, verify

MODEL = Path(__file__).with_name("ecs_free.pml")
# The states of each; other numbers mean that another model was searched.
BOUNDS: dict[str, tuple[tuple[str, ...], int]] = {
    "two sections": ((), 45_475),
    "four sections, three looks": (("-DROUNDS=4", "-DSTEPS=3"), 109_053),
}
# What an assertion is about, by what stands in it and in no other.
NOT_NOTICED = "silent)"
COUNT_WRONG = "count==sections"
OWN_REQUEST_LOST = "!(wanted)"
REQUEST_LOST = "put_off)"
TOO_LONG = "looks<="
LENT_ON = "!(returned)"
IN_A_SECTION = "sections==1"
STILL_LENT = "!(called)"
LENT_WITHOUT_CPU = "violated !(granted)"
MUTATIONS = [
    ("NO_MARK", NOT_NOTICED), ("MARK_RUNNING", NOT_NOTICED), ("UNMARK", OWN_REQUEST_LOST),
    ("MARK_CLEARS", COUNT_WRONG), ("NO_TIMER", REQUEST_LOST), ("KEEP_ALWAYS", TOO_LONG),
    ("KEEP_RETURNED", LENT_ON), ("KEEP_REALTIME", LENT_ON), ("BACK_IN_READER", IN_A_SECTION),
    ("CALL_IGNORED", STILL_LENT), ("KEEP_LOAN", LENT_WITHOUT_CPU),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_loans_end_and_requests_are_followed(bounds: str, tmp_path: Path) -> None:
    defines, states = BOUNDS[bounds]
    check(bounds, verify(MODEL, tmp_path, *defines), states)


@pytest.mark.parametrize(("mutation", "error"), MUTATIONS)
def test_each_mutation_is_found(mutation: str, error: str, tmp_path: Path) -> None:
    assert error in first_error(f"ecs_free/{mutation}", MODEL, tmp_path, f"-D{mutation}")
