# SPDX-License-Identifier: GPL-2.0-only
"""Epochs of VMs: for how long their vCPUs could spin, and what they wasted.

The host keeps the latest of each VM in the file `epochs` of the VM's debugfs
folder: a line of HEADS, then one for each, in the order of time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lab.core.cells import WindowCost
from lab.core.model import RunRecord

HEADS = "epoch ended_ns spins window inefficiency_ppm spun_ns handling_ns cpu_ns next"
KEPT = 512
"""Epochs of a VM that the host keeps; of a run with more, the earlier ones are not known."""
STEP = 1024
"""Cycles that windows are rounded to where epochs are put together: one step of the search."""
LINE = re.compile(r"\d{1,20}( \d{1,20}){8}", re.ASCII)


@dataclass(frozen=True)
class Epoch:
    """One that is over."""

    ended: float
    """Seconds of the host's clock, as those of the records."""
    spins: int
    """Spins that reached the window."""
    window: int
    """Mean of the windows that they reached, cycles."""
    inefficiency: float
    """Time spent spinning in vain and handling it, of the VM's CPU time."""


Trace = tuple[Epoch, ...]
"""The epochs of a VM."""


def parse(lines: Sequence[str]) -> Trace | None:
    """The lines of a VM's file; None when they are not as documented."""
    if lines[:1] != [HEADS] or not all(map(LINE.fullmatch, lines[1:])):
        return None
    rows = [tuple(map(int, line.split(" "))) for line in lines[1:]]
    if any(new[0] <= old[0] or new[1] < old[1] for old, new in pairwise(rows)):
        return None
    return tuple(Epoch(ended / 1e9, spins, window, ppm / 1e6)
                 for _, ended, spins, window, ppm, *_ in rows)


def during(run: RunRecord, trace: Iterable[Epoch]) -> Trace:
    """Those that ended between the first guest's start and the last one's end."""
    began = min((guest.began for guest in run.guests if guest.began is not None), default=0.0)
    ended = max((guest.ended for guest in run.guests if guest.ended is not None), default=0.0)
    return tuple(one for one in trace if began <= one.ended <= ended)


def by_window(traces: Iterable[Trace]) -> tuple[WindowCost, ...]:
    """What epochs at the same window, to the nearest STEP, wasted; by window.

    As figures 8 to 10 of Shan, Ding and Gehani, TPDS 2017, set it beside each window.
    """
    found: dict[int, list[float]] = defaultdict(list)
    for one in (one for trace in traces for one in trace):
        found[STEP * round(one.window / STEP)].append(one.inefficiency)
    return tuple(_cost(window, values) for window, values in sorted(found.items()))


def _cost(window: int, inefficiencies: Sequence[float]) -> WindowCost:
    low, middle, high = map(float, np.percentile(inefficiencies, [25, 50, 75]))
    return WindowCost(window, len(inefficiencies), middle, (low, high))
