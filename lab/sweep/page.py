# SPDX-License-Identifier: GPL-2.0-only
"""The page of a sweep: best settings with their intervals, flatness, marginal plots, curves."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.core import files, stats
from lab.core.errors import UsageError
from lab.report import drawing, pages
from lab.report.drawing import Plot
from lab.sweep import analysis, search
from lab.sweep.analysis import Cell, Marginal
from lab.sweep.model import Sweep
from lab.sweep.store import Row, Store

FILE = "sweep.html"
MOST_SHOWN = 20
"""Settings in the table of the best."""
MOST_CURVES = 8
SIZE = (8.5, 4.2)


def make(sweep: Sweep, directory: Path) -> str:
    """Write the page; what it says of the sweep as text. UsageError without a row."""
    store = Store(directory)
    if not store.rows:
        raise UsageError(f"{directory} has no run of a sweep: make some with"
                         f" ./pvsync sweep FILE --out {directory}")
    latest = _latest(store)
    rows = analysis.of_sweep(sweep, latest)
    baseline = sweep.schemes[0]
    ranked = analysis.ranking(rows, baseline)
    flat = analysis.flatness(ranked)
    judged = search.results(directory)
    mixed = _mixed(latest)
    heads, table = _ranking(ranked)
    failed = [row for row in latest if not row.valid]
    reasons = sorted({row.reason for row in failed})
    page = pages.environment().get_template(FILE).render(
        sweep=sweep, baseline=baseline, facts=_facts(sweep, store, latest), flat=flat,
        heads=heads, ranking=table, shown=min(MOST_SHOWN, len(ranked)), count=len(ranked),
        judged=[(one.setting, _number(one.seen), _number(one.held), len(one.ratios))
                for one in judged],
        verdict=search.said(judged) if judged else "",
        plots=[(one.caption, Markup(one.svg)) for one in plots(sweep, rows)],
        cells=[_cell(one) for one in analysis.cells(rows)],
        mixed=mixed,
        failed=[(reason, sum(row.reason == reason for row in failed)) for reason in reasons])
    files.replace(directory / FILE, page)
    lines = ["  ".join(row) for row in table[:5]]
    return "\n".join([*lines, *flat, *([search.said(judged)] if judged else []),
                      *([mixed] if mixed else []), str(directory / FILE)])


def _latest(store: Store) -> list[Row]:
    """Rows of the kernel, images and emulator that the last of them had: no others are mixed in.

    Of a run that was made again under another key, it is the last.
    """
    rows = sorted(store.rows.values(), key=lambda row: row.made)
    last = rows[-1]
    found = {(row.setting, row.workload, row.vms, row.vcpus, row.pcpus, row.machine, row.seed): row
             for row in rows if (row.kernel, row.images, row.emulator) ==
             (last.kernel, last.images, last.emulator)}
    return list(found.values())


def _mixed(rows: Sequence[Row]) -> str:
    """A warning when the lab itself was not the same for all rows; nothing else."""
    commits = sorted({row.commit for row in rows})
    if len(commits) < 2:
        return ""
    return (f"Rows of {len(commits)} source commits are together here: {', '.join(commits)}. A"
            " difference between settings may be one between commits.")


def _facts(sweep: Sweep, store: Store, rows: Sequence[Row]) -> list[tuple[str, str]]:
    last = max(rows, key=lambda row: row.made)
    boots = len({row.unit for row in rows})
    wall = sum(row.wall_s for row in rows) / 3600
    return [
        ("sweep", f"{sweep.name}: {sweep.about}"),
        ("runs", f"{len(rows)}, {sum(not row.valid for row in rows)} of them not valid, in {boots}"
         f" boots of hosts by {len({row.worker for row in rows if row.worker})} workers"),
        ("cost", f"{sum(row.core_s for row in rows) / 3600:.2f} core-hours of CPU time;"
         f" {wall:.2f} hours of workers"),
        ("runs of other builds, or made again", f"{len(store.rows) - len(rows)}, left out"),
        ("machine models", ", ".join(sweep.machines)), ("backend", "vt"),
        ("kernel", last.kernel), ("images", last.images), ("emulator", last.emulator),
        ("source commit", ", ".join(sorted({row.commit for row in rows}))),
    ]


def _ranking(ranked: Sequence[analysis.Ranked]) -> tuple[list[str], list[list[str]]]:
    loads = sorted({load for one in ranked for load in one.by_workload})
    heads = ["setting", "worth", f"{stats.CONFIDENCE:.0%} interval", "runs", "missing", *loads]
    return heads, [[
        one.setting, _number(one.worth), "" if one.interval is None else
        f"{one.interval[0]:.3f} to {one.interval[1]:.3f}", str(one.runs), str(one.missing),
        *(_number(one.by_workload.get(load)) for load in loads)] for one in ranked[:MOST_SHOWN]]


def _number(value: float | None) -> str:
    return "" if value is None or value == float("inf") else f"{value:.3f}"


def _cell(one: Cell) -> list[str]:
    spread = "" if one.spread is None else f" ± {one.spread:.0%}"
    return [one.workload, one.machine, f"{one.vms} × {one.vcpus} on {one.pcpus}", one.setting,
            f"{one.median:.4g} {one.unit}{spread}", f"{one.best:.4g} to {one.worst:.4g}",
            str(one.runs)]


def plots(sweep: Sweep, rows: Sequence[Row]) -> list[Plot]:
    """A plot for each varied parameter, and for each workload with several numbers of VMs."""
    found = analysis.marginals(rows, sweep.schemes[0])
    drawn = [_marginal(name, [one for one in found if one.name == name], sweep)
             for name in dict.fromkeys(one.name for one in found)]
    if len(sweep.vms) > 1:
        places = dict.fromkeys((one.workload, one.machine, one.vcpus, one.pcpus)
                               for one in analysis.cells(rows))
        drawn += [_curves(place, [one for one in analysis.cells(rows) if place == (
            one.workload, one.machine, one.vcpus, one.pcpus)]) for place in places]
    return drawn


def _marginal(name: str, found: Sequence[Marginal], sweep: Sweep) -> Plot:
    values = sorted({one.value for one in found}, key=analysis.natural)
    loads = sorted({one.workload for one in found})

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.6 / len(loads)
        for place, load in enumerate(loads):
            points = {values.index(one.value): one.ratios for one in found
                      if one.workload == load}
            _series(axes, place, load, points, (place - (len(loads) - 1) / 2) * width)
        axes.axhline(1.0, color=drawing.IDEAL, linestyle="--", linewidth=1.2)
        axes.set_xticks(range(len(values)), values)
        axes.set_xlabel(name)
        axes.set_ylabel(f"time over {sweep.schemes[0]}'s")
        drawing.scale(axes)
        drawing.legend(axes)

    caption = (f"{name}: time over {sweep.schemes[0]}'s of the same seed, below 1 is better."
               " A point is a run, with all values of the others; line: medians, bars: quartiles.")
    return drawing.plot(f"marginal-{name.replace('.', '-')}", caption, SIZE, draw)


def _curves(place: tuple[str, str, int, int], found: Sequence[Cell]) -> Plot:
    workload, machine, vcpus, pcpus = place
    settings = list(dict.fromkeys(one.setting for one in found))[:MOST_CURVES]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for index, setting in enumerate(settings):
            own = [one for one in found if one.setting == setting]
            colour, marker = drawing.look(index)
            axes.errorbar(
                [one.vms for one in own], [one.median for one in own],
                yerr=[[one.median - one.best for one in own],
                      [one.worst - one.median for one in own]],
                color=colour, marker=marker, capsize=3, linewidth=1.2, label=setting)
        axes.set_xticks(sorted({one.vms for one in found}))
        axes.set_xlabel(f"number of VMs ({vcpus} vCPUs each, {pcpus} pCPUs)")
        axes.set_ylabel(f"{workload} ({found[0].unit})")
        drawing.legend(axes)

    caption = (f"{workload}, machine model {machine}: median over the seeds by the number of VMs;"
               " bars from the least to the largest.")
    name = f"curve-{workload}-{machine}-{vcpus}-{pcpus}".replace(":", "-").replace("*", "x")
    return drawing.plot(name, caption, SIZE, draw)


def _series(axes: Axes, index: int, label: str, points: dict[int, tuple[float, ...]],
            shift: float) -> None:
    colour, marker = drawing.look(index)
    line = []
    for x, values in sorted(points.items()):
        axes.plot([x + shift] * len(values), values, "o", color=colour, alpha=0.4, markersize=3.5,
                  markeredgewidth=0)
        middle, box = stats.median(values), stats.quartiles(values)
        if middle is not None and box is not None:
            line.append((x + shift, middle))
            axes.plot([x + shift] * 2, box, color=colour, linewidth=1.8)
    axes.plot(*zip(*line, strict=True), color=colour, marker=marker, linewidth=1.2, label=label)
