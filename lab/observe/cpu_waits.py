# SPDX-License-Identifier: GPL-2.0-only
"""How long a VM's vCPUs waited for a CPU, after they were preempted or woken.

The host tells it in the file `cpu_waits` of the VM's debugfs folder: a
histogram in microseconds whose sums are nanoseconds, then two lines

    lasts NS
    longest NS

of which the first is of waits that are not over; kernels from before it do without. Whatever
is written to the file clears it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.core.cells import CpuWaits
from lab.observe import histogram
from lab.observe.counters import ratio
from lab.observe.histogram import Bins

FILE = "cpu_waits"
LASTS = re.compile(r"lasts (\d{1,20})", re.ASCII)
LONGEST = re.compile(r"longest (\d{1,20})", re.ASCII)
LAST = 23
"""The bin that has all longer waits too."""


@dataclass(frozen=True)
class Waited:
    """What was counted of one VM."""

    bins: Bins
    longest_ns: int
    lasts_ns: int = 0
    """The longest that was not over when it was read."""


def parse(lines: list[str]) -> Waited | None:
    """Read the whole file's lines; None when anything in it is not as documented."""
    longest = LONGEST.fullmatch(lines[-1]) if lines else None
    lasts = LASTS.fullmatch(lines[-2]) if len(lines) > 1 else None
    rows = lines[:-2] if lasts else lines[:-1]
    bins = histogram.parse(rows)
    if not longest or bins is None or len(bins) < len(rows) or max(bins, default=0) > LAST:
        return None
    return Waited(bins, int(longest[1]), int(lasts[1]) if lasts else 0)


def most_ns(number: int, longest_ns: int) -> int:
    """What no wait of a bin exceeds, when `longest_ns` is the longest of all bins."""
    return longest_ns if number == LAST else min(longest_ns, 1000 << number)


def between(before: Waited | None, after: Waited | None) -> Waited | None:
    """What was added from one reading to the next; None when that is not known.

    The longest wait is that since the file was cleared, which is right before
    `before`; should it be from before that, the last bin that grew bounds it. One
    that lasts on counts with what it has reached.
    """
    if before is None or after is None:
        return None
    bins = histogram.between(before.bins, after.bins)
    if bins is None:
        return None
    longest = most_ns(max(bins), after.longest_ns) if bins else 0
    return Waited(bins, max(longest, after.lasts_ns))


def percentile_ns(waited: Waited, percent: int) -> int:
    """Nanoseconds that at most 100 - `percent` of the waits exceeded, to their bin's end.

    Raises ValueError without a wait.
    """
    left = -(-percent * sum(waits for waits, _ in waited.bins.values()) // 100)
    for number, (waits, _) in sorted(waited.bins.items()):
        if left <= waits:
            return most_ns(number, waited.longest_ns)
        left -= waits
    raise ValueError("no wait has a percentile")


def figures(runs: Iterable[tuple[Sequence[Waited | None], float]]) -> CpuWaits | None:
    """What a report says of runs, each its VMs and its seconds.

    None when one VM of one run is unknown: it may be the one that starved.
    """
    listed = list(runs)
    known = [one for each, _ in listed for one in each if one is not None]
    vms = max((len(each) for each, _ in listed), default=0)
    if not known or len(known) < len(listed) * vms:
        return None
    longest = [max(one.longest_ns for one in known[place::vms]) for place in range(vms)]
    rows = histogram.total([one.bins for one in known])
    waits, ns = (sum(row[place] for row in rows) for place in (1, 2))
    whole = Waited({number: (some, time) for number, some, time in rows}, max(longest))
    return CpuWaits(
        per_s=ratio(waits, sum(seconds for _, seconds in listed)),
        mean_ms=ratio(ns, 1e6 * waits),
        p99_ms=percentile_ns(whole, 99) / 1e6 if waits else None,
        longest_ms=max(longest) / 1e6,
        vms_longest_ms=tuple(one / 1e6 for one in longest),
    )
