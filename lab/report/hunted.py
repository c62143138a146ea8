# SPDX-License-Identifier: GPL-2.0-only
"""What a sweep that hunts for faults has shown: none, or each with what finds it again."""

from collections import Counter

from lab.core.words import many
from lab.report import findings, markdown
from lab.report.findings import MOST_SHOWN
from lab.report.grids import Grid
from lab.report.swept import Found, Swept

DOUBT = 0.05
"""Chance that a fault which shows as often as is said would have shown in no run."""
KINDS = tuple(name for name, _ in findings.KINDS)


def said(found: Swept) -> list[str]:
    """The most important first."""
    hunted = found.hunted
    assert hunted
    failed = len(hunted.findings)
    if not hunted.runs:
        return ["No run of the hunt came about."]
    least = min(hunted.runs.values())
    if failed:
        seeds = len({one.seed for one in hunted.findings})
        return [f"{failed} of {many(sum(hunted.runs.values()), 'run')} showed a fault, by {seeds}"
                f" of {many(hunted.seeds, 'seed')}."]
    return [f"{many(sum(hunted.runs.values()), 'run')} of {many(hunted.seeds, 'seed')} showed no"
            " fault.",
            f"Where {many(least, 'run')} of a program show none, a fault shows in fewer than"
            f" {1 - DOUBT ** (1 / least):.2g} of its runs, with {100 * (1 - DOUBT):.0f} %"
            " confidence."]


def grid(found: Swept) -> Grid:
    """Runs and faults, a row for each scheme and program."""
    hunted = found.hunted
    assert hunted
    seen = Counter((one.place, one.kind) for one in hunted.findings)
    return Grid("Runs and the faults that they showed", "scheme, program", ["runs", *KINDS], [
        (place, [str(count), *(str(seen[place, kind]) for kind in KINDS)])
        for place, count in hunted.runs.items()])


def shown(found: Swept) -> list[str]:
    """Each finding in a line, and how to see it again; nothing without one."""
    hunted = found.hunted
    assert hunted
    if not hunted.findings:
        return []
    again = " ".join(found.command)
    lines = [_line(one) for one in hunted.findings[:MOST_SHOWN]]
    if len(hunted.findings) > MOST_SHOWN:
        lines.append(f"And {len(hunted.findings) - MOST_SHOWN} more, in sweep.json.")
    return [*lines, f"To see one again: {again} --unit UNIT --out DIR, then ./pvsync replay DIR"
            " RUN with the run that failed there."]


def _line(one: Found) -> str:
    return (f"{one.kind}, {one.place}, seed {one.seed}, unit {one.unit}:"
            f" {one.reason.rstrip('.: ')}.")


def block(found: Swept, alerts: list[str], provenance: str) -> str:
    """What stands between the markers in a page."""
    head, *others = said(found)
    parts = [markdown.wrapped(f"**{markdown.escaped(head)}**"),
             markdown.items([*others, *alerts]), markdown.grid(grid(found)),
             markdown.items(shown(found)), provenance]
    return "\n\n".join(part for part in parts if part)
