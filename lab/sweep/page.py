# SPDX-License-Identifier: GPL-2.0-only
"""The page of a sweep: best settings with their intervals, flatness, marginal plots, curves."""

from pathlib import Path

from markupsafe import Markup

from lab.core import files
from lab.plan.sweeps import Sweep
from lab.report import carried, hunted, pages, swept, swept_page, swept_pictures
from lab.report.swept import Cell, Swept
from lab.report.swept_page import number
from lab.sweep import keep, search

FILE = "sweep.html"
MOST_SHOWN = 20
"""Settings in the table of the best."""


def make(sweep: Sweep, directory: Path, file: Path) -> str:
    """Write the page of a sweep's file, and what is kept of it; what they say as text.

    UsageError without a row.
    """
    found = keep.of(sweep, directory, file)
    judged = search.results(directory)
    shown = found.ranking[:MOST_SHOWN]
    heads, table = swept_page.ranking(found, shown)
    mixed = swept_page.mixed(found.facts)
    page = pages.environment().get_template(FILE).render(
        sweep=sweep, baseline=found.baseline, said=swept_page.said(found), facts=_facts(found),
        flat=found.flatness, heads=heads, ranking=table, shown=len(shown),
        count=len(found.ranking),
        judged=[(one.setting, number(one.seen), number(one.held), len(one.ratios))
                for one in judged],
        verdict=search.said(judged) if judged else "",
        plots=[(one.caption, Markup(one.svg)) for one in swept_pictures.plots(found)],
        carried=carried.grid(found) if found.carried else None,
        cells=[_cell(one) for one in found.cells], mixed=" ".join(mixed),
        hunt=hunted.grid(found) if found.hunted else None,
        findings=hunted.shown(found) if found.hunted else [],
        failed=[*found.facts.failed.items()])
    files.replace(directory / FILE, page)
    keep.write(found, directory)
    lines = ["  ".join(row) for row in table[:5]]
    return "\n".join([*lines, *swept_page.said(found), *found.flatness,
                      *([search.said(judged)] if judged else []), *mixed,
                      *(hunted.shown(found) if found.hunted else []),
                      *(str(directory / name) for name in (FILE, swept.FILE))])


def _facts(found: Swept) -> list[tuple[str, str]]:
    facts = found.facts
    return [
        ("sweep", f"{found.sweep.name}: {found.sweep.about}"),
        ("runs", f"{facts.runs}, {sum(facts.failed.values())} of them not valid, in {facts.boots}"
         f" boots of hosts by {facts.workers} workers; {facts.lacking} to be made"),
        ("cost", f"{facts.core_s / 3600:.2f} core-hours of CPU time;"
         f" {facts.wall_s / 3600:.2f} hours of workers"),
        ("runs of other builds, or made again", f"{facts.left_out}, left out"),
        ("machine models", ", ".join(found.sweep.machines)), ("backend", "vt"),
        ("kernel", facts.kernel), ("images", facts.images), ("emulator", facts.emulator),
        ("source commit", ", ".join(facts.commits)),
    ]


def _cell(one: Cell) -> list[str]:
    return [one.workload, one.machine, f"{one.vms} × {one.vcpus} on {one.pcpus}", one.setting,
            *swept_page.figures(one)]
