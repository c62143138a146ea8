# SPDX-License-Identifier: GPL-2.0-only
"""The plots of a sweep: worth of settings and of single values, curves over numbers of VMs."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.report import drawing
from lab.report.drawing import Plot
from lab.report.swept import Cell, Marginal, Ranked, Swept

MOST_CURVES = 8
SIZE = (8.5, 4.2)
"""Inches of a plot."""
ROW = 0.28
"""Inches of a setting."""
ACROSS = 5.6
"""Inches of a panel of the overview."""
LEFT, RIGHT, BELOW, ABOVE = 1.2, 0.9, 0.6, 0.15
"""Inches around it, without names. No solver places it: its last digits vary."""
TICK_LETTER, LEGEND_LETTER = 0.066, 0.09
"""Inches of a letter of a setting's name, to its left, and of the legend, to its right."""
Drawn = tuple[str, str, float, Callable[[Axes], None]]
"""Name, caption, inches of height, and what draws it."""


def plots(found: Swept) -> list[Plot]:
    """A plot for each varied parameter, and for each workload with several numbers of VMs."""
    return [_plot(*panel) for panel in _panels(found)]


def _plot(name: str, caption: str, height: float, draw: Callable[[Axes], None]) -> Plot:
    return drawing.plot(name, caption, (SIZE[0], height),
                        lambda figure: draw(figure.subplots()))


def overview(name: str, found: Swept, rows: Sequence[Ranked]) -> Plot:
    """All of them below each other in one picture, and above them the worth of some settings."""
    panels = [*_panels(found)]
    if rows:
        panels.insert(0, ("worth", "", 1.2 + ROW * len(rows), lambda axes: _worths(
            axes, rows, found.baseline)))
    heights = [height for _, _, height, _ in panels]
    left = max([LEFT, *(LEFT / 4 + TICK_LETTER * len(one.setting) for one in rows)])
    explained = [*(one.workload for one in found.marginals),
                 *(_shown(found) if len(found.sweep.vms) > 1 else ())]
    right = RIGHT + LEGEND_LETTER * max(map(len, explained), default=0)
    width = left + ACROSS + right

    def draw(figure: Figure) -> None:
        figure.set_layout_engine("none")
        places = figure.subfigures(len(panels), squeeze=False, height_ratios=heights)
        for place, (_, _, height, drawn) in zip(places.flat, panels, strict=True):
            drawn(place.subplots(gridspec_kw={
                "left": left / width, "right": 1 - right / width,
                "bottom": BELOW / height, "top": 1 - ABOVE / height}))

    return drawing.plot(name, "", (width, sum(heights)), draw)


def _panels(found: Swept) -> list[Drawn]:
    base = found.baseline
    made = [_marginal(name, [one for one in found.marginals if one.name == name], base)
            for name in dict.fromkeys(one.name for one in found.marginals)]
    if len(found.sweep.vms) > 1:
        places = dict.fromkeys((one.workload, one.machine, one.vcpus, one.pcpus)
                               for one in found.cells)
        made += [_curves(place, [one for one in found.cells if place == (
            one.workload, one.machine, one.vcpus, one.pcpus)], _shown(found),
            found.sweep.limit.get(place[0], ())) for place in places]
    return made


def _shown(found: Swept) -> list[str]:
    """Settings that have a curve where they were played: so many as can be told apart by eye."""
    played = {one.setting for one in found.cells}
    wanted = dict.fromkeys([*found.named, *(one.setting for one in found.ranking)])
    return [one for one in wanted if one in played][:MOST_CURVES]


def _worths(axes: Axes, rows: Sequence[Ranked], baseline: str) -> None:
    """Points with their intervals, the best on top."""
    for place, one in enumerate(rows):
        axes.plot([one.worth], [-place], "o", color=drawing.PALETTE[0], markersize=5)
        if one.interval:
            axes.plot(one.interval, [-place] * 2, color=drawing.PALETTE[0], linewidth=1.6)
    axes.axvline(1.0, color=drawing.IDEAL, linestyle="--", linewidth=1.2)
    axes.set_yticks([-place for place in range(len(rows))], [one.setting for one in rows],
                    fontsize=8)
    axes.set_xlabel(f"time over {baseline}'s, below 1 is better; bar: 95 % interval")


def _marginal(name: str, found: Sequence[Marginal], baseline: str) -> Drawn:
    values = list(dict.fromkeys(one.value for one in found))
    loads = sorted({one.workload for one in found})

    def draw(axes: Axes) -> None:
        width = 0.6 / len(loads)
        for place, load in enumerate(loads):
            _series(axes, place, load, (place - (len(loads) - 1) / 2) * width,
                    {values.index(one.value): one for one in found if one.workload == load})
        axes.axhline(1.0, color=drawing.IDEAL, linestyle="--", linewidth=1.2)
        axes.set_xticks(range(len(values)), values)
        axes.set_xlabel(name)
        axes.set_ylabel(f"time over {baseline}'s\nmedian; bar: quartiles")
        drawing.scale(axes)
        drawing.legend(axes)

    points = "A point is a run, with all values of the others; line" * any(
        one.ratios for one in found) or "Of all values of the others; line"
    caption = (f"{name}: time over {baseline}'s of the same seed, below 1 is better."
               f" {points}: medians, bars: quartiles.")
    return f"marginal-{name.replace('.', '-')}", caption, SIZE[1], draw


def _series(axes: Axes, index: int, label: str, shift: float, of: dict[int, Marginal]) -> None:
    colour, marker = drawing.look(index)
    line = []
    for x, one in sorted(of.items()):
        axes.plot([x + shift] * len(one.ratios), one.ratios, "o", color=colour, alpha=0.4,
                  markersize=3.5, markeredgewidth=0)
        line.append((x + shift, one.median))
        axes.plot([x + shift] * 2, [one.low, one.high], color=colour, linewidth=1.8)
    axes.plot(*zip(*line, strict=True), color=colour, marker=marker, linewidth=1.2, label=label)


def _curves(place: tuple[str, str, int, int], found: Sequence[Cell],
            wanted: Sequence[str], limits: Sequence[float]) -> Drawn:
    """Of the wanted settings that were played there."""
    workload, machine, vcpus, pcpus = place
    there = {one.setting for one in found}
    settings = [one for one in wanted if one in there]

    def draw(axes: Axes) -> None:
        for index, setting in enumerate(settings):
            own = [one for one in found if one.setting == setting]
            colour, marker = drawing.look(index)
            axes.errorbar(
                [one.vms for one in own], [one.median for one in own],
                yerr=[[one.median - one.best for one in own],
                      [one.worst - one.median for one in own]],
                color=colour, marker=marker, capsize=3, linewidth=1.2, label=setting)
        for limit in limits:
            axes.axhline(limit, color=drawing.IDEAL, linestyle=":", linewidth=1.2)
        axes.set_xticks(sorted({one.vms for one in found}))
        axes.set_xlabel(f"number of VMs ({vcpus} vCPUs each, {pcpus} pCPUs)")
        axes.set_ylabel(f"{workload} ({found[0].unit})\nmedian; bar: range" + "; dots: limits" *
                        bool(limits))
        drawing.scale(axes)
        drawing.legend(axes)

    caption = (f"{workload}, machine model {machine}: median over the seeds by the number of VMs;"
               f" bars from the least to the largest; {len(settings)} of {len(there)} settings.")
    name = f"curve-{workload}-{machine}-{vcpus}-{pcpus}".replace(":", "-").replace("*", "x")
    return name, caption, SIZE[1], draw
