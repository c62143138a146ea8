# SPDX-License-Identifier: GPL-2.0-only
"""The plots of a report, as SVG; the same summary gives the same bytes."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from lab import epochs, figures, flushes, preemptions, stats, windows
from lab.epochs import Trace
from lab.grids import columns
from lab.histogram import Bins
from lab.model import WindowCost, Workload
from lab.summary import Summary, per_guest, relative_load
from lab.windows import Samples

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F6000")
"""Okabe and Ito's colours, told apart with any kind of colour vision; yellow left out."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
IDEAL = "#666666"
KIND_COLOURS = dict(zip(preemptions.KINDS, (*PALETTE, "#777777", "#bbbbbb"), strict=True))
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}
FEW_EPOCHS = 5
"""Quartiles of fewer are not drawn."""
LOG_FROM = 8.0
"""A value axis becomes logarithmic when its largest is so many times its smallest."""


@dataclass(frozen=True)
class Plot:
    """One figure: the file's name without suffix, what it shows, and the SVG."""

    name: str
    caption: str
    svg: str


def plots(summary: Summary) -> list[Plot]:
    """Every plot that the summary has the values for."""
    found = []
    for workload in summary.results.manifest.workloads:
        if not any(c.values for c in summary.cells if c.workload == workload.name):
            continue
        found.append(_time(summary, workload))
        if _singles(summary, workload):
            found.append(_slowdown(summary, workload))
        if any(c.fairness for c in summary.cells if c.workload == workload.name):
            found.append(_fairness(summary, workload))
        found += _wait_plots(summary, workload)
        found += _flush_plots(summary, workload)
        found += _preemption_plots(summary, workload)
        found += _window_plots(summary, workload)
        found += _epoch_plots(summary, workload)
        found += _window_cost_plots(summary, workload)
    return found


def _draw(
    name: str, caption: str, size: tuple[float, float], draw: Callable[[Figure], None]
) -> Plot:
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = plt.figure(figsize=size, layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "pvsync"})
        plt.close(figure)
    svg = out.getvalue()
    return Plot(name, caption, svg[svg.index("<svg") :])


def _time(summary: Summary, workload: Workload) -> Plot:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        lines = {
            (scheme, vms): list(summary.cell(scheme, workload.name, vms).values)
            for scheme, vms in _places(summary)
        }
        _series(axes, summary, lines)
        m = summary.results.manifest
        ideals = [(v, summary.cell(m.baseline, workload.name, v).ideal) for v in sorted(m.vms)]
        drawn = [(v, ideal) for v, ideal in ideals if ideal is not None]
        if drawn:
            _ideal(axes, drawn, f"ideal ({m.baseline})")
        _finish(axes, summary, f"{workload.metric} ({workload.unit}), {workload.better} is better")

    caption = (
        f"{workload.name}: {workload.metric} against the number of VMs. A point is one valid run"
        " (mean of its guests); the line joins medians, bars are quartiles. Dashed: the"
        " baseline's 1-VM median under the overcommit, if sharing cost nothing."
    )
    return _draw(f"{workload.name}-figure", caption, (9, 4.8), draw)


def _slowdown(summary: Summary, workload: Workload) -> Plot:
    singles = _singles(summary, workload)

    def relative(scheme: str, vms: int) -> list[float]:
        values = summary.cell(scheme, workload.name, vms).values
        if scheme not in singles:
            return []
        if workload.better == "lower":
            return [value / singles[scheme] for value in values]
        return [singles[scheme] / value for value in values]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        m = summary.results.manifest
        _series(axes, summary, {key: relative(*key) for key in _places(summary)})
        cells = [summary.cell(m.baseline, workload.name, vms) for vms in sorted(m.vms)]
        _ideal(axes, [(cell.vms, relative_load(cell)) for cell in cells], "ideal (N VMs cost N)")
        _finish(axes, summary, "slowdown (times the own 1-VM median)")

    caption = (
        f"{workload.name}: slowdown against the scheme's own 1-VM median. On the dashed line N VMs"
        " that share the CPUs take N times as long; what lies above it is lost to preemption."
    )
    return _draw(f"{workload.name}-slowdown", caption, (9, 4.8), draw)


def _fairness(summary: Summary, workload: Workload) -> Plot:
    counts = [vms for vms in sorted(summary.results.manifest.vms) if vms > 1]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
        for axes, vms in zip(panels, counts, strict=True):
            _fairness_panel(axes, summary, workload, vms)
        panels[0].set_ylabel(f"per-VM median {workload.metric}\n(times the VMs' mean)")

    caption = (
        f"{workload.name}: fairness among the VMs. A point is one VM's median over its runs,"
        " relative to the mean of all VMs in that cell; above each scheme stands largest over"
        " smallest."
    )
    return _draw(f"{workload.name}-fairness", caption, (9, 3.6), draw)


def _fairness_panel(axes: Axes, summary: Summary, workload: Workload, vms: int) -> None:
    labels = _labels(summary)
    axes.axhline(1.0, color=IDEAL, linestyle="--", linewidth=1)
    for index, label in enumerate(labels):
        guests = per_guest(summary.results.of(label, workload.name, vms))
        medians = [m for values in guests.values() if (m := stats.median(values)) is not None]
        if not medians:
            continue
        center = sum(medians) / len(medians)
        relative = [value / center for value in medians]
        colour, marker = _look(index)
        axes.plot([index, index], [min(relative), max(relative)], color=colour, linewidth=1.5)
        axes.plot([index] * len(relative), relative, marker, color=colour, alpha=0.8)
        axes.annotate(
            f"{max(medians) / min(medians):.2f}", (index, max(relative)), (0, 7),
            textcoords="offset points", ha="center", fontsize=9,
        )
    axes.set_title(f"{vms} VMs", fontsize=11)
    axes.set_xticks(range(len(labels)), labels, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.margins(y=0.18)


def _wait_plots(summary: Summary, workload: Workload) -> list[Plot]:
    """How many waits for locks were how long, and their share of all time waited."""
    waits = _waits(summary, workload)
    if not waits:
        return []
    counts = {label: {n: float(number) for n, (number, _) in bins.items()}
              for label, bins in waits.items()}
    whole = {label: sum(cycles for _, cycles in bins.values()) for label, bins in waits.items()}
    shares = {label: {n: 100 * cycles / whole[label] for n, (_, cycles) in bins.items()}
              for label, bins in waits.items()}
    return [_steps(summary, workload, "waits", "waits (number)", counts),
            _steps(summary, workload, "waittime", "share of the time waited (%)", shares)]


def _waits(summary: Summary, workload: Workload) -> dict[str, Bins]:
    """Scheme to its histogram at the largest number of VMs, of waits that took time."""
    most = max(summary.results.manifest.vms)
    found: dict[str, Bins] = {}
    for label in _labels(summary):
        seen = summary.cell(label, workload.name, most).observed
        listed = seen.waits if seen else ()
        found[label] = {n: (number, cycles) for n, number, cycles in listed if cycles}
    return {label: bins for label, bins in found.items() if bins}


def _steps(summary: Summary, workload: Workload, name: str, y_label: str,
           heights: dict[str, dict[int, float]]) -> Plot:
    """Steps for each scheme; bin n reaches from n - 1 to n. Numbers are drawn logarithmic."""
    bins = {n for found in heights.values() for n in found}
    places = range(min(bins) - 1, max(bins) + 2)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, label in enumerate(_labels(summary)):
            if label in heights:
                colour, marker = _look(index)
                axes.plot([n - 0.5 for n in places], [heights[label].get(n, 0) for n in places],
                          color=colour, drawstyle="steps-mid", linewidth=1.4, marker=marker,
                          markersize=4, label=label)
        if name == "waits":
            axes.set_yscale("log")
        axes.set_ylim(bottom=0.5 if name == "waits" else 0)
        axes.set_xlim(min(bins) - 1.2, max(bins) + 0.2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("length of the wait (power of two of TSC cycles)")
        axes.set_ylabel(y_label)
        _legend(axes)

    caption = (
        f"{workload.name}: waits for spinlocks by their length, {y_label}, over all guests and"
        f" runs at the largest number of VMs ({max(summary.results.manifest.vms)}). The step from"
        " n to n + 1 holds the waits of at least 2^n and below 2^(n+1) cycles; cycles in which"
        " the waiter's vCPU did not run count too. As figures 1 and 2 of Friebel and Biemueller,"
        " Xen Summit 2008."
    )
    return _draw(f"{workload.name}-{name}", caption, (9, 4.2), draw)


def _flush_plots(summary: Summary, workload: Workload) -> list[Plot]:
    """The distribution of flush times for each number of VMs that has any."""
    found = []
    for vms in sorted(summary.results.manifest.vms):
        lines = _flush_lines(summary, workload, vms)
        if lines:
            found.append(_distribution(summary, workload, vms, lines))
    return found


def _flush_lines(
    summary: Summary, workload: Workload, vms: int
) -> dict[str, list[tuple[int, float]]]:
    """Scheme to points of its distribution: nanoseconds, share."""
    found = {}
    for label in _labels(summary):
        one = flushes.whole(summary.cell(label, workload.name, vms).observed)
        if one:
            found[label] = flushes.distribution({n: wall for n, wall, _ in one.buckets if wall})
    return found


def _distribution(summary: Summary, workload: Workload, vms: int,
                  lines: dict[str, list[tuple[int, float]]]) -> Plot:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, label in enumerate(_labels(summary)):
            if label in lines:
                # A logarithmic axis has no 0; 1 ns is left of all that is.
                axes.plot([max(1, ns) / 1e3 for ns, _ in lines[label]],
                          [100 * share for _, share in lines[label]],
                          color=_look(index)[0], linewidth=1.6, label=label)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set_ylim(0, 100)
        axes.set_xlabel("latency of a remote TLB flush (microseconds)")
        axes.set_ylabel("flushes that took less (%)")
        _legend(axes)

    (head,) = columns((vms,))
    caption = (
        f"{workload.name}: distribution of the latency of remote TLB flushes at {head}, as their"
        " callers saw it, over the guests whose figure counts and all runs; all mechanisms"
        " together. As figures 3 and 5 of Ouyang, Lange and Zheng, VEE 2016."
    )
    return _draw(f"{workload.name}-flushes{vms}", caption, (9, 4.2), draw)


def _preemption_plots(summary: Summary, workload: Workload) -> list[Plot]:
    """Why vCPUs were preempted, a bar for each scheme under which the host knows."""
    counts = [vms for vms in sorted(summary.results.manifest.vms)
              if any(_preempted(summary, workload, label, vms) for label in _labels(summary))]
    if not counts:
        return []

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
        for axes, vms in zip(panels, counts, strict=True):
            _preemption_panel(axes, summary, workload, vms)
        panels[0].set_ylabel("preemptions of vCPUs (1/s)")
        _legend(panels[-1])

    caption = (
        f"{workload.name}: preemptions of vCPUs by what they were doing, of all VMs together:"
        " medians of the runs of each kind; the line joins the quartiles of all kinds together."
        " What was put off until the vCPU had left its section is of the kind that it lost the"
        " CPU in at last. As figure 3 of Kashyap, Min and Kim, USENIX ATC 2018."
    )
    return [_draw(f"{workload.name}-preemptions", caption, (9, 4.2), draw)]


def _preempted(summary: Summary, workload: Workload, label: str, vms: int) -> dict[str, float]:
    """Kind to preemptions a second, of those that are known; all VMs together."""
    seen = summary.cell(label, workload.name, vms).observed
    kinds = seen.preemptions[0].kinds if seen and seen.preemptions else {}
    return {kind: number for kind, number in kinds.items() if number is not None}


def _preemption_panel(axes: Axes, summary: Summary, workload: Workload, vms: int) -> None:
    labels = _labels(summary)
    for index, label in enumerate(labels):
        bottom = 0.0
        for kind, number in _preempted(summary, workload, label, vms).items():
            axes.bar(index, number, 0.7, bottom, color=KIND_COLOURS[kind])
            bottom += number
        runs = [figures.preempted(one).per_s
                for one in summary.results.observations(label, workload.name, vms)]
        box = stats.quartiles([number for number in runs if number is not None])
        if box is not None:
            axes.plot([index, index], box, color="black", linewidth=1.4, marker="_", markersize=8)
    for kind, colour in KIND_COLOURS.items():
        axes.bar(0, 0, 0.7, 0, color=colour, label=kind)
    axes.set_title(columns((vms,))[0], fontsize=11)
    axes.set_xticks(range(len(labels)), labels, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(labels) - 0.4)


def _window_plots(summary: Summary, workload: Workload) -> list[Plot]:
    """How far the first VM's CPU time moves away from that of the others during a run."""
    most = max(summary.results.manifest.vms)
    runs = {label: [one.samples for one in summary.results.observations(label, workload.name, most)
                    if one.samples is not None] for label in _labels(summary)}
    if not any(runs.values()):
        return []

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True)
        for index, label in enumerate(_labels(summary)):
            if runs[label]:
                _window_lines(upper, lower, runs[label], label, _look(index)[0])
        for axes in (upper, lower):
            axes.axhline(0, color=IDEAL, linestyle="--", linewidth=1)
        upper.set_ylabel("so far (ms)")
        lower.set_ylabel("in a window (ms)")
        lower.set_xlabel("time from the start (s)")
        _legend(upper)

    (head,) = columns((most,))
    caption = (
        f"{workload.name}: CPU time of the first VM less the mean of the others at {head}, in"
        f" windows of {summary.results.manifest.window_ms} ms: medians of the runs, and their"
        " quartiles as a band. Above: all windows so far together; below: each alone. As figure 7"
        " of Kashyap, Min and Kim, USENIX ATC 2018."
    )
    return [_draw(f"{workload.name}-windows", caption, (9, 5.4), draw)]


def _window_lines(upper: Axes, lower: Axes, runs: list[Samples], label: str, colour: str) -> None:
    """Of one scheme; as far as its shortest run goes."""
    number = min(len(one.times) for one in runs) - 1
    apart = np.array([windows.differences(one)[:number] for one in runs]) * 1e3
    times = np.median([windows.moments(one)[:number] for one in runs], axis=0)
    for axes, values in ((upper, apart.cumsum(axis=1)), (lower, apart)):
        low, middle, high = np.percentile(values, [25, 50, 75], axis=0)
        axes.plot(times, middle, color=colour, linewidth=1.4, label=label)
        axes.fill_between(times, low, high, color=colour, alpha=0.2, linewidth=0)


def _epoch_plots(summary: Summary, workload: Workload) -> list[Plot]:
    """Windows of the first VM, and what it wasted, from epoch to epoch of a run."""
    found = []
    for vms in summary.results.manifest.vms:
        traces = {label: _longest_trace(summary, workload, label, vms)
                  for label in _labels(summary)}
        if not any(traces.values()):
            continue

        def draw(figure: Figure, traces: dict[str, Trace] = traces) -> None:
            upper, lower = figure.subplots(2, 1, sharex=True)
            for index, label in enumerate(_labels(summary)):
                colour, marker = _look(index)
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
            _legend(upper)

        (head,) = columns((vms,))
        caption = (
            f"{workload.name}: mean window of the spins in each epoch of the first VM at {head},"
            " and the time that it wasted by spinning and by handling it, of its CPU time. Of"
            " each scheme the run with most epochs. As figures 11 and 12 of Shan, Ding and"
            " Gehani, TPDS 2017."
        )
        if any(len(trace) == epochs.KEPT for trace in traces.values()):
            caption += f" The host keeps the latest {epochs.KEPT}: earlier ones are missing."
        found.append(_draw(f"{workload.name}-epochs-{vms}", caption, (9, 5.4), draw))
    return found


def _longest_trace(summary: Summary, workload: Workload, label: str, vms: int) -> Trace:
    runs = summary.results.observations(label, workload.name, vms)
    return max((one.epochs[0] for one in runs if one.epochs), key=len, default=())


def _window_cost_plots(summary: Summary, workload: Workload) -> list[Plot]:
    """What epochs at one window wasted, in all runs, beside what those at others did."""
    found = []
    for vms in summary.results.manifest.vms:
        costs = {label: _window_costs(summary, workload, label, vms)
                 for label in _labels(summary)}
        if not any(costs.values()):
            continue

        def draw(figure: Figure, costs: dict[str, list[WindowCost]] = costs) -> None:
            axes = figure.subplots()
            for index, label in enumerate(_labels(summary)):
                colour, marker = _look(index)
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
            _legend(axes)

        (head,) = columns((vms,))
        caption = (
            f"{workload.name}: what epochs wasted by spinning and by handling it, of the VM's CPU"
            f" time, by their mean window to the nearest {epochs.STEP} cycles, at {head}: medians"
            f" of all VMs and runs, and their quartiles as a band, where at least {FEW_EPOCHS}"
            " epochs ended. As figures 8 to 10 of Shan, Ding and Gehani, TPDS 2017."
        )
        found.append(_draw(f"{workload.name}-window-costs-{vms}", caption, (9, 4.2), draw))
    return found


def _window_costs(summary: Summary, workload: Workload, label: str, vms: int) -> list[WindowCost]:
    seen = summary.cell(label, workload.name, vms).observed
    return [one for one in seen.window_costs if one.epochs >= FEW_EPOCHS] if seen else []


def _series(axes: Axes, summary: Summary, values: dict[tuple[str, int], list[float]]) -> None:
    """Points, quartile bars and a line of medians for each scheme, side by side."""
    labels = _labels(summary)
    width = 0.7 / max(1, len(labels))
    for index, label in enumerate(labels):
        shift = (index - (len(labels) - 1) / 2) * width
        colour, marker = _look(index)
        line = []
        for vms in sorted(summary.results.manifest.vms):
            points = values[(label, vms)]
            middle, box = stats.median(points), stats.quartiles(points)
            if middle is None or box is None:
                continue
            x = vms + shift
            line.append((x, middle))
            axes.plot(_strewn(x, width, len(points)), points, "o", color=colour, alpha=0.45,
                      markersize=3.5, markeredgewidth=0)
            axes.plot([x, x], box, color=colour, linewidth=1.6, solid_capstyle="butt")
            for end in box:
                axes.plot([x - width / 5, x + width / 5], [end, end], color=colour, linewidth=1.6)
        if line:
            axes.plot(*zip(*line, strict=True), color=colour, linewidth=1.2, marker=marker,
                      markersize=6, markeredgecolor="white", markeredgewidth=0.8, label=label)


def _strewn(x: float, width: float, count: int) -> list[float]:
    """Places around x that keep points of like value apart, in a fixed order."""
    return [x + width * 0.7 * ((k * 0.618034 + 0.5) % 1.0 - 0.5) for k in range(count)]


def _ideal(axes: Axes, points: list[tuple[int, float]], label: str) -> None:
    axes.plot(*zip(*points, strict=True), color=IDEAL, linestyle="--", linewidth=1.4,
              label=label, zorder=1)


def _finish(axes: Axes, summary: Summary, y_label: str) -> None:
    vms = sorted(summary.results.manifest.vms)
    m = summary.results.manifest
    axes.set_xticks(vms, [str(count) for count in vms])
    axes.set_xlim(min(vms) - 0.45, max(vms) + 0.45)
    axes.set_xlabel(f"number of VMs ({m.vcpus} vCPUs each, {m.pcpus} pCPUs)")
    axes.set_ylabel(y_label)
    _scale(axes)
    _legend(axes)


def _legend(axes: Axes) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _scale(axes: Axes) -> None:
    seen = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    if seen.max() / seen.min() > LOG_FROM:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)


def _singles(summary: Summary, workload: Workload) -> dict[str, float]:
    """Scheme to its 1-VM median, where there is one."""
    cells = [c for c in summary.cells if c.workload == workload.name and c.vms == 1]
    return {cell.scheme: cell.median for cell in cells if cell.median is not None}


def _labels(summary: Summary) -> list[str]:
    return [scheme.label for scheme in summary.results.manifest.schemes]


def _places(summary: Summary) -> list[tuple[str, int]]:
    vms = summary.results.manifest.vms
    return [(label, count) for label in _labels(summary) for count in vms]


def _look(index: int) -> tuple[str, str]:
    return PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
