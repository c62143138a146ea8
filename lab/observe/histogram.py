# SPDX-License-Identifier: GPL-2.0-only
"""Histograms of waits: a line `bin waits sum` for each bin in which there are any.

Bins are powers of two of some unit: bin n has the waits of at least 2^(n-1)
and below 2^n of it, bin 0 those below 1.
"""

import re
from collections.abc import Sequence

from lab.observe.counters import grown, rows

LINE = re.compile(r"(\d{1,2}) (\d{1,20}) (\d{1,20})", re.ASCII)

Bins = dict[int, tuple[int, int]]
"""Bin to its waits and the time that they took."""


def parse(lines: list[str]) -> Bins | None:
    """Read a file's lines; None when they cannot be trusted. A malformed tail is left out."""
    found = rows(LINE, lines)
    if found is None:
        return None
    return {int(number): (waits, time) for number, (waits, time) in found.items()}


def between(before: Bins | None, after: Bins | None) -> Bins | None:
    """The bins with new waits alone; None when one is unknown, or went backwards."""
    if before is None or after is None:
        return None
    found = {}
    for number in sorted({*before, *after}):
        pairs = zip(before.get(number, (0, 0)), after.get(number, (0, 0)), strict=True)
        waits, time = (grown(*pair) for pair in pairs)
        if waits is None or time is None:
            return None
        if waits:
            found[number] = (waits, time)
    return found


def total(parts: Sequence[Bins | None]) -> tuple[tuple[int, int, int], ...]:
    """Bin, waits, time: the sums of all parts; empty when one is unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return ()
    return tuple(
        (number, sum(part.get(number, (0, 0))[0] for part in known),
         sum(part.get(number, (0, 0))[1] for part in known))
        for number in sorted({number for part in known for number in part})
    )
