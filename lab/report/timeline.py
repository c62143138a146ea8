# SPDX-License-Identifier: GPL-2.0-only
"""The page of what vCPUs did over time: `timeline.html` in the folder of a replay.

Bokeh draws it: on a canvas, which takes tens of thousands of bars, where libraries that draw
SVG do not; its script goes into the page, which needs no network.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bokeh.embed import components
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations.legends import Legend
from bokeh.plotting import figure
from bokeh.resources import Resources
from markupsafe import Markup

from lab.machine import qemu_trace
from lab.machine.vmcb import Names, Vcpu
from lab.observe import wait_causes
from lab.observe.vcpu_trace import ABOUT, ON_CPU, Interval, Kind, Symbols, Window, spread, within
from lab.report import pages, waited
from lab.report.grids import Grid

PAGE = "timeline.html"
COLOURS = {Kind.RUNS: "#009E73", Kind.SPINS: "#882255", Kind.KVM: "#000000", Kind.WAITS: "#D55E00",
           Kind.YIELDED: "#CC79A7", Kind.CALLED: "#E69F00", Kind.HOST: "#56B4E9",
           Kind.SLEEPS: "#dcdcdc"}
VM_COLOURS = ("#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#7F6000", "#000000", "#009E73")
WIDE, ROW, EDGE = 1150, 17, 150
"""Pixels: the drawing's width, a row's height, and the axis with what is around the rows."""
PLACED = (Kind.WAITS, Kind.YIELDED, Kind.SLEEPS, Kind.RUNS)
"""Kinds with a table of places in the guest."""
MOST_PLACES = 8
"""Functions in the table of them."""
UNKNOWN = "not known"
UNSEEN = (
    "Which locks a vCPU holds, and which vCPU holds what another waits for. So a wait for a lock is"
    " a holder's or a waiter's fault only where no vCPU of the VM that may hold one has a CPU.",
    "What a vCPU that sleeps waits for, unless another kicks it as it unlocks.",
    "How long a flush or a call to other CPUs lasts. Only the function is seen in which a vCPU left"
    " the guest; where the compiler put it into another one, that other one.",
    "What else runs on a CPU of the host: its kernel, QEMU's threads.",
    "When a vCPU that sleeps was woken by a timer or a device, and, in a VM of more than two vCPUs,"
    " for whom an interrupt is: its wait for a CPU counts as sleep then.",
)
"""What a trace of VMRUN and #VMEXIT does not show."""


@dataclass(frozen=True)
class Timeline:
    """All that a page shows."""

    title: str
    facts: tuple[tuple[str, str], ...]
    names: Names
    found: Sequence[Interval]
    full: Window
    window: Window
    symbols: Symbols | None
    measured: Mapping[str, Window] = field(default_factory=dict)
    """By VM, the time in which its program was measured; empty where that is not known."""

    @cached_property
    def waits(self) -> waited.Kept:
        """What each VM's vCPUs waited for: in the measured time, or else in the whole trace."""
        windows = self.measured or dict.fromkeys(self.vms, self.full)
        found = wait_causes.by_vm(self.found, self.names.vcpus, windows, self.where)
        return waited.Kept(self.title, bool(self.measured), tuple(found))

    @cached_property
    def shown(self) -> list[Interval]:
        """What lies in the window."""
        return within(self.found, self.window)

    @cached_property
    def vcpus(self) -> dict[str, Vcpu]:
        """By VMCB."""
        return {one.vmcb: one for one in self.names.vcpus}

    @property
    def vms(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(one.vm for one in self.names.vcpus))

    def where(self, rip: int) -> str:
        """The place in the guest, as well as it can be named."""
        return self.symbols.function(rip) if self.symbols else f"{rip:#x}"


def label(vcpu: Vcpu) -> str:
    """A vCPU's name in a row."""
    return f"{vcpu.vm} vCPU {vcpu.number}"


def html(line: Timeline) -> str:
    """The page, with all that it needs."""
    script, drawing = components(column(*_figures(line)))
    return pages.environment().get_template(PAGE).render(
        line=line, library=Markup(Resources(mode="inline", components=["bokeh"]).render_js()),
        script=Markup(script), drawing=Markup(drawing), grids=list(grids(line)),
        about=[(kind, COLOURS[kind], ABOUT[kind]) for kind in Kind],
        causes=wait_causes.ABOUT.items(), unseen=UNSEEN)


def _figures(line: Timeline) -> Iterator[figure]:
    span = Range1d(start=0, end=line.window.ns / 1e6, bounds=(0, max(line.window.ns, 1) / 1e6))
    rows = {one.vmcb: place for place, one in _rows(line)}
    yield _drawn(span, "what each vCPU does", {place: label(one) for place, one in _rows(line)},
                 [(kind, COLOURS[kind], [(rows[one.vmcb], one) for one in line.shown
                                         if one.kind is kind]) for kind in Kind], line)
    used = [one for one in line.shown if one.kind in ON_CPU]
    yield _drawn(span, "what each CPU of the host runs",
                 {cpu: f"CPU {cpu}" for cpu in sorted({one.cpu for one in used})},
                 [(vm, VM_COLOURS[number % len(VM_COLOURS)],
                   [(one.cpu, one) for one in used if line.vcpus[one.vmcb].vm == vm])
                  for number, vm in enumerate(line.vms)], line)


def _rows(line: Timeline) -> Iterator[tuple[int, Vcpu]]:
    """Place and vCPU from above, with a free row between VMs."""
    for place, one in enumerate(line.names.vcpus):
        yield place + line.vms.index(one.vm), one


def _drawn(span: Range1d, title: str, rows: Mapping[int, str],
           parts: Iterable[tuple[str, str, list[tuple[int, Interval]]]],
           line: Timeline) -> figure:
    last = max(rows, default=0)
    one = figure(title=title, width=WIDE, height=EDGE + ROW * (last + 1), x_range=span,
                 y_range=Range1d(start=last + 0.6, end=-0.6), output_backend="canvas",
                 tools="xpan,xwheel_zoom,xbox_zoom,reset,save", active_scroll="xwheel_zoom",
                 active_drag="xpan", x_axis_label=f"virtual time (ms) from"
                 f" {line.window.begin / 1e9:.6f} s after the machine's start")
    one.yaxis.ticker = list(rows)
    one.yaxis.major_label_overrides = dict(rows.items())
    one.ygrid.visible = False
    legend = Legend(click_policy="hide", orientation="horizontal", margin=2)
    one.add_layout(legend, "above")
    for name, colour, bars in parts:
        if bars:
            one.hbar("row", left="begin", right="end", height=0.8, source=_source(line, bars),
                     color=colour, line_width=0, legend_label=name, name=name)
    one.add_tools(HoverTool(tooltips=[
        ("vCPU", "@vcpu"), ("does", "@kind"), ("for", "@us{0,0.000} us"),
        ("from", "@begin{0.000000} ms"), ("CPU of the host", "@cpu"), ("left by", "@left"),
        ("there", "@place")]))
    return one


def _source(line: Timeline, bars: Sequence[tuple[int, Interval]]) -> ColumnDataSource:
    found = [one for _, one in bars]
    return ColumnDataSource({
        "row": [row for row, _ in bars],
        "begin": [(one.begin - line.window.begin) / 1e6 for one in found],
        "end": [(one.end - line.window.begin) / 1e6 for one in found],
        "us": [one.ns / 1e3 for one in found],
        "cpu": [one.cpu for one in found],
        "vcpu": [label(line.vcpus[one.vmcb]) for one in found],
        "kind": [str(one.kind) for one in found],
        "left": [left(one) for one in found],
        "place": [line.where(one.rip) for one in found],
    })


def left(one: Interval) -> str:
    """By which exit it was left; a dash for one in the guest."""
    return "-" if one.code is None else qemu_trace.name(one.code)


def grids(line: Timeline) -> Iterator[Grid]:
    """The tables: what was waited for, time by kind, and where vCPUs were in the guest."""
    yield waits(line)
    yield _shares(line, line.shown, line.window, f"Time by kind in these"
                  f" {line.window.ns / 1e6:g} ms, per cent of the time of the VM's vCPUs")
    yield _shares(line, line.found, line.full, f"The same in the whole trace,"
                  f" {line.full.ns / 1e6:,.1f} ms")
    yield _spreads(line)
    for kind in PLACED:
        yield _places(line, kind)


def waits(line: Timeline) -> Grid:
    """What each VM's vCPUs waited for, by cause."""
    kept = line.waits
    where = "measured time" if kept.measured else "whole trace, as its measured part is not known"
    longest = max((one.window_ns for one in kept.vms), default=0)
    return Grid(f"What vCPUs did and waited for, by cause, in the {where}, {longest / 1e6:,.1f} ms:"
                " per cent of the time of the VM's vCPUs", "VM", list(waited.HEADS),
                [(one.vm, waited.cells(waited.shares([one]))) for one in kept.vms])


def shares(line: Timeline, found: Iterable[Interval], window: Window,
           ) -> dict[str, dict[str, float]]:
    """Per cent of the time of each VM's vCPUs, by kind and what is not known."""
    spent = defaultdict[str, Counter[str]](Counter)
    for one in found:
        spent[line.vcpus[one.vmcb].vm][one.kind] += one.ns
    made = {}
    for vm in line.vms:
        every = window.ns * sum(one.vm == vm for one in line.names.vcpus)
        parts = {str(kind): 100 * spent[vm][kind] / every if every else 0.0 for kind in Kind}
        made[vm] = {**parts, UNKNOWN: max(0.0, 100 - sum(parts.values())) if every else 0.0}
    return made


def _shares(line: Timeline, found: Iterable[Interval], window: Window, caption: str) -> Grid:
    return Grid(caption, "VM", [*map(str, Kind), UNKNOWN],
                [(vm, [f"{part:.1f}" for part in parts.values()])
                 for vm, parts in shares(line, found, window).items()])


def _spreads(line: Timeline) -> Grid:
    """Whether a VM's vCPUs are on CPUs of their own."""
    def cells(vm: str) -> list[str]:
        means = [spread(one for one in found if line.vcpus[one.vmcb].vm == vm)
                 for found in (line.shown, line.found)]
        return [f"{sum(one.vm == vm for one in line.names.vcpus)}",
                *("-" if mean is None else f"{mean:.2f}" for mean in means)]
    return Grid("CPUs of the host that a VM's vCPUs were on, or had been on last, in the mean:"
                " 1 says that all of them shared one", "VM",
                ["vCPUs", f"in these {line.window.ns / 1e6:g} ms", "in the whole trace"],
                [(vm, cells(vm)) for vm in line.vms])


def _places(line: Timeline, kind: Kind) -> Grid:
    """Of all that was spent in this way in the window."""
    spent = defaultdict[str, Counter[str]](Counter)
    for one in line.shown:
        if one.kind is kind:
            spent[line.where(one.rip)][line.vcpus[one.vmcb].vm] += one.ns
    most = sorted(spent, key=lambda place: (-spent[place].total(), place))
    return Grid(f"{kind}: where vCPUs were in the guest when it began, ms of vCPUs together",
                "place", line.vms, [(place, [f"{spent[place][vm] / 1e6:.3f}" for vm in line.vms])
                                    for place in most[:MOST_PLACES]])
