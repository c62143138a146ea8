# SPDX-License-Identifier: GPL-2.0-only
"""Whether a run counts, by what its guests did. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.core.model import GuestRun
from lab.plan.schedule import MIN_OVERLAP, overlap


@dataclass(frozen=True)
class Seen:
    """What is known of one guest after a round."""

    run: GuestRun
    trouble: str = ""
    """Why it failed or fell silent; nothing if it did neither."""
    killed: bool = False
    """On purpose, so it owes neither a status nor its share of the time."""
    worst: int = 0
    """Exit status of the command when it ran again as load, other than 0 if any was."""


def share(seen: Sequence[Seen]) -> float:
    """`overlap` of the guests that were not killed, 0 to 1."""
    return overlap(one.run for one in seen if not one.killed)


def why_invalid(seen: Sequence[Seen], lacking: str) -> str:
    """The first reason why the run does not count, or nothing if it does.

    `lacking` is what was to be done to the guests and was not, as a reason, or nothing.
    """
    for one in seen:
        if reason := _of_guest(one):
            return reason
    part = share(seen)
    if part < MIN_OVERLAP:
        return f"only {part:.0%} of the measured time was overlapped"
    return lacking


def _of_guest(one: Seen) -> str:
    if one.trouble or one.killed:
        return one.trouble
    said = "the command ended with status {} in guest " + one.run.guest
    if one.run.status:
        return said.format(one.run.status)
    return said.format(one.worst) + " when it ran again as load" if one.worst else ""
