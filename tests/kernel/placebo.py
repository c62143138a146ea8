# SPDX-License-Identifier: GPL-2.0-only
"""Ways that one booted host is measured in by turns, one of which is another in all but name.

What the placebo differs in by itself, the way that is tried has to exceed.
"""

from collections.abc import Sequence
from statistics import mean

AS_IS, PLACEBO, TRIED = WAYS = ("as is", "placebo", "tried")
"""The second one is set up as the first one is."""


def turns(number: int) -> tuple[str, ...]:
    """The ways in the order of this round: of three rounds each way has each place once."""
    first = number % len(WAYS)
    return WAYS[first:] + WAYS[:first]


def counts(values: Sequence[int]) -> str:
    """Their sum, and from where to where they are."""
    return f"{sum(values)} ({min(values)} to {max(values)})"


def times(values: Sequence[float]) -> str:
    """Their mean, and from where to where they are, in seconds."""
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def row(title: str, *cells: str) -> str:
    """Of a table of docs/results."""
    return f"| {' | '.join((title, *cells))} |"
