# SPDX-License-Identifier: GPL-2.0-only
"""The comparison as text: schemes down, numbers of VMs across."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lab.core.cells import Cell
from lab.core.model import Workload
from lab.observe import observed
from lab.report import footer, modes, opening, placebo
from lab.report.grids import Grid, columns, known, number, observed_grids, percent, waits
from lab.report.summary import Summary
from lab.report.verdict import speedup

REFERENCE = "ticket"
"""Speed-ups are also shown over this scheme, when it took part."""
TEXT_WIDTH = 110


OBSERVED = {
    "locks": "counted their locks, which slows each acquisition",
    "tlb": "timed their remote TLB flushes, which slows each of them",
    "ecs": "timed the wake-ups of waiters for mutexes and rwsems, which slows each of them",
}
"""What was counted to what that means."""


def cell_text(cell: Cell) -> str:
    """`1.23 ± 4 %  (+12.3 %)*`, or a dash without values."""
    if cell.median is None:
        return "-"
    parts = [number(cell.median)]
    if cell.spread is not None:
        parts.append(f" ± {100 * cell.spread:.0f} %")
    if cell.vs_baseline is not None:
        parts.append(f"  ({percent(cell.vs_baseline)})")
    return "".join(parts) + modes.MARK * cell.bimodal + "*" * cell.significant


def rows(summary: Summary, workload: Workload) -> Iterator[tuple[str, list[str]]]:
    """Scheme and its cells; the last row is the baseline's ideal."""
    m = summary.results.manifest
    for scheme in m.schemes:
        cells = [summary.cell(scheme.label, workload.name, vms) for vms in m.vms]
        yield scheme.label, [cell_text(cell) for cell in cells]
    ideals = [summary.cell(m.baseline, workload.name, vms).ideal for vms in m.vms]
    if any(ideal is not None for ideal in ideals):
        yield "ideal", [known(ideal) for ideal in ideals]


def speedup_rows(summary: Summary, workload: Workload) -> Iterator[tuple[str, list[str]]]:
    """Scheme and its speed-ups over REFERENCE; nothing when that is not there."""
    m = summary.results.manifest
    if REFERENCE not in {scheme.label for scheme in m.schemes} or len(m.schemes) < 2:
        return
    for scheme in m.schemes:
        ratios = [
            speedup(
                summary.cell(scheme.label, workload.name, vms),
                summary.cell(REFERENCE, workload.name, vms),
            )
            for vms in m.vms
        ]
        yield scheme.label, ["-" if r is None else f"{r:.2f}" for r in ratios]


def caption(summary: Summary, workload: Workload) -> str:
    """What the figures of a workload's table are."""
    m = summary.results.manifest
    return (
        f"{workload.name}: {workload.metric} ({workload.unit}), {workload.better} is better;"
        f" {m.vcpus}-vCPU guests on {m.pcpus} pCPUs{', tied' if m.pin else ''}"
    )


def grids(summary: Summary, workload: Workload) -> list[Grid]:
    """Every table of a workload that the summary has the values for."""
    return (main_grids(summary, workload) + waits(summary, workload)
            + observed_grids(summary, workload))


def main_grids(summary: Summary, workload: Workload) -> list[Grid]:
    """Its figures, and the speed-ups over REFERENCE."""
    heads = columns(summary.results.manifest.vms)
    found = [Grid(caption(summary, workload), "scheme", heads, list(rows(summary, workload)))]
    faster = list(speedup_rows(summary, workload))
    if faster:
        title = f"{workload.name}: speed-up over {REFERENCE}, times"
        found.append(Grid(title, "scheme", heads, faster))
    return found


def notes(summary: Summary) -> list[str]:
    """What a reader of the table has to know; one sentence or two each."""
    m = summary.results.manifest
    lines = [
        f"Cell: median ± half the inter-quartile range (difference from {m.baseline}).",
        footer.star_note(summary),
        footer.count_note(summary),
    ]
    if 1 in m.vms:
        lines.append(
            f"ideal: the 1-VM median of {m.baseline} times the overcommit (a rate: divided by it)."
        )
    return [*lines, *placebo.notes(m, summary.cells), *_observed_notes(summary),
            *_disturbed_notes(summary), *footer.invalid_notes(summary)]


def _disturbed_notes(summary: Summary) -> list[str]:
    """What was done to the guests of the valid runs."""
    done = Counter[str]()
    for cell in summary.cells:
        done.update(cell.disturbed)
    if not summary.results.manifest.disturb:
        return []
    times = ", ".join(f"{kind} {number:,}" for kind, number in sorted(done.items())) or "nothing"
    return [f"Guests were disturbed while they were measured; in the valid runs: {times} times."]


def _observed_notes(summary: Summary) -> list[str]:
    what = set(observed.counted(summary.results.manifest.observe))
    seen = [cell.observed for cell in summary.cells if cell.observed]
    if all(one.flushes is None for one in seen):
        what -= {"tlb"}
    if not any("park_wakeups" in one.counters for one in seen):
        what -= {"ecs"}
    did = ", and ".join(text for name, text in OBSERVED.items() if name in what)
    return [f"Observed: the guests {did}; compare only with runs that were observed too."] \
        if did else []


def render(summary: Summary) -> list[RenderableType]:
    """What to print, in order."""
    parts: list[RenderableType] = [_note(line) for line in opening.lines(summary)]
    parts += [Text()] * bool(parts)
    free = opening.ideals(summary)
    shown = [[free]] if free else []
    shown += [grids(summary, workload) for workload in summary.results.manifest.workloads]
    for several in shown:
        for grid in several:
            parts += [_table(grid), *map(_note, grid.notes), *([Text()] if grid.notes else [])]
    return parts + [_note(line) for line in notes(summary)]


def _note(line: str) -> Padding:
    return Padding(Text(line), (0, 0, 0, 1))


def _table(grid: Grid) -> Table:
    table = Table(title=grid.caption, title_justify="left", title_style="bold",
                  box=box.SIMPLE_HEAD)
    table.add_column(grid.first, no_wrap=True)
    for name in grid.columns:
        table.add_column(name, justify="right", no_wrap=True)
    starred = [any(row[i].endswith("*") for _, row in grid.rows)
               for i in range(len(grid.columns))]
    for label, plain in grid.rows:
        style = "dim" if label == "ideal" else None
        cells = [
            cell + " " if star and not cell.endswith("*") else cell
            for cell, star in zip(plain, starred, strict=True)
        ]
        table.add_row(Text(label), *(_styled(cell) for cell in cells), style=style)
    return table


def _styled(cell: str) -> Text:
    return Text(cell, style="bold" if cell.endswith("*") else "")


def least_width(summary: Summary) -> int:
    """Columns of a terminal that the table fits in for certain."""
    return max(20 + 36 * len(summary.results.manifest.vms), _widest(render(summary)))


def _widest(parts: Iterable[RenderableType]) -> int:
    """Columns that all tables fit in, and TEXT_WIDTH at least."""
    probe = Console(file=io.StringIO(), width=1 << 16)
    tables = (part for part in parts if isinstance(part, Table))
    return max((TEXT_WIDTH, *(probe.measure(table).maximum for table in tables)))


def as_text(summary: Summary) -> str:
    """table.txt: the same without colours, wide enough for every column."""
    return plain(render(summary), least_width(summary))


def lines_and_grids(top: Iterable[str], grids: Iterable[Grid], foot: Iterable[str]) -> str:
    """Sentences, tables and sentences as text."""
    parts: list[RenderableType] = [*map(_note, top), Text(), *map(_table, grids), *map(_note, foot)]
    return plain(parts, _widest(parts))


def plain(parts: Iterable[RenderableType], width: int) -> str:
    """What to print as text, without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
