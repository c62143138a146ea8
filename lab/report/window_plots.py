# SPDX-License-Identifier: GPL-2.0-only
"""Plots over time windows and over pause windows: shares, epochs, what epochs cost."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lab.core.cells import WindowCost
from lab.core.model import Workload
from lab.observe import epochs, windows
from lab.observe.epochs import Trace
from lab.observe.windows import Samples
from lab.report import drawing
from lab.report.grids import columns
from lab.report.summary import Summary

FEW_EPOCHS = 5
"""Quartiles of fewer are not drawn."""


def plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
    """Those that the summary has the values for."""
    return [*_window_plots(summary, workload), *_epoch_plots(summary, workload),
            *_window_cost_plots(summary, workload)]


def _window_plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
    """How far the first VM's CPU time moves away from that of the others during a run."""
    most = max(summary.results.manifest.vms)
    runs = {label: [one.samples for one in summary.results.observations(label, workload.name, most)
                    if one.samples is not None] for label in drawing.labels(summary)}
    if not any(runs.values()):
        return []

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True)
        for index, label in enumerate(drawing.labels(summary)):
            if runs[label]:
                _window_lines(upper, lower, runs[label], label, drawing.look(index)[0])
        for axes in (upper, lower):
            axes.axhline(0, color=drawing.IDEAL, linestyle="--", linewidth=1)
        upper.set_ylabel("so far (ms)")
        lower.set_ylabel("in a window (ms)")
        lower.set_xlabel("time from the start (s)")
        drawing.legend(upper)

    (head,) = columns((most,))
    caption = (
        f"{workload.name}: CPU time of the first VM less the mean of the others at {head}, in"
        f" windows of {summary.results.manifest.window_ms} ms: medians of the runs, and their"
        " quartiles as a band. Above: all windows so far together; below: each alone. As figure 7"
        " of Kashyap, Min and Kim, USENIX ATC 2018."
    )
    return [drawing.plot(f"{workload.name}-windows", caption, (9, 5.4), draw)]


def _window_lines(upper: Axes, lower: Axes, runs: list[Samples], label: str, colour: str) -> None:
    """Of one scheme; as far as its shortest run goes."""
    number = min(len(one.times) for one in runs) - 1
    apart = np.array([windows.differences(one)[:number] for one in runs]) * 1e3
    times = np.median([windows.moments(one)[:number] for one in runs], axis=0)
    for axes, values in ((upper, apart.cumsum(axis=1)), (lower, apart)):
        low, middle, high = np.percentile(values, [25, 50, 75], axis=0)
        axes.plot(times, middle, color=colour, linewidth=1.4, label=label)
        axes.fill_between(times, low, high, color=colour, alpha=0.2, linewidth=0)


def _epoch_plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
    """Windows of the first VM, and what it wasted, from epoch to epoch of a run."""
    found = []
    for vms in summary.results.manifest.vms:
        traces = {label: _longest_trace(summary, workload, label, vms)
                  for label in drawing.labels(summary)}
        if not any(traces.values()):
            continue

        def draw(figure: Figure, traces: dict[str, Trace] = traces) -> None:
            upper, lower = figure.subplots(2, 1, sharex=True)
            for index, label in enumerate(drawing.labels(summary)):
                colour, marker = drawing.look(index)
                trace = traces[label]
                for axes, values in ((upper, [float(one.window) for one in trace]),
                                     (lower, [100 * one.inefficiency for one in trace])):
                    if values:
                        axes.plot(range(1, len(values) + 1), values, color=colour, marker=marker,
                                  markersize=3, linewidth=1.2, label=label)
            for axes, y_label in ((upper, "window (cycles)"), (lower, "inefficiency (%)")):
                axes.set_ylim(bottom=0)
                axes.set_ylabel(y_label)
            lower.xaxis.set_major_locator(MaxNLocator(integer=True))
            lower.set_xlabel("epoch of the run")
            drawing.legend(upper)

        (head,) = columns((vms,))
        caption = (
            f"{workload.name}: mean window of the spins in each epoch of the first VM at {head},"
            " and the time that it wasted by spinning and by handling it, of its CPU time. Of"
            " each scheme the run with most epochs. As figures 11 and 12 of Shan, Ding and"
            " Gehani, TPDS 2017."
        )
        if any(len(trace) == epochs.KEPT for trace in traces.values()):
            caption += f" The host keeps the latest {epochs.KEPT}: earlier ones are missing."
        found.append(drawing.plot(f"{workload.name}-epochs-{vms}", caption, (9, 5.4), draw))
    return found


def _longest_trace(summary: Summary, workload: Workload, label: str, vms: int) -> Trace:
    runs = summary.results.observations(label, workload.name, vms)
    return max((one.epochs[0] for one in runs if one.epochs), key=len, default=())


def _window_cost_plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
    """What epochs at one window wasted, in all runs, beside what those at others did."""
    found = []
    for vms in summary.results.manifest.vms:
        costs = {label: _window_costs(summary, workload, label, vms)
                 for label in drawing.labels(summary)}
        if not any(costs.values()):
            continue

        def draw(figure: Figure, costs: dict[str, list[WindowCost]] = costs) -> None:
            axes = figure.subplots()
            for index, label in enumerate(drawing.labels(summary)):
                colour, marker = drawing.look(index)
                if not costs[label]:
                    continue
                at = [one.window for one in costs[label]]
                low, high = zip(*(one.quartiles for one in costs[label]), strict=True)
                axes.plot(at, [100 * one.median for one in costs[label]], color=colour,
                          marker=marker, markersize=4, linewidth=1.2, label=label)
                axes.fill_between(at, [100 * one for one in low], [100 * one for one in high],
                                  color=colour, alpha=0.2, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("mean window of the epoch (cycles)")
            axes.set_ylabel("inefficiency (%)")
            drawing.legend(axes)

        (head,) = columns((vms,))
        caption = (
            f"{workload.name}: what epochs wasted by spinning and by handling it, of the VM's CPU"
            f" time, by their mean window to the nearest {epochs.STEP} cycles, at {head}: medians"
            f" of all VMs and runs, and their quartiles as a band, where at least {FEW_EPOCHS}"
            " epochs ended. As figures 8 to 10 of Shan, Ding and Gehani, TPDS 2017."
        )
        found.append(drawing.plot(f"{workload.name}-window-costs-{vms}", caption, (9, 4.2), draw))
    return found


def _window_costs(summary: Summary, workload: Workload, label: str, vms: int) -> list[WindowCost]:
    seen = summary.cell(label, workload.name, vms).observed
    return [one for one in seen.window_costs if one.epochs >= FEW_EPOCHS] if seen else []
