# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as a picture that stands still: `timeline.svg`, for pages in Markdown."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from lab.observe import vcpu_trace
from lab.observe.vcpu_trace import Interval, Kind, Window
from lab.report import drawing
from lab.report.timeline import COLOURS, Timeline

FILE = "timeline.svg"
LENGTH_NS = 10_000_000
"""Of the window; more would be a blur."""
STEPS = 600
"""Parts of the window; each shows what its vCPU did most of the time."""
DRAWN = tuple(kind for kind in Kind if kind is not Kind.KVM)
"""KVM's own work is too short for them: it counts as what it is part of, running."""
SIZE = (11.0, 1.3)
ROW = 0.16
"""Inches: of all but the rows, and of a row."""
HALF = 0.43
"""Of the height of a bar, in rows."""


def picture(line: Timeline) -> str:
    """The SVG: of the window of LENGTH_NS in which most is lost."""
    window = vcpu_trace.worst(line.found, LENGTH_NS)
    bars = defaultdict[Kind, list[Path]](list)
    shown = vcpu_trace.within(line.found, window)
    for place, vcpu in enumerate(line.names.vcpus):
        row = place + line.vms.index(vcpu.vm)
        for begin, end, kind in strips((one for one in shown if one.vmcb == vcpu.vmcb), window):
            bars[kind].append(Path([(begin, row - HALF), (begin, row + HALF), (end, row + HALF),
                                    (end, row - HALF)]))

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for kind, own in bars.items():
            axes.add_patch(PathPatch(Path.make_compound_path(*own), color=COLOURS[kind],
                                     linewidth=0))
        axes.set_yticks(_middles(line), line.vms)
        axes.set_ylim(len(line.names.vcpus) + len(line.vms) - 1.4, -0.6)
        axes.set_xlim(0, window.ns / 1e6)
        axes.set_xlabel("virtual time (ms)")
        axes.set_ylabel("a row for each vCPU")
        axes.grid(visible=False)
        axes.tick_params(axis="y", length=0)
        figure.legend(handles=[Patch(color=COLOURS[kind], label=kind) for kind in DRAWN
                               if kind in bars],
                      loc="outside upper center", ncols=len(DRAWN), fontsize=9,
                      columnspacing=1.2, handlelength=1.4)

    rows = len(line.names.vcpus) + len(line.vms)
    return drawing.plot("timeline", "", (SIZE[0], SIZE[1] + ROW * rows), draw).svg


def _middles(line: Timeline) -> list[float]:
    """Where the VMs' names stand."""
    rows = defaultdict[str, list[int]](list)
    for place, vcpu in enumerate(line.names.vcpus):
        rows[vcpu.vm].append(place + line.vms.index(vcpu.vm))
    return [sum(rows[vm]) / len(rows[vm]) for vm in line.vms]


def strips(own: Iterable[Interval], window: Window) -> Iterator[tuple[float, float, Kind]]:
    """Milliseconds from the beginning, and what was done most of each part; like parts are one."""
    begin, step = window.begin, max(1, window.ns // STEPS)
    spent = defaultdict[int, Counter[Kind]](Counter)
    for one in own:
        kind = Kind.RUNS if one.kind is Kind.KVM else one.kind
        for number in range((one.begin - begin) // step, -(-(one.end - begin) // step)):
            low, high = begin + number * step, begin + (number + 1) * step
            spent[number][kind] += min(one.end, high) - max(one.begin, low)
    joined = list[tuple[int, int, Kind]]()
    for number in sorted(spent):
        most = spent[number].most_common(1)[0][0]
        if joined and joined[-1][1:] == (number, most):
            joined[-1] = (joined[-1][0], number + 1, most)
        else:
            joined.append((number, number + 1, most))
    return ((first * step / 1e6, last * step / 1e6, most) for first, last, most in joined)
