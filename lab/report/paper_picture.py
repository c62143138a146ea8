# SPDX-License-Identifier: GPL-2.0-only
"""The picture of a paper: its ratios beside ours, each with its interval and its placebo."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lab.core.words import many
from lab.report import drawing
from lab.report.paper_page import Reproduction, all_found, is_ratio
from lab.report.reproduction import Found

WIDTH, ROW, FRAME = 8.6, 0.34, 1.2
"""Inches: of all, of a claim, and of axis and legend together."""
MARKS = ((10.0, (1, 1.2, 1.5, 2, 3, 5, 7)), (3e3, (1, 2, 5)), (math.inf, (1,)))
"""Where an axis has numbers in each decade, by how many times its begin its end is at most."""
SHIFT = 0.16
"""The paper's point is so much above its row, and ours so much below."""


def overview(name: str, kept: Reproduction) -> drawing.Plot | None:
    """All claims that are ratios and were played, a row each; None if there is none."""
    found = [*filter(is_ratio, all_found(kept))]
    if not found:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, one in enumerate(found):
            _row(axes, -place, one)
        axes.axvline(1.0, color=drawing.IDEAL, linestyle="--", linewidth=1.2)
        axes.set_yticks([-place for place in range(len(found))], [*map(label, found)], fontsize=8)
        axes.set_ylim(0.6 - len(found), 0.6)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=marks(high / low)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("times as good, right of 1 is better")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=9)

    return drawing.plot(name, "", (WIDTH, FRAME + ROW * len(found)), draw)


def marks(span: float) -> Sequence[float]:
    """Of an axis whose end is so many times its begin, within a decade; none runs into another."""
    return next(those for most, those in MARKS if span <= most)


def label(one: Found) -> str:
    """Of a claim's row: its load, and which scheme over which."""
    claim = one.claim
    what = claim.measure if claim.measure != "performance" else claim.workload or claim.measure
    return f"{what}, {many(claim.vms, 'VM')}: {claim.scheme} over {claim.over}"


def _row(axes: Axes, place: int, one: Found) -> None:
    """The first row names what it draws, for the legend."""
    first = place == 0
    off = 1 + (one.placebo or 0.0)
    axes.plot([1 / off, off], [place] * 2, color=drawing.IDEAL, alpha=0.35, linewidth=11,
              solid_capstyle="butt", label="as far as the placebo was off" if first else None)
    if one.claim.most:
        axes.plot([one.claim.value, one.claim.most], [place + SHIFT] * 2, color=drawing.PALETTE[1])
    axes.plot([one.claim.value], [place + SHIFT], drawing.MARKERS[3], color=drawing.PALETTE[1],
              markersize=6, markerfacecolor="white", label="the paper" if first else None)
    colour = drawing.PALETTE[0]
    axes.plot([one.least, one.most], [place - SHIFT] * 2, color=colour, linewidth=1.8)
    axes.plot([one.ours or 0.0], [place - SHIFT], drawing.MARKERS[0], color=colour, markersize=6,
              label="here, and the interval" if first else None)
