# SPDX-License-Identifier: GPL-2.0-only
"""The plots of a report, as SVG; the same summary gives the same bytes."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lab.core import stats
from lab.core.model import Workload
from lab.observe import figures, flushes
from lab.observe.histogram import Bins
from lab.report import drawing, window_plots
from lab.report.grids import columns
from lab.report.summary import Summary, per_guest


def plots(summary: Summary) -> list[drawing.Plot]:
    """Every plot that the summary has the values for."""
    found = []
    for workload in summary.results.manifest.workloads:
        if not any(c.values for c in summary.cells if c.workload == workload.name):
            continue
        found.append(_time(summary, workload))
        if drawing.singles(summary, workload):
            found.append(_slowdown(summary, workload))
        if any(c.fairness for c in summary.cells if c.workload == workload.name):
            found.append(_fairness(summary, workload))
        found += _wait_plots(summary, workload)
        found += _flush_plots(summary, workload)
        found += _preemption_plots(summary, workload)
        found += window_plots.plots(summary, workload)
    return found


def figures_of(axes: Axes, summary: Summary, workload: Workload) -> str:
    """Points, quartiles and medians of all cells, and the ideal; the name of the y axis."""
    lines = {
        (scheme, vms): list(summary.cell(scheme, workload.name, vms).values)
        for scheme, vms in drawing.places(summary)
    }
    drawing.series(axes, summary, lines)
    m = summary.results.manifest
    ideals = [(v, summary.cell(m.baseline, workload.name, v).ideal) for v in sorted(m.vms)]
    drawn = [(v, ideal) for v, ideal in ideals if ideal is not None]
    if drawn:
        drawing.ideal(axes, drawn, f"ideal ({m.baseline})")
    return f"{workload.metric} ({workload.unit}), {workload.better} is better"


def _time(summary: Summary, workload: Workload) -> drawing.Plot:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        drawing.finish(axes, summary, figures_of(axes, summary, workload))

    caption = (
        f"{workload.name}: {workload.metric} against the number of VMs. A point is one valid run"
        " (mean of its guests); the line joins medians, bars are quartiles. Dashed: the"
        " baseline's 1-VM median under the overcommit, if sharing cost nothing."
    )
    return drawing.plot(f"{workload.name}-figure", caption, (9, 4.8), draw)


def _slowdown(summary: Summary, workload: Workload) -> drawing.Plot:
    singles = drawing.singles(summary, workload)

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
        drawing.series(axes, summary, {key: relative(*key) for key in drawing.places(summary)})
        cells = [summary.cell(m.baseline, workload.name, vms) for vms in sorted(m.vms)]
        drawing.ideal(axes, [(cell.vms, cell.relative_load) for cell in cells],
                      "ideal (N VMs cost N)")
        drawing.finish(axes, summary, "slowdown (times the own 1-VM median)")

    caption = (
        f"{workload.name}: slowdown against the scheme's own 1-VM median. On the dashed line N VMs"
        " that share the CPUs take N times as long; what lies above it is lost to preemption."
    )
    return drawing.plot(f"{workload.name}-slowdown", caption, (9, 4.8), draw)


def _fairness(summary: Summary, workload: Workload) -> drawing.Plot:
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
    return drawing.plot(f"{workload.name}-fairness", caption, (9, 3.6), draw)


def _fairness_panel(axes: Axes, summary: Summary, workload: Workload, vms: int) -> None:
    labels = drawing.labels(summary)
    axes.axhline(1.0, color=drawing.IDEAL, linestyle="--", linewidth=1)
    for index, label in enumerate(labels):
        guests = per_guest(summary.results.of(label, workload.name, vms))
        medians = [m for values in guests.values() if (m := stats.median(values)) is not None]
        if not medians:
            continue
        center = sum(medians) / len(medians)
        relative = [value / center for value in medians]
        colour, marker = drawing.look(index)
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


def _wait_plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
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
    for label in drawing.labels(summary):
        seen = summary.cell(label, workload.name, most).observed
        listed = seen.waits if seen else ()
        found[label] = {n: (number, cycles) for n, number, cycles in listed if cycles}
    return {label: bins for label, bins in found.items() if bins}


def _steps(summary: Summary, workload: Workload, name: str, y_label: str,
           heights: dict[str, dict[int, float]]) -> drawing.Plot:
    """Steps for each scheme; bin n reaches from n - 1 to n. Numbers are drawn logarithmic."""
    bins = {n for found in heights.values() for n in found}
    places = range(min(bins) - 1, max(bins) + 2)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, label in enumerate(drawing.labels(summary)):
            if label in heights:
                colour, marker = drawing.look(index)
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
        drawing.legend(axes)

    caption = (
        f"{workload.name}: waits for spinlocks by their length, {y_label}, over all guests and"
        f" runs at the largest number of VMs ({max(summary.results.manifest.vms)}). The step from"
        " n to n + 1 holds the waits of at least 2^n and below 2^(n+1) cycles; cycles in which"
        " the waiter's vCPU did not run count too. As figures 1 and 2 of Friebel and Biemueller,"
        " Xen Summit 2008."
    )
    return drawing.plot(f"{workload.name}-{name}", caption, (9, 4.2), draw)


def _flush_plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
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
    for label in drawing.labels(summary):
        one = flushes.whole(summary.cell(label, workload.name, vms).observed)
        if one:
            found[label] = flushes.distribution({n: wall for n, wall, _ in one.buckets if wall})
    return found


def _distribution(summary: Summary, workload: Workload, vms: int,
                  lines: dict[str, list[tuple[int, float]]]) -> drawing.Plot:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, label in enumerate(drawing.labels(summary)):
            if label in lines:
                # A logarithmic axis has no 0; 1 ns is left of all that is.
                axes.plot([max(1, ns) / 1e3 for ns, _ in lines[label]],
                          [100 * share for _, share in lines[label]],
                          color=drawing.look(index)[0], linewidth=1.6, label=label)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set_ylim(0, 100)
        axes.set_xlabel("latency of a remote TLB flush (microseconds)")
        axes.set_ylabel("flushes that took less (%)")
        drawing.legend(axes)

    (head,) = columns((vms,))
    caption = (
        f"{workload.name}: distribution of the latency of remote TLB flushes at {head}, as their"
        " callers saw it, over the guests whose figure counts and all runs; all mechanisms"
        " together. As figures 3 and 5 of Ouyang, Lange and Zheng, VEE 2016."
    )
    return drawing.plot(f"{workload.name}-flushes{vms}", caption, (9, 4.2), draw)


def _preemption_plots(summary: Summary, workload: Workload) -> list[drawing.Plot]:
    """Why vCPUs were preempted, a bar for each scheme under which the host knows."""
    counts = [vms for vms in sorted(summary.results.manifest.vms)
              if any(_preempted(summary, workload, label, vms)
                     for label in drawing.labels(summary))]
    if not counts:
        return []

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
        for axes, vms in zip(panels, counts, strict=True):
            _preemption_panel(axes, summary, workload, vms)
        panels[0].set_ylabel("preemptions of vCPUs (1/s)")
        drawing.legend(panels[-1])

    caption = (
        f"{workload.name}: preemptions of vCPUs by what they were doing, of all VMs together:"
        " medians of the runs of each kind; the line joins the quartiles of all kinds together."
        " What was put off until the vCPU had left its section is of the kind that it lost the"
        " CPU in at last. As figure 3 of Kashyap, Min and Kim, USENIX ATC 2018."
    )
    return [drawing.plot(f"{workload.name}-preemptions", caption, (9, 4.2), draw)]


def _preempted(summary: Summary, workload: Workload, label: str, vms: int) -> dict[str, float]:
    """Kind to preemptions a second, of those that are known; all VMs together."""
    seen = summary.cell(label, workload.name, vms).observed
    kinds = seen.preemptions[0].kinds if seen and seen.preemptions else {}
    return {kind: number for kind, number in kinds.items() if number is not None}


def _preemption_panel(axes: Axes, summary: Summary, workload: Workload, vms: int) -> None:
    labels = drawing.labels(summary)
    for index, label in enumerate(labels):
        bottom = 0.0
        for kind, number in _preempted(summary, workload, label, vms).items():
            axes.bar(index, number, 0.7, bottom, color=drawing.KIND_COLOURS[kind])
            bottom += number
        runs = [figures.preempted(one).per_s
                for one in summary.results.observations(label, workload.name, vms)]
        box = stats.quartiles([number for number in runs if number is not None])
        if box is not None:
            axes.plot([index, index], box, color="black", linewidth=1.4, marker="_", markersize=8)
    for kind, colour in drawing.KIND_COLOURS.items():
        axes.bar(0, 0, 0.7, 0, color=colour, label=kind)
    axes.set_title(columns((vms,))[0], fontsize=11)
    axes.set_xticks(range(len(labels)), labels, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(labels) - 0.4)
