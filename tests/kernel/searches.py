# SPDX-License-Identifier: GPL-2.0-only
"""The searches for a window once more, to be compared with what a kernel did.

Each is told the inefficiency of the epoch at a window, and gives the window of the next.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

WHOLE = 1_000_000
"""Of which inefficiencies are parts."""
LIMIT = 2**32 - 1
"""The inefficiency that stands for all that is more."""


@dataclass(frozen=True)
class Bounds:
    """Where a search begins and how far it goes, cycles; as in section 4.1 of the paper."""

    start: int = 8192
    least: int = 4096
    most: int = 32768
    step: int = 1024

    def clamp(self, window: int) -> int:
        """The window next to it that is within the bounds."""
        return min(max(window, self.least), self.most)


Search = Generator[int, int, None]
Epoch = dict[str, int]
"""A line of a VM's file `epochs`, by its heads."""


def algorithm_1(bounds: Bounds) -> Search:
    """Shan, Ding and Gehani's; of equals the desired window is taken, then the longer one."""
    desired = bounds.clamp(bounds.start)
    while True:
        tried = [bounds.clamp(desired + away) for away in (0, bounds.step, -bounds.step)]
        costs = []
        for window in tried:
            costs.append((yield window))
        desired = tried[costs.index(min(costs))]


def steady(bounds: Bounds) -> Search:
    """`aple-steady`: it remembers while it stays, and gets faster while it moves."""
    desired, step = bounds.clamp(bounds.start), bounds.step
    gains = [0, 0]
    before = 0
    while True:
        tried = [bounds.clamp(desired + away) for away in (0, step, -step)]
        stay = yield tried[0]
        for side, window in enumerate(tried[1:]):
            cost = yield window
            gain = quotient((stay - cost) * WHOLE, max(stay, 1)) if window != desired else 0
            gains[side] += quotient(gain - gains[side], 2)
        moved = 0
        if max(gains) > 0:
            side = gains.index(max(gains))
            desired, moved, gains = tried[1 + side], (1, -1)[side], [0, 0]
        faster = moved and moved == before
        step = min(2 * step, (bounds.most - bounds.least) // 4) if faster else step // 2
        step, before = max(step, bounds.step), moved


def quotient(dividend: int, divisor: int) -> int:
    """As in C, where a negative one is rounded up."""
    return abs(dividend) // divisor * (1 if dividend > 0 else -1)


def inefficiency(one: Epoch) -> int:
    """What an epoch wasted, of its CPU time; rounded down."""
    if not one["cpu_ns"]:
        return LIMIT
    return min((one["spun_ns"] + one["handling_ns"]) * WHOLE // one["cpu_ns"], LIMIT)


def check(trace: Sequence[Epoch], rule: Callable[[Bounds], Search], bounds: Bounds) -> None:
    """That the windows of a VM, from its first epoch on, are those of a search.

    Its first epoch is that after the one in which its policy came into force; one
    without CPU time is tried once more.
    """
    search, window = None, 0
    assert trace[0]["epoch"] == 0, f"the first epochs are not kept any more: {trace[0]}"
    for one in trace:
        if not one["next"]:
            search, window = None, 0
        elif search is None:
            search = rule(bounds)
            window = next(search)
        elif one["cpu_ns"]:
            window = search.send(one["inefficiency_ppm"])
        assert one["next"] == window, f"{rule.__name__} has {window} after {one}"
