# SPDX-License-Identifier: GPL-2.0-only
"""How long remote TLB flushes took: the guests' `tlb_latency`, and figures of it.

The file has for each mechanism that flushed

    mechanism NAME
    calls NUMBER
    wall_ns SUM MAX       as the caller saw it
    ran_ns SUM MAX        without the caller's own stolen time
    LOWER WALL RAN        flushes by length, for each bucket that has any

Times are nanoseconds. Buckets are 1 ns wide below 8 ns; above, each power of
two has 8 of equal width.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from lab.core.cells import FlushTimes, Latency, Observed

MECHANISM = re.compile(r"mechanism ([a-z0-9][\w-]*)", re.ASCII)
HEAD = tuple(re.compile(line, re.ASCII) for line in (
    r"calls (\d{1,20})", r"wall_ns (\d{1,20}) (\d{1,20})", r"ran_ns (\d{1,20}) (\d{1,20})"))
BUCKET = re.compile(r"(\d{1,20}) (\d{1,20}) (\d{1,20})", re.ASCII)
LINEAR_BITS = 3
IN_FLIGHT = 64
"""So many flushes may end while the file is read and be in one line, not in another."""
ALL = "all"
"""Name of all mechanisms together."""


@dataclass(frozen=True)
class Times:
    """By one clock: sum, largest value, and lower bound of a bucket to its number."""

    sum_ns: int
    max_ns: int
    buckets: dict[int, int]


@dataclass(frozen=True)
class Flushes:
    """Of one mechanism."""

    calls: int
    wall: Times
    ran: Times


NONE = Flushes(0, Times(0, 0, {}), Times(0, 0, {}))
Timed = dict[str, Flushes]
"""Mechanism to its flushes."""


def upper(lower: int) -> int:
    """Where the bucket ends that begins at `lower`, exclusive."""
    return lower + (1 << max(0, lower.bit_length() - 1 - LINEAR_BITS))


def parse(lines: Sequence[str]) -> Timed | None:
    """Read the whole file's lines; None when anything in it is not as documented.

    Nothing is taken from a damaged file: a section that is lost would pass for
    a mechanism that never flushed.
    """
    found: Timed = {}
    rest = list(lines)
    while rest:
        heading = MECHANISM.fullmatch(rest[0])
        end = next((i for i in range(1, len(rest)) if MECHANISM.fullmatch(rest[i])), len(rest))
        section = _section(rest[1:end])
        if not heading or heading[1] in found or section is None:
            return None
        found[heading[1]] = section
        rest = rest[end:]
    return found


def _section(lines: list[str]) -> Flushes | None:
    matches = [pattern.fullmatch(line)
               for pattern, line in zip(chain(HEAD, repeat(BUCKET)), lines, strict=False)]
    if len(matches) < len(HEAD) or not all(matches):
        return None
    (calls,), wall, ran, *rows = [tuple(map(int, match.groups())) for match in matches if match]
    lowers = [row[0] for row in rows]
    if len(set(lowers)) != len(lowers) or not all(map(_begins, lowers)):
        return None
    times = [Times(total, most, {row[0]: row[place] for row in rows if row[place]})
             for place, (total, most) in enumerate((wall, ran), 1)]
    if any(abs(sum(one.buckets.values()) - calls) > IN_FLIGHT for one in times):
        return None
    return Flushes(calls, *times)


def _begins(lower: int) -> bool:
    """Whether a bucket begins there."""
    return lower % (upper(lower) - lower) == 0


def between(before: Timed | None, after: Timed | None) -> Timed | None:
    """What was added from one reading to the next; None when that is not known.

    The largest time is that since the file was cleared, which is right before
    `before`; should it be from before that, the last bucket that grew bounds it.
    """
    if before is None or after is None:
        return None
    found: Timed = {}
    for name in {**before, **after}:
        old, new = (side.get(name, NONE) for side in (before, after))
        calls = new.calls - old.calls
        wall, ran = _times_between(old.wall, new.wall), _times_between(old.ran, new.ran)
        if calls < 0 or wall is None or ran is None:
            return None
        if calls and not (wall.buckets and ran.buckets):
            return None
        if calls:
            found[name] = Flushes(calls, wall, ran)
    return found


def _times_between(old: Times, new: Times) -> Times | None:
    grown = Counter(new.buckets)
    grown.subtract(old.buckets)
    if new.sum_ns < old.sum_ns or min(grown.values(), default=0) < 0:
        return None
    buckets = {lower: number for lower, number in grown.items() if number}
    most = min(new.max_ns, max(map(upper, buckets), default=1) - 1)
    return Times(new.sum_ns - old.sum_ns, most, buckets)


def merged(parts: Iterable[Timed | None]) -> Timed | None:
    """All guests and runs together, by mechanism; None when a part is unknown."""
    by_name: dict[str, list[Flushes]] = {}
    for part in parts:
        if part is None:
            return None
        for name, flushes in part.items():
            by_name.setdefault(name, []).append(flushes)
    return {name: together(by_name[name]) for name in sorted(by_name)}


def together(parts: Sequence[Flushes]) -> Flushes:
    """All of these flushes; there must be some."""
    return Flushes(sum(part.calls for part in parts),
                   _times_together([part.wall for part in parts]),
                   _times_together([part.ran for part in parts]))


def _times_together(parts: Sequence[Times]) -> Times:
    buckets: Counter[int] = Counter()
    for part in parts:
        buckets.update(part.buckets)
    return Times(sum(part.sum_ns for part in parts), max(part.max_ns for part in parts),
                 dict(buckets))


# Figures


def percentile(times: Times, percent: int) -> float:
    """Nanoseconds in which `percent` of the flushes (1 to 100) had ended.

    The true value lies in the same bucket; those of a bucket are taken as
    spread evenly over it. Raises ValueError without a flush.
    """
    left = -(-percent * sum(times.buckets.values()) // 100)
    for lower, number in sorted(times.buckets.items()):
        if left <= number:
            inside = (left - 0.5) / number * (upper(lower) - 1 - lower)
            return min(lower + inside, float(times.max_ns))
        left -= number
    raise ValueError("no flush has a percentile")


def distribution(buckets: Mapping[int, int]) -> list[tuple[int, float]]:
    """Points of the distribution function: nanoseconds, share of the flushes below them.

    `buckets` is lower bound to number. Shares rise from 0, at the beginning
    of the first bucket, to 1, at the end of the last. Empty without a flush.
    """
    points: list[tuple[int, float]] = []
    whole, below = sum(buckets.values()), 0
    for lower, number in sorted(buckets.items()):
        if not points or points[-1][0] < lower:
            points.append((lower, below / whole))
        below += number
        points.append((upper(lower), below / whole))
    return points


def figures(timed: Timed | None) -> tuple[FlushTimes, ...] | None:
    """What a report says of them, the mechanisms after ALL when there are several."""
    if timed is None:
        return None
    several = {ALL: together(list(timed.values()))} if len(timed) > 1 else {}
    return tuple(_figures(name, flushes) for name, flushes in (several | timed).items())


def whole(seen: Observed | None) -> FlushTimes | None:
    """Of a cell, all mechanisms together; None when unknown or without a flush."""
    return seen.flushes[0] if seen and seen.flushes else None


def _figures(name: str, flushes: Flushes) -> FlushTimes:
    wall, ran = flushes.wall.buckets, flushes.ran.buckets
    return FlushTimes(
        mechanism=name,
        calls=flushes.calls,
        wall=_latency(flushes.wall, flushes.calls),
        ran=_latency(flushes.ran, flushes.calls),
        buckets=tuple((lower, wall.get(lower, 0), ran.get(lower, 0))
                      for lower in sorted({**wall, **ran})),
    )


def _latency(times: Times, calls: int) -> Latency:
    p50, p90, p99 = (percentile(times, percent) for percent in (50, 90, 99))
    return Latency(times.sum_ns / calls, p50, p90, p99, times.max_ns)
