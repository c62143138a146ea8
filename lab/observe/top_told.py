# SPDX-License-Identifier: GPL-2.0-only
"""What `pvsync top` shows, as CSV and JSON for programs: shares are 0 to 1, unknown is nothing."""

import json
from dataclasses import asdict

from lab.core import csv_line
from lab.observe.preemptions import KINDS
from lab.observe.top import Row

PLAIN = ("pid", "vcpus", "held_up", "preempted_per_s", "yields_per_s")
WHY = ("avoided", "unavoidable_per_s", "granted_per_s", "us_per_grant", "unmarked")
"""Of a pvsync host, beside how many preemptions there were of each kind, for each second."""


def head() -> str:
    """The first line of CSV."""
    return csv_line.line(["time", "vm", *PLAIN, *(f"{kind}_per_s" for kind in KINDS), *WHY])


def as_csv(found: list[Row], now: float) -> str:
    """A line for each VM; `now` is seconds since 1970."""
    stamp = csv_line.stamp(now)
    return "".join(csv_line.line([stamp, row.name, *map(csv_line.cell, _values(row))])
                   for row in found)


def as_json(found: list[Row], seconds: float) -> str:
    """One object in one line."""
    vms = [{name: value for name, value in asdict(row).items() if name != "why"} | {
        "why": None if row.why is None else {
            "per_s": row.why.kinds, **{name: getattr(row.why, name) for name in WHY}}}
        for row in found]
    return json.dumps({"seconds": seconds, "vms": vms})


def _values(row: Row) -> list[float | None]:
    why: list[float | None] = [None] * (len(KINDS) + len(WHY))
    if row.why is not None:
        why = [*(row.why.kinds[kind] for kind in KINDS),
               *(getattr(row.why, name) for name in WHY)]
    return [*(getattr(row, name) for name in PLAIN), *why]
