# SPDX-License-Identifier: GPL-2.0-only
"""What all plots of a report have in common: style, colours, axes, and how one becomes SVG."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lab.core import stats
from lab.core.model import Workload
from lab.observe import preemptions
from lab.report.summary import Summary

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
NARROW = 5.0
"""Inches below which letters are those of a paper's column, and legends stand below."""
PAPER: dict[Any, Any] = {
    "pdf.fonttype": 42,
    "font.size": 7,
    "lines.linewidth": 0.9,
    "lines.markersize": 3,
    "axes.linewidth": 0.6,
}
LOG_FROM = 8.0
"""A value axis becomes logarithmic when its largest is so many times its smallest."""


@dataclass(frozen=True)
class Plot:
    """One figure: the file's name without suffix, what it shows, and the SVG or the PDF."""

    name: str
    caption: str
    svg: str
    pdf: bytes = b""


_WIDTH = ContextVar[float | None]("_WIDTH", default=None)
"""Inches of PDFs, which are then drawn in place of SVGs."""


@contextmanager
def as_pdf(width: float) -> Iterator[None]:
    """Plots are drawn as PDF, so many inches wide, meanwhile."""
    before = _WIDTH.set(width)
    try:
        yield
    finally:
        _WIDTH.reset(before)


def _is_narrow() -> bool:
    width = _WIDTH.get()
    return width is not None and width < NARROW


def plot(
    name: str, caption: str, size: tuple[float, float], draw: Callable[[Figure], None]
) -> Plot:
    """One figure, drawn by `draw`; the same in gives the same bytes."""
    width = _WIDTH.get()
    style = {**STYLE, **(PAPER if _is_narrow() else {}), "svg.hashsalt": name}
    with matplotlib.rc_context(style):
        if width is not None:
            size = (width, max(width * 0.62, width * size[1] / size[0]))
        figure = plt.figure(figsize=size, layout="constrained")
        draw(figure)
        out = io.BytesIO()
        if width is None:
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "pvsync"})
        else:
            figure.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": "pvsync"})
        plt.close(figure)
    if width is not None:
        return Plot(name, caption, "", out.getvalue())
    svg = out.getvalue().decode()
    return Plot(name, caption, svg[svg.index("<svg") :])


def series(axes: Axes, summary: Summary, values: dict[tuple[str, int], list[float]]) -> None:
    """Points, quartile bars and a line of medians for each scheme, side by side."""
    names = labels(summary)
    width = 0.7 / max(1, len(names))
    for index, label in enumerate(names):
        shift = (index - (len(names) - 1) / 2) * width
        colour, marker = look(index)
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


def ideal(axes: Axes, points: list[tuple[int, float]], label: str) -> None:
    """The line that a perfect mechanism would draw."""
    axes.plot(*zip(*points, strict=True), color=IDEAL, linestyle="--", linewidth=1.4,
              label=label, zorder=1)


def finish(axes: Axes, summary: Summary, y_label: str) -> None:
    """Axes with their units and the numbers of VMs, scale and legend."""
    across(axes, summary, y_label)
    legend(axes)


def across(axes: Axes, summary: Summary, y_label: str) -> None:
    """The same without a legend."""
    m = summary.results.manifest
    vms = sorted(m.vms)
    axes.set_xticks(vms, [str(count) for count in vms])
    axes.set_xlim(min(vms) - 0.45, max(vms) + 0.45)
    axes.set_xlabel(f"number of VMs ({m.vcpus} vCPUs each, {m.pcpus} pCPUs)")
    axes.set_ylabel(y_label)
    scale(axes)


def legend(axes: Axes) -> None:
    """To the right of the axes; in a narrow figure above them."""
    if _is_narrow():
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.0,
                    handlelength=1.5)
    else:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def scale(axes: Axes) -> None:
    """From zero, or logarithmic when values are far apart."""
    seen = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    if seen.max() / seen.min() > LOG_FROM:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)


def singles(summary: Summary, workload: Workload) -> dict[str, float]:
    """Scheme to its 1-VM median, where there is one."""
    cells = [c for c in summary.cells if c.workload == workload.name and c.vms == 1]
    return {cell.scheme: cell.median for cell in cells if cell.median is not None}


def labels(summary: Summary) -> list[str]:
    """Of the schemes, in order."""
    return [scheme.label for scheme in summary.results.manifest.schemes]


def places(summary: Summary) -> list[tuple[str, int]]:
    """Scheme and number of VMs of each cell."""
    vms = summary.results.manifest.vms
    return [(label, count) for label in labels(summary) for count in vms]


def look(index: int) -> tuple[str, str]:
    """Colour and marker of the scheme at that place."""
    return PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
