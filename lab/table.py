# SPDX-License-Identifier: GPL-2.0-only
"""The comparison as text: schemes down, numbers of VMs across."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lab import counters, figures, flushes, footer, modes, observed, placebo, preemptions
from lab.model import Cell, FlushTimes, Observed, Workload
from lab.observed import Observation
from lab.summary import Summary

REFERENCE = "ticket"
"""Speed-ups are also shown over this scheme, when it took part."""
TEXT_WIDTH = 110


@dataclass(frozen=True)
class Grid:
    """One table: rows are opened by a label, `columns` are the heads of the other cells."""

    caption: str
    first: str
    """Head of the labels."""
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    notes: tuple[str, ...] = ()
    """What a reader of this table alone has to know."""


@dataclass(frozen=True)
class _Part:
    """Something that kernels do and count, as a table."""

    about: str
    counters: tuple[str, ...]
    """How the names of its counters begin."""
    where: Literal["host", "counters"]
    """Of `Observed`: whose counters they are, the host's or the guests'."""
    heads: tuple[str, ...]
    figures: Callable[[Observation], tuple[float | None, ...]]
    """Of one run, under these heads."""
    note: str


PARTS = (
    _Part(
        "what the host did about spinning vCPUs", ("spin_", "yield_"), "host",
        figures.SPIN_FIGURES, figures.spin_figures,
        "Medians of the runs. accepted, picked, moved, ran: of the yields attempted. handling:"
        " spin_ns, of the time of all pCPUs. deviation: of the VM whose CPU time is farthest from"
        " the VMs' mean, from that mean.",
    ),
    _Part(
        "what pause filters told the host, and whom it chose",
        ("spin_filter", "spin_soft", "pause_", "pick_"), "host",
        figures.PAUSE_FIGURES, figures.pause_figures,
        "Medians of the runs. spins: those that reached the window; window: their mean, cycles."
        " inefficiency: time of such spins and of handling them, of the VMs' CPU time, in the"
        " epochs that ended. PAUSEs/spin, cycles/PAUSE: of the filter in software, exit and entry"
        " included. resource, lock, yielded, section, nobody: of the choices of hvs and the like.",
    ),
    _Part(
        "what the host did about requests to flush translations", ("tlb_",), "host",
        figures.FLUSH_FIGURES, figures.flush_figures,
        "Medians of the runs. running, preempted, halted, in host, merged: of the targets. full,"
        " pages, refused: numbers of a run. us/call: tlb_ns over tlb_calls. handling: tlb_ns, of"
        " the time of all pCPUs.",
    ),
    _Part(
        "what the host did about preemptions in critical sections", ("extend_",), "host",
        figures.EXTEND_FIGURES, figures.extend_figures,
        "Medians of the runs. granted: put off; denied, capped: not, because something else had"
        " precedence, or the vCPU had borrowed too much; numbers of a run. Of those granted, in"
        " time: the vCPU had left its sections when it lost the CPU; expired: it had not;"
        " returned: the guest gave the CPU back.",
    ),
    _Part(
        "waits for mutexes and rwsems", ("park_",), "counters", figures.PARK_FIGURES,
        figures.park_figures,
        "Medians of the runs, of all guests together. slept: the others spun to their end."
        " wake-up: from the wake-up of one that slept until it had a CPU of the guest.",
    ),
)
OBSERVED = {
    "locks": "counted their locks, which slows each acquisition",
    "tlb": "timed their remote TLB flushes, which slows each of them",
    "ecs": "timed the wake-ups of waiters for mutexes and rwsems, which slows each of them",
}
"""What was counted to what that means."""
LATENCIES = ("mean", "p50", "p90", "p99", "max")
PAPER_SCHEMES = ("baseline", "kvmtlb", "shoot4u")
PAPER_FLUSHES = {
    1: ((166, 122, 28), (24_428, 9_953, 453)),
    2: ((9_048, 5_401, 22), (194_108, 126_923, 15_034)),
}
"""Number of VMs to means and largest values, microseconds, by PAPER_SCHEMES:
Ouyang, Lange and Zheng, "Shoot4U", VEE 2016, table 1."""
PAPER_NOTE = (
    "paper: Ouyang, Lange and Zheng, VEE 2016, table 1, for comparison only: PARSEC's dedup in"
    " 12-vCPU guests on one socket of an Ivy Bridge Xeon, Linux 3.16, the second VM computing."
)


def number(value: float) -> str:
    """Three significant digits, never an exponent: 0.112, 12.3, 1,234."""
    if value == 0:
        return "0"
    decimals = 0
    while decimals < 6 and abs(value) * 10**decimals < 99.95:
        decimals += 1
    return f"{value:,.{decimals}f}"


def percent(ratio: float) -> str:
    """+12.3 %, -4.0 %, +212 %."""
    value = 100 * ratio
    return f"{value:+,.1f} %" if abs(value) < 99.95 else f"{value:+,.0f} %"


def known(value: float | None) -> str:
    """The number, or a dash."""
    return "-" if value is None else number(value)


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


def speedup(cell: Cell, reference: Cell) -> float | None:
    """How many times faster than the reference; None without values."""
    if not cell.median or not reference.median:
        return None
    ratio = reference.median / cell.median
    return ratio if cell.better == "lower" else 1 / ratio


def columns(vms: tuple[int, ...]) -> list[str]:
    return [f"{count} VM" if count == 1 else f"{count} VMs" for count in vms]


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
    heads = columns(summary.results.manifest.vms)
    found = [Grid(caption(summary, workload), "scheme", heads, list(rows(summary, workload)))]
    faster = list(speedup_rows(summary, workload))
    if faster:
        title = f"{workload.name}: speed-up over {REFERENCE}, times"
        found.append(Grid(title, "scheme", heads, faster))
    seen = (
        _spinning(summary, workload),
        _flush_means(summary, workload),
        _flush_details(summary, workload),
        _preempted(summary, workload),
        *(_part(summary, workload, part) for part in PARTS),
        _cpu_waits(summary, workload),
        _windows(summary, workload),
        _counted(summary, workload),
    )
    return found + [grid for grid in seen if grid.rows]


def _observed(summary: Summary, workload: Workload) -> Iterator[tuple[str, int, Observed]]:
    """Scheme, number of VMs, and what was observed of the cell, where it was."""
    m = summary.results.manifest
    for scheme in m.schemes:
        for vms in m.vms:
            seen = summary.cell(scheme.label, workload.name, vms).observed
            if seen:
                yield scheme.label, vms, seen


def _spinning(summary: Summary, workload: Workload) -> Grid:
    m = summary.results.manifest
    body = []
    for scheme in m.schemes:
        cells = [summary.cell(scheme.label, workload.name, vms).observed for vms in m.vms]
        shares = [cell.spinning if cell else None for cell in cells]
        if any(share is not None for share in shares):
            body.append((scheme.label, [known(s if s is None else 100 * s) for s in shares]))
    return Grid(
        f"{workload.name}: spinning (% of the CPU time of the VMs)", "scheme", columns(m.vms), body,
        ("Time waited for locks, without what the host took and what was spent halted, of the"
         " CPU time that the VMs got: the median of the runs.",),
    )


def _preempted(summary: Summary, workload: Workload) -> Grid:
    """How vCPUs lost their CPUs, under the schemes for which the host knows."""
    body = []
    for label, vms, seen in _observed(summary, workload):
        for one in seen.preemptions or ():
            shares = [None if share is None else 100 * share
                      for share in (one.avoided, one.avoided_with_stuck, one.borrowed,
                                    one.unmarked)]
            values = (one.per_s, *one.kinds.values(), one.unavoidable_per_s, *shares[:2],
                      one.granted_per_s, one.us_per_grant, *shares[2:])
            body.append((label, [str(vms), one.vms, *map(known, values)]))
    return Grid(
        f"{workload.name}: why vCPUs were preempted (1/s)", "scheme",
        ["VMs", "of them", "all kinds", *preemptions.KINDS, "unavoidable", "avoided %",
         "with stuck %", "granted/s", "us/grant", "borrowed %", "unmarked %"], body,
        ("Medians of the runs. irq: in a hard or soft interrupt, or with one to take; lock,"
         " reader, mutex: with such a lock; rcu: as an RCU reader; stuck: with a lock, but waiting"
         " for another or for other vCPUs, awake, so not extended; waiter: the same without a lock;"
         " kernel: in none of these; unknown: in the kernel of a guest that does not say.",
         "unavoidable: irq to stuck. avoided: extend_avoided, of those, of the preemptions in"
         " sections that could be left (irq to mutex), and of stuck ones whose loan expired; with"
         " stuck: of all."
         " us/grant: extend_ns over extend_granted. borrowed: extend_ns, of the VMs' CPU time."
         " unmarked: vCPUs that their guest takes for running, of those that lost the CPU, also"
         " by a yield."),
    )


def _cpu_waits(summary: Summary, workload: Workload) -> Grid:
    """Whether a VM, or one of its vCPUs, starved."""
    body = []
    for label, vms, seen in _observed(summary, workload):
        one = seen.cpu_waits
        if one is not None:
            values = (one.per_s, one.mean_ms, one.p99_ms, one.longest_ms)
            body.append((label, [str(vms), *map(known, values),
                                 " / ".join(map(number, one.vms_longest_ms))]))
    return Grid(
        f"{workload.name}: waits for a CPU", "scheme",
        ["VMs", "waits/s", "mean ms", "p99 ms", "longest ms", "longest of each VM ms"], body,
        ("Of vCPUs that were preempted or woken, until they ran; all runs together, one that was"
         " not over when its run ended counts in the longest only. p99: rounded up to a power of"
         " two of microseconds.",),
    )


def _windows(summary: Summary, workload: Workload) -> Grid:
    """How even the VMs' shares were, from one moment to the next."""
    body = []
    for label, vms, seen in _observed(summary, workload):
        one = seen.windows
        if one is not None:
            values = (one.number, one.seconds, one.mean_ms, one.most_ms, one.end_ms,
                      100 * one.end, 100 * one.worst, one.granted)
            body.append((label, [str(vms), *map(known, values)]))
    return Grid(
        f"{workload.name}: CPU time of the first VM less that of the others,"
        f" in windows of {summary.results.manifest.window_ms} ms", "scheme",
        ["VMs", "windows", "s", "mean ms", "largest ms", "in all ms", "in all %", "worst run %",
         "granted/window"], body,
        ("Medians of the runs, while every guest was measured; the others' time is their mean."
         " mean, largest: size of the difference in a window. in all: at the end, in ms and of the"
         " mean CPU time of the VMs; above 0 the first got more.",),
    )


def _part(summary: Summary, workload: Workload, did: _Part) -> Grid:
    """Of the schemes under which any of that was counted."""
    m = summary.results.manifest
    body = []
    for scheme in m.schemes:
        cells = [summary.cell(scheme.label, workload.name, vms).observed for vms in m.vms]
        counted = [getattr(cell, did.where) for cell in cells if cell]
        if not any(value for one in counted for name, value in one.items()
                   if name.startswith(did.counters)):
            continue
        for vms in m.vms:
            seen = summary.results.observations(scheme.label, workload.name, vms)
            runs = [did.figures(one) for one in seen]
            medians = [figures.middle(run[i] for run in runs) for i in range(len(did.heads))]
            body.append((scheme.label, [str(vms), *map(known, medians)]))
    return Grid(f"{workload.name}: {did.about}", "scheme", ["VMs", *did.heads], body,
                (did.note,))


def _flush_means(summary: Summary, workload: Workload) -> Grid:
    """In the form of table 1 of the Shoot4U paper, with its figures when they are asked for."""
    m = summary.results.manifest
    paper = PAPER_FLUSHES if workload.paper == "shoot4u" else {}
    body: list[tuple[str, list[str]]] = []
    for vms in m.vms:
        cells = {scheme.label: summary.cell(scheme.label, workload.name, vms)
                 for scheme in m.schemes}
        times = {label: flushes.whole(cell.observed) for label, cell in cells.items()}
        if not any(times.values()):
            continue
        unknown = ["-"] * len(PAPER_SCHEMES) if paper else []
        means, most = ([f"{value:,}" for value in row] for row in paper[vms]) \
            if vms in paper else (unknown, unknown)
        (head,) = columns((vms,))
        body += [
            (f"{head}, mean", [_mean(one, times[m.baseline]) for one in times.values()] + means),
            (f"{head}, max",
             [known(one.wall.max_ns / 1e3 if one else None) for one in times.values()] + most),
            (f"{head}, max ran",
             [known(one.ran.max_ns / 1e3 if one else None) for one in times.values()] + unknown),
        ]
    lines: tuple[str, ...] = (
        f"Microseconds from a flush's beginning to its end (difference from {m.baseline}), of the"
        " guests whose figure counts. max ran: without the time that the host took from the"
        " caller meanwhile.",
    )
    heads = [scheme.label for scheme in m.schemes]
    if paper:
        heads += [f"paper: {name}" for name in PAPER_SCHEMES]
        lines += (PAPER_NOTE,)
    return Grid(f"{workload.name}: latency of remote TLB flushes (us)", "guests", heads, body,
                lines)


def _mean(one: FlushTimes | None, base: FlushTimes | None) -> str:
    if one is None:
        return "-"
    text = number(one.wall.mean_ns / 1e3)
    if base is None or base is one or not base.wall.mean_ns:
        return text
    return f"{text}  ({percent(one.wall.mean_ns / base.wall.mean_ns - 1)})"


def _flush_details(summary: Summary, workload: Workload) -> Grid:
    body = []
    for label, vms, seen in _observed(summary, workload):
        for one in seen.flushes or ():
            times = [getattr(clock, f"{name}_ns") / 1e3 for clock in (one.wall, one.ran)
                     for name in LATENCIES]
            body.append((label, [str(vms), one.mechanism, f"{one.calls:,}", *map(number, times)]))
    return Grid(
        f"{workload.name}: remote TLB flushes by mechanism (us)", "scheme",
        ["VMs", "mechanism", "calls", *LATENCIES, *(f"ran {name}" for name in LATENCIES)], body,
        ("Sums over guests whose figure counts and runs. ran: without the time that the host took"
         " from the caller meanwhile. Percentiles are exact to 12.5 %.",),
    )


def _counted(summary: Summary, workload: Workload) -> Grid:
    """The guests' counters at the largest number of VMs, but not those known to be zero."""
    m = summary.results.manifest
    most = max(m.vms)
    cells = [summary.cell(scheme.label, workload.name, most) for scheme in m.schemes]
    counted = [cell.observed.counters if cell.observed else {} for cell in cells]
    names = [name for name in dict.fromkeys(name for one in counted for name in one)
             if any(one.get(name, 0) != 0 for one in counted)]
    about = counters.descriptions() if names else {}
    (head,) = columns((most,))
    return Grid(
        f"{workload.name}: the guests' counters at {head}, sums over guests and runs",
        "counter", [cell.scheme for cell in cells],
        [(name, ["-" if (one := each.get(name)) is None else f"{one:,}" for each in counted])
         for name in names],
        tuple(f"{name}: {about[name]}." for name in names if name in about),
    )


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
    lines += [*placebo.notes(m, summary.cells), *_observed_notes(summary),
              *_disturbed_notes(summary), *footer.invalid_notes(summary),
              *modes.notes(summary.cells)]
    lines += [f"Warning: {warning}." for warning in summary.results.warnings]
    if not summary.valid:
        lines.append("NOT VALID: not every cell has the valid runs that were asked for.")
    return lines


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
    parts: list[RenderableType] = []
    for workload in summary.results.manifest.workloads:
        for grid in grids(summary, workload):
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
    probe = Console(file=io.StringIO(), width=1 << 16)
    tables = [part for part in render(summary) if isinstance(part, Table)]
    widths = [probe.measure(table).maximum for table in tables]
    return max(TEXT_WIDTH, 20 + 36 * len(summary.results.manifest.vms), *widths)


def as_text(summary: Summary) -> str:
    """table.txt: the same without colours, wide enough for every column."""
    out = io.StringIO()
    console = Console(
        file=out, width=least_width(summary), color_system=None, force_terminal=False
    )
    for part in render(summary):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
