# SPDX-License-Identifier: GPL-2.0-only
"""Tables of what the kernels counted: one for each topic that the summary has values of."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from lab.core.cells import FlushTimes, Observed
from lab.core.model import Workload
from lab.core.words import many
from lab.observe import counters, figures, flushes, preemptions
from lab.observe.observed import Observation
from lab.report import waited
from lab.report.summary import Summary


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


def columns(vms: tuple[int, ...]) -> list[str]:
    """Heads: `1 VM`, `2 VMs`."""
    return [many(count, "VM") for count in vms]


def observed_grids(summary: Summary, workload: Workload) -> list[Grid]:
    """Every table of what was counted that the summary has the values for."""
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
    return [grid for grid in seen if grid.rows]


def waits(summary: Summary, workload: Workload) -> list[Grid]:
    """What vCPUs waited for, by cause, where runs were traced."""
    m = summary.results.manifest
    found = [(scheme.label, vms, one) for scheme in m.schemes for vms in m.vms
             for one in summary.cell(scheme.label, workload.name, vms).waits]
    if not found:
        return []
    which = any(one.vms != "all" for _, _, one in found)
    body = [(label, [str(vms), *[one.vms] * which, *waited.cells(one.causes)])
            for label, vms, one in found]
    fewest, most = (one(waits.runs for _, _, waits in found) for one in (min, max))
    runs = f"{fewest} traced run" + "s" * (most > 1) if fewest == most else \
        f"{fewest} to {most} traced runs"
    return [Grid(
        f"{workload.name}: what vCPUs did and waited for (% of their time)", "scheme",
        ["VMs", *["of them"] * which, *waited.HEADS], body,
        (f"In the measured time of {runs} a cell. lock holder, lock waiter: whoever holds"
         " the lock, or is to have it, has no CPU; lock: it may have one. host: KVM's and QEMU's"
         " work. idle: sleeps, also for mutexes, RCU and disks.",))]


def flush_means(summary: Summary, workload: Workload) -> list[Grid]:
    """How long remote flushes took, where that was timed."""
    return [grid for grid in (_flush_means(summary, workload),) if grid.rows]


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
         " stuck: of all; at least extend_expired were not."
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
    """In the form of table 1 of the Shoot4U paper, with its figures when they are asked for.

    It has the schemes under which any flush was timed.
    """
    m = summary.results.manifest
    paper = PAPER_FLUSHES if workload.paper == "shoot4u" else {}
    body: list[tuple[str, list[str]]] = []
    timed = {vms: {scheme.label: flushes.whole(
        summary.cell(scheme.label, workload.name, vms).observed) for scheme in m.schemes}
        for vms in m.vms}
    heads = [scheme.label for scheme in m.schemes
             if any(times[scheme.label] for times in timed.values())]
    for vms, every in timed.items():
        times = {label: every[label] for label in heads}
        if not any(times.values()):
            continue
        unknown = ["-"] * len(PAPER_SCHEMES) if paper else []
        means, most = ([f"{value:,}" for value in row] for row in paper[vms]) \
            if vms in paper else (unknown, unknown)
        (head,) = columns((vms,))
        body += [
            (f"{head}, mean", [_mean(one, every[m.baseline]) for one in times.values()] + means),
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
