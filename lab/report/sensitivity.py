# SPDX-License-Identifier: GPL-2.0-only
"""Which ratios of an experiment rest on which number of the machine model.

The experiment is played once with the model, and once more for each number halved and doubled.
What counts is a scheme's ratio to the baseline: how far does it move? A placebo's ratio moves,
too, and by chance alone; no ratio that moved less is said to have moved.
"""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab.core.errors import UsageError
from lab.core.model import Manifest
from lab.plan import machine_model
from lab.report import placebo
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


def as_text(rows: Sequence[Moved], manifest: Manifest) -> str:
    """The table, and in words what moved."""
    table = Table(box=box.SIMPLE_HEAD, title=f"{manifest.experiment}: figures over"
                  f" {manifest.baseline}'s, machine model {manifest.machine}",
                  title_justify="left")
    for head in ("workload", "VMs", "scheme", "as it is"):
        table.add_column(head, no_wrap=True)
    names = list(dict.fromkeys(row.variant for row in rows))
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    cells = {(row.workload, row.vms, row.scheme): row.base for row in rows}
    found = {(row.workload, row.vms, row.scheme, row.variant): row for row in rows}
    for where, base in cells.items():
        of = [found.get((*where, name)) for name in names]
        table.add_row(where[0], str(where[1]), where[2], f"{base:.2f}", *(
            "" if row is None else f"{row.ratio:.2f}{'!' if row.far else ''}" for row in of))
    out = io.StringIO()
    Console(file=out, width=WIDTH + 20 * len(names), color_system=None,
            force_terminal=False).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join([*lines, *_said(rows)]) + "\n"


def _said(rows: Sequence[Moved]) -> list[str]:
    far = [row for row in rows if row.far]
    chances = {(row.workload, row.vms): row.chance for row in rows}
    lines = [f"The placebo moved by {chance:.1%} at most: {workload}, {vms} VMs."
             if chance is not None else f"No placebo: {workload}, {vms} VMs."
             for (workload, vms), chance in chances.items()]
    if not far:
        return [*lines, f"No ratio moved by more than {FAR:.0%} and the placebo's."]
    return [*lines, f"! moved by more than {FAR:.0%} and the placebo's: {len(far)} of {len(rows)}."]


def write(rows: Sequence[Moved], manifest: Manifest, directory: Path) -> str:
    """Keep the table and the numbers; the table."""
    text = as_text(rows, manifest)
    records.replace(directory / TABLE, text)
    body = {"experiment": manifest.experiment, "machine": manifest.machine,
            "baseline": manifest.baseline, "commit": manifest.commit,
            "rows": [asdict(row) for row in rows]}
    records.replace(directory / FILE, json.dumps(body, indent=1) + "\n")
    return text
