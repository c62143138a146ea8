# SPDX-License-Identifier: GPL-2.0-only
"""The model of borrowed time without counting: exhaustive, and wrong after each mutation."""

from pathlib import Path

import pytest

from tests.models.spin import check, first_error, verify

MODEL = Path(__file__).with_name("ecs_free.pml")
# The states of each; other numbers mean that another model was searched.
BOUNDS: dict[str, tuple[tuple[str, ...], int]] = {
    "two sections": ((), 20_575),
    "four sections, three looks": (("-DROUNDS=4", "-DSTEPS=3"), 48_993),
}
# What an assertion is about, by what stands in it and in no other.
NOT_GIVEN_BACK = "!(owed)"
KEPT_OUTSIDE = "reader)"
COUNT_WRONG = "count==sections"
OWN_REQUEST = "need==wanted"
REQUEST_LOST = "put_off)"
TOO_LONG = "looks<="
LENT_ON = "!(returned)"
IN_A_SECTION = "sections==1"
STILL_LENT = "!(called)"
LENT_WITHOUT_CPU = "violated !(granted)"
MUTATIONS = [
    ("MARK", OWN_REQUEST), ("MARK_RUNNING", COUNT_WRONG), ("UNMARK", OWN_REQUEST),
    ("NO_CALL", NOT_GIVEN_BACK), ("KEEP_OUTSIDE", KEPT_OUTSIDE),
    ("NO_TIMER", REQUEST_LOST), ("KEEP_ALWAYS", TOO_LONG),
    ("KEEP_RETURNED", LENT_ON), ("KEEP_REALTIME", LENT_ON), ("BACK_IN_READER", IN_A_SECTION),
    ("CALL_IGNORED", STILL_LENT), ("KEEP_LOAN", LENT_WITHOUT_CPU),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_loans_end_and_requests_are_followed(bounds: str, tmp_path: Path) -> None:
    defines, states = BOUNDS[bounds]
    check(bounds, verify(MODEL, tmp_path, *defines), states)


@pytest.mark.sampled
@pytest.mark.parametrize(("mutation", "error"), MUTATIONS)
def test_each_mutation_is_found(mutation: str, error: str, tmp_path: Path) -> None:
    assert error in first_error(f"ecs_free/{mutation}", MODEL, tmp_path, f"-D{mutation}")
