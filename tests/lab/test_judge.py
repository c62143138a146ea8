# SPDX-License-Identifier: GPL-2.0-only
"""Whether a run counts: each reason alone, and which of several is told."""

import pytest

from lab.core.model import GuestRun
from lab.run.judge import Seen, share, why_invalid


def seen(name: str = "a-0", began: float = 0.0, ended: float = 10.0, status: int | None = 0,
         **known: object) -> Seen:
    """A guest whose run is fine unless told."""
    return Seen(GuestRun(name, began, ended, ended - began, status, ""),
                **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(("guests", "lacking", "reason"), [
    ([seen(), seen("a-1")], "", ""),
    ([seen(), seen("a-1", status=3)], "", "the command ended with status 3 in guest a-1"),
    ([seen(worst=4)], "",
     "the command ended with status 4 in guest a-0 when it ran again as load"),
    ([seen(status=3, worst=4)], "", "the command ended with status 3 in guest a-0"),
    ([seen(status=3), seen("a-1", trouble="fell silent")], "x",
     "the command ended with status 3 in guest a-0"),
    ([seen(status=3, trouble="fell silent")], "", "fell silent"),
    ([seen(), seen("a-1", began=9.0, ended=19.0)], "x",
     "only 55% of the measured time was overlapped"),
    ([seen()], "not disturbed", "not disturbed"),
])
def test_the_first_reason_is_told(guests: list[Seen], lacking: str, reason: str) -> None:
    assert why_invalid(guests, lacking) == reason


def test_a_guest_that_was_killed_owes_nothing() -> None:
    """Neither a status nor time; what it said of trouble counts all the same."""
    killed = seen("a-1", began=0.0, ended=1.0, status=None, killed=True, worst=9)
    assert share([seen(), killed]) == 1.0
    assert why_invalid([seen(), killed], "") == ""
    assert why_invalid([seen("a-1", killed=True, trouble="oops")], "") == "oops"
