# SPDX-License-Identifier: GPL-2.0-only
"""The picture of a published result: a panel for each workload, from its cells alone."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.core.cells import FlushTimes
from lab.core.model import Workload
from lab.observe import flushes
from lab.report import drawing, plots
from lab.report.summary import Summary

PANEL = (5.2, 3.4)
"""Inches of a panel."""
LEGEND = 1.9
"""Inches beside them."""
MOST_ACROSS = 2


def overview(name: str, summary: Summary) -> drawing.Plot:
    """Figures against the number of VMs; where flushes were timed, their latency, too."""
    workloads = [one for one in summary.results.manifest.workloads
                 if any(cell.values for cell in summary.cells if cell.workload == one.name)]
    timed = [one for one in workloads if _means(summary, one)]
    panels = len(workloads) + len(timed)
    across = min(MOST_ACROSS, max(1, panels))
    down = max(1, math.ceil(panels / across))

    def draw(figure: Figure) -> None:
        places = list(figure.subplots(down, across, squeeze=False).flat)
        for axes, workload in zip(places, workloads, strict=False):
            drawing.across(axes, summary, plots.figures_of(axes, summary, workload))
            axes.set_title(workload.name)
        for axes, workload in zip(places[len(workloads):], timed, strict=False):
            _latency(axes, summary, workload)
        for axes in places[panels:]:
            axes.set_axis_off()
        handles, labels = places[0].get_legend_handles_labels() if panels else ([], [])
        figure.legend(handles, labels, loc="outside right center")

    size = (across * PANEL[0] + LEGEND, down * PANEL[1])
    return drawing.plot(name, "", size, draw)


def _means(summary: Summary, workload: Workload) -> dict[tuple[str, int], FlushTimes]:
    found = {key: flushes.whole(summary.cell(key[0], workload.name, key[1]).observed)
             for key in drawing.places(summary)}
    return {key: one for key, one in found.items() if one is not None}


def _latency(axes: Axes, summary: Summary, workload: Workload) -> None:
    """Means of remote flushes, with a bar from the median to the 99th percentile."""
    times = _means(summary, workload)
    labels = drawing.labels(summary)
    for index, label in enumerate(labels):
        colour, marker = drawing.look(index)
        shift = (index - (len(labels) - 1) / 2) * 0.7 / len(labels)
        own = [(vms + shift, times[label, vms].wall)
               for vms in sorted(summary.results.manifest.vms) if (label, vms) in times]
        for x, wall in own:
            axes.plot([x, x], [wall.p50_ns / 1e3, wall.p99_ns / 1e3], color=colour, linewidth=1.6)
        if own:
            axes.plot([x for x, _ in own], [wall.mean_ns / 1e3 for _, wall in own], color=colour,
                      linewidth=1.2, marker=marker, markersize=6, markeredgecolor="white")
    axes.set_title(workload.name)
    drawing.across(axes, summary, "remote TLB flush (us):\nmean; bar: median to 99 %")
