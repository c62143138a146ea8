# SPDX-License-Identifier: GPL-2.0-only
"""Which ratios of an experiment rest on which number of the machine model.

The experiment is played once with the model, and once more for each number halved and doubled.
What counts is a scheme's ratio to the baseline: how far does it move? A placebo's ratio moves,
too, and by chance alone; no ratio that moved less is said to have moved.
"""

import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab.core.errors import UsageError
from lab.plan import machine_model
from lab.report import jsonlines, markdown, placebo
from lab.report.grids import Grid
from lab.report.summary import Summary
from lab.run import records

KEYS = ("instruction", "quantum", "pause", "exit", "ipi", "flush")
"""Of `machine_model.SCALED`; the two halves of an exit belong to each other."""
FACTORS = (0.5, 2.0)
FAR = 0.10
"""So far a ratio has to move to be named."""
FILE = "sensitivity.json"
TABLE = "sensitivity.txt"
WIDTH = 100
LABELS = 3
"""Columns before the ratios."""


@dataclass(frozen=True)
class Variant:
    """One number of the model, scaled; the model itself without a key."""

    key: str = ""
    factor: float = 1.0

    @property
    def name(self) -> str:
        """As in the table, and the name of its folder: `exit*2`."""
        return f"{self.key}*{self.factor:g}" if self.key else "as it is"

    def model(self, name: str) -> str:
        """What --machine takes for it."""
        return f"{name}:{self.name}" if self.key else name

    @property
    def folder(self) -> str:
        """Of its results."""
        return self.name.replace("*", "-x") if self.key else "base"


@dataclass(frozen=True)
class Moved:
    """A scheme's ratio to the baseline, with a number scaled."""

    variant: str
    workload: str
    vms: int
    scheme: str
    base: float
    """Median over the baseline's median, with the model as it is."""
    ratio: float
    """The same with the number scaled."""
    moved: float
    """The one over the other, minus 1."""
    chance: float | None
    """How far the placebo of its workload and VMs moved at most, with any number; None without
    a placebo."""

    @property
    def far(self) -> bool:
        """Whether it is named."""
        return abs(self.moved) > max(FAR, self.chance or 0.0)


def variants(keys: Iterable[str] = KEYS, factors: Iterable[float] = FACTORS) -> list[Variant]:
    """The model itself, then each number with each factor."""
    return [Variant(), *(Variant(key, factor) for key in keys for factor in factors)]


def playable(machine: str, keys: Iterable[str] = KEYS) -> tuple[list[Variant], list[str]]:
    """The variants of this model, and why others are left out: its number is at its bound.

    UsageError for a model or a key that there is none of.
    """
    wanted, left = [], []
    for variant in variants(keys):
        try:
            machine_model.load(variant.model(machine))
        except UsageError as error:
            if not variant.key or variant.key not in machine_model.SCALED:
                raise
            left.append(str(error))
        else:
            wanted.append(variant)
    return wanted, left


def compared(summaries: Sequence[tuple[Variant, Summary]]) -> list[Moved]:
    """All ratios; the first summary is the model's as it is.

    Cells without a valid run in either are left out.
    """
    (_, base), *others = summaries
    manifest = base.results.manifest
    names = placebo.labels(manifest)
    before = _ratios(base)
    after = [(variant, _ratios(summary)) for variant, summary in others]
    chance: dict[placebo.Group, float] = {}
    for _, ratios in after:
        for (workload, vms, scheme), ratio in ratios.items():
            if scheme in names and (old := before.get((workload, vms, scheme))):
                group = workload, vms
                chance[group] = max(chance.get(group, 0.0), abs(ratio / old - 1))
    return [Moved(variant.name, workload, vms, scheme, old, ratios[where], ratios[where] / old - 1,
                  chance.get((workload, vms)))
            for variant, ratios in after
            for where, old in before.items() if where in ratios
            for workload, vms, scheme in (where,)]


def _ratios(summary: Summary) -> dict[tuple[str, int, str], float]:
    return {(cell.workload, cell.vms, cell.scheme): 1 + cell.vs_baseline
            for cell in summary.cells if cell.vs_baseline is not None}


@dataclass(frozen=True)
class Sensitivity:
    """All that was found of an experiment."""

    experiment: str
    machine: str
    """The model that is scaled."""
    baseline: str
    commit: str
    command: tuple[str, ...]
    setting: str
    """Guests, host, seeds and versions, as a sentence."""
    rows: tuple[Moved, ...]

    @property
    def title(self) -> str:
        """Of its table."""
        return (f"{self.experiment}: figures over {self.baseline}'s, machine model"
                f" {self.machine}")

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Its heads, and a row for each scheme: `!` where a number moved it far."""
        names = list(dict.fromkeys(row.variant for row in self.rows))
        cells = {(row.workload, row.vms, row.scheme): row.base for row in self.rows}
        found = {(row.workload, row.vms, row.scheme, row.variant): row for row in self.rows}
        lines = [[where[0], str(where[1]), where[2], f"{base:.2f}", *(
            _shown(found.get((*where, name))) for name in names)] for where, base in cells.items()]
        return ["workload", "VMs", "scheme", "as it is", *names], lines

    def said(self) -> list[str]:
        """How far the placebo moved, and how many ratios moved further."""
        far = [row for row in self.rows if row.far]
        chances = {(row.workload, row.vms): row.chance for row in self.rows}
        lines = [f"The placebo moved by {chance:.1%} at most: {workload}, {vms} VMs."
                 if chance is not None else f"No placebo: {workload}, {vms} VMs."
                 for (workload, vms), chance in chances.items()]
        if not far:
            return [*lines, f"No ratio moved by more than {FAR:.0%} and the placebo's."]
        return [*lines, f"! moved by more than {FAR:.0%} and the placebo's:"
                        f" {len(far)} of {len(self.rows)}."]


def _shown(row: Moved | None) -> str:
    return "" if row is None else f"{row.ratio:.2f}{'!' if row.far else ''}"


def of(summaries: Sequence[tuple[Variant, Summary]]) -> Sensitivity:
    """What these results say; the first is the model's as it is."""
    m = summaries[0][1].results.manifest
    return Sensitivity(
        m.experiment, m.machine, m.baseline, m.commit, ("./pvsync", *sys.argv[1:]),
        f"{m.vcpus} vCPUs on {m.pcpus} CPUs, {m.boots} seeds; {m.backend}, Linux"
        f" {m.base_version}, commit {m.commit[:12]}.", tuple(compared(summaries)))


def as_text(kept: Sensitivity) -> str:
    """The table for a terminal, and in words what moved."""
    heads, lines = kept.table()
    shown = Table(box=box.SIMPLE_HEAD, title=kept.title, title_justify="left")
    for number, head in enumerate(heads):
        shown.add_column(head, justify="right" if number > LABELS else "left", no_wrap=True)
    for line in lines:
        shown.add_row(*line)
    out = io.StringIO()
    Console(file=out, width=WIDTH + 20 * len(heads), color_system=None,
            force_terminal=False).print(shown)
    text = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join([*text, *kept.said()]) + "\n"


def as_markdown(kept: Sensitivity) -> str:
    """The table as a block of a page, what moved, and what made it."""
    heads, lines = kept.table()
    table = Grid(kept.title, "workload and scheme", heads[LABELS:], [
        (f"{workload}, {vms} VMs: {scheme}", cells) for workload, vms, scheme, *cells in lines])
    return "\n\n".join([markdown.grid(table), markdown.items(kept.said()),
                        markdown.made_by(kept.command) + "\n" + markdown.wrapped(kept.setting)])


def write(kept: Sensitivity, directory: Path) -> str:
    """Keep the table and the numbers; the table."""
    text = as_text(kept)
    records.replace(directory / TABLE, text)
    records.replace(directory / FILE, jsonlines.as_json(kept))
    return text


def read(file: Path) -> Sensitivity:
    """What was kept; UsageError when it is damaged."""
    return jsonlines.read(Sensitivity, file)
