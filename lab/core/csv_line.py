# SPDX-License-Identifier: GPL-2.0-only
"""Lines of CSV that commands write for each VM and look."""

import csv
import io
import time
from collections.abc import Iterable


def stamp(now: float) -> str:
    """The time in a line; `now` is seconds since 1970."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def cell(value: float | None) -> str:
    """A figure; nothing if it is unknown."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def line(cells: Iterable[str]) -> str:
    """The whole line."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()
