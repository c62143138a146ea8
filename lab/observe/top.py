# SPDX-License-Identifier: GPL-2.0-only
"""The virtual machines of this KVM host: how much they are held up, and why.

What `vms` reads is read twice, and the view shows what was added. A VM that comes or
goes in between is left out; what a kernel does not have is shown as unknown.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from lab.core import paths
from lab.core.cells import Preemptions
from lab.observe import preemptions, vms
from lab.observe.counters import each_grown, grown, ratio
from lab.observe.vms import Reading, read

SHOWN = 0.005
"""Kinds of preemptions with a smaller share are not shown."""
LEAST_WHY = 12
"""Columns for them, in which they are below each other."""
WIDEST = 1000
"""Columns, more than any table of them needs."""
LEAST_NAME = 6
"""Columns for a VM's name, of which the rest is below."""
NOT_TOLD = "kernel (not told)"
"""The kernel of a guest that says nothing."""
STOCK = ("This host's kernel has no pvsync: it can say how often vCPUs lost their CPU and how long"
         " they waited for one, not what they were doing (holding a lock, in an interrupt, in user"
         " mode), and so not which of it could be avoided.")
NO_TIMES = ("held up: unknown where it says -: this kernel keeps no waiting times of tasks"
            " (/proc/PID/schedstat), or the VM's threads cannot be told apart.")
LEGEND = ("held up: of the vCPUs' time, waiting for a CPU. preempted: lost a CPU while there was"
          " something to do. ")
SILENT = ("not told: that guest says nothing about its critical sections (pvsync.ecs=), so nobody"
          " outside can tell a lock holder or an interrupt from other work of its kernel.")
REASONS = ("avoided: of the preemptions in critical sections, those put off until it was over;"
           " stuck ones count only as far as loans expired."
           " unavoidable: in one all the same, or stuck: with a lock, but waiting itself."
           " granted: put off; us/grant: for how long. yields: CPU given to another vCPU."
           " unmarked: of the vCPUs that lost or gave it, those that their guest takes for running"
           " and waits for. How long a woken waiter of a lock took to run only the guest knows:"
           " park_wakeup* in its pvsync/counters. What can be done:"
           f" {paths.page('operators.md')}.")


@dataclass(frozen=True)
class Row:
    """A VM over some time; None is unknown."""

    pid: int
    name: str
    vcpus: int
    held_up: float | None
    """Share of its vCPUs' time in which they waited for a CPU, 0 to 1."""
    preempted_per_s: float | None
    why: Preemptions | None
    """None on a host that does not count preemptions."""
    yields_per_s: float | None


# Figures


def rows(before: dict[str, Reading], after: dict[str, Reading], seconds: float) -> list[Row]:
    """The VMs that are in both, those that are held up the most first."""
    found = [_row(before[name], after[name], seconds) for name in after if name in before]
    return sorted(found, key=lambda row: (-(row.held_up or 0), -(row.preempted_per_s or 0),
                                          row.pid))


def _row(before: Reading, after: Reading, seconds: float) -> Row:
    count = each_grown(before.counters, after.counters)
    why = preemptions.figures(count, seconds) if preemptions.are_counted(count) else None
    same = before.vcpus == after.vcpus
    waited = grown(before.waited_ns, after.waited_ns) if same else None
    lost = ratio(grown(before.switches, after.switches) if same else None, seconds)
    return Row(
        pid=after.pid,
        name=after.name,
        vcpus=after.vcpus,
        held_up=ratio(waited, 1e9 * seconds * after.vcpus),
        preempted_per_s=lost if why is None else why.per_s,
        why=why,
        yields_per_s=ratio(count.get("preempt_yielded"), seconds),
    )


def reasons(why: Preemptions | None) -> str:
    """What the vCPUs were doing that were preempted: "lock 60 %, user 40 %; unmarked 9 %"."""
    if why is None or why.per_s is None:
        return "-"
    shares = {kind: number / why.per_s for kind, number in why.kinds.items()
              if number is not None and why.per_s}
    listed = sorted(shares.items(), key=lambda item: -item[1])
    text = ", ".join(f"{NOT_TOLD if kind == 'unknown' else kind} {100 * share:.0f} %"
                     for kind, share in listed if share >= SHOWN)
    unmarked = why.unmarked or 0.0
    return text + (f"; unmarked {100 * unmarked:.0f} %" if unmarked >= SHOWN else "")


# Showing


def render(found: list[Row], seconds: float) -> RenderableType:
    """The view of some time."""
    return _View(found, seconds)


@dataclass(frozen=True)
class _View:
    """Everything in one table, or on a narrow terminal what a VM did below it."""

    found: list[Row]
    seconds: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found, known = self.found, any(row.why is not None for row in self.found)
        number = f"{len(found)} virtual {'machine' if len(found) == 1 else 'machines'}"
        yield Text(f"{number}, the last {self.seconds:.1f} s", style="bold")
        table = _table(found, known)
        least = Measurement.get(console, options.update(max_width=WIDEST), table).minimum
        names = max((len(row.name) for row in found), default=0)
        if not known or least - max(0, names - LEAST_NAME) <= options.max_width:
            yield table
        else:
            yield _table(found, known, narrow=True)
            yield Text()
            yield from (Text(_below(row)) for row in found)
        yield Text()
        yield from (Text(line) for line in _notes(found, known))


def _table(found: list[Row], known: bool, narrow: bool = False) -> Table:
    table = Table(box=None, padding=(0, 1), collapse_padding=True, pad_edge=False)
    heads = {"VM": True, "pid": not narrow, "vCPUs": True, "held\nup %": True,
             "preempt\n/s": True, "why": known and not narrow, "avoided\n%": known,
             "unavoid-\nable/s": known, "granted\n/s": known and not narrow,
             "us/\ngrant": known and not narrow, "yields\n/s": known}
    for head in (head for head, shown in heads.items() if shown):
        if head == "VM":
            table.add_column(head, overflow="fold")
        elif head == "why":
            table.add_column(head, min_width=LEAST_WHY)
        else:
            table.add_column(head, justify="right", no_wrap=True)
    for row in found:
        cells = zip(_cells(row), heads.values(), strict=True)
        table.add_row(*(Text(cell) for cell, shown in cells if shown))
    return table


def _cells(row: Row) -> list[str]:
    why = row.why
    put_off = ["-"] * 4 if why is None else [
        _percent(why.avoided), _number(why.unavoidable_per_s), _number(why.granted_per_s),
        _number(why.us_per_grant)]
    return [row.name, str(row.pid), str(row.vcpus or "-"), _percent(row.held_up),
            _number(row.preempted_per_s), reasons(why), *put_off, _number(row.yields_per_s)]


def _below(row: Row) -> str:
    """What the narrow table leaves out."""
    granted, each = _cells(row)[8:10]
    return f"{row.name} ({row.pid}): {reasons(row.why)}; granted {granted}/s, {each} us each"


def _notes(found: list[Row], known: bool) -> Iterator[str]:
    if not found:
        yield "No virtual machine has run all this time."
        return
    if not known:
        yield STOCK
    if any(row.held_up is None for row in found):
        yield NO_TIMES
    if any(row.why is not None and row.why.kinds["unknown"] for row in found):
        yield SILENT
    yield LEGEND + (REASONS if known else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}"


def _percent(share: float | None) -> str:
    return _number(None if share is None else 100 * share)


def views(looked: Iterable[tuple[list[Row], float]]) -> Iterator[RenderableType]:
    """A view of each look."""
    return (render(*one) for one in looked)


def looks(debugfs: Path, proc: Path, interval: float,
          sleep: Callable[[float], None] = time.sleep) -> Iterator[tuple[list[Row], float]]:
    """The VMs over each interval, and its seconds, for ever; LabError at once when there is
    none."""
    first, began = read(debugfs, proc), time.monotonic()
    if not first:
        raise vms.none_runs()
    return _looks(debugfs, proc, first, began, lambda: sleep(interval))


def _looks(debugfs: Path, proc: Path, before: dict[str, Reading], began: float,
           pause: Callable[[], None]) -> Iterator[tuple[list[Row], float]]:
    while True:
        pause()
        after, ended = read(debugfs, proc), time.monotonic()
        yield rows(before, after, ended - began), ended - began
        before, began = after, ended


def run(shown: Iterable[RenderableType], console: Console, once: bool) -> None:
    """Show views until Ctrl-C, in place on a terminal; or the first one alone."""
    with suppress(KeyboardInterrupt), _screen(console, once) as show:
        for view in shown:
            show(view)
            if once:
                return


@contextmanager
def _screen(console: Console, once: bool) -> Iterator[Callable[[RenderableType], object]]:
    if once or not console.is_terminal:
        yield console.print
        return
    with Live(Text("Measuring."), console=console, auto_refresh=False) as live:
        yield lambda view: live.update(view, refresh=True)
