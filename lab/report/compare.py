# SPDX-License-Identifier: GPL-2.0-only
"""Result directories beside each other: two commits, machines or kernels.

A row is a cell that two directories have in common. Its star is that of a table: the same test,
corrected over all rows, and no difference that is smaller than a placebo's in either directory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.core import stats
from lab.core.cells import Cell
from lab.core.errors import UsageError
from lab.core.model import Manifest, Workload
from lab.report import modes, opening, placebo, verdict
from lab.report.grids import Grid, columns, known
from lab.report.summary import Key, Summary
from lab.report.verdict import Verdict

SAME = ("machine", "backend", "kernel", "base_version", "qemu", "host_variant", "guest_mem",
        "observe", "window_ms", "disturb", "snapshot")
"""Of a manifest: what makes another figure, and is not what one looks for everywhere."""


@dataclass(frozen=True)
class Side:
    """One of the directories."""

    name: str
    summary: Summary

    @property
    def manifest(self) -> Manifest:
        return self.summary.results.manifest

    def cells(self) -> dict[Key, Cell]:
        """Those with values."""
        return {(one.scheme, one.workload, one.vms): one for one in self.summary.cells
                if one.values}


@dataclass(frozen=True)
class Row:
    """A cell of the one beside that of the other."""

    base: Cell
    own: Cell
    speedup: float
    """Of `own` over `base`, above 1 is better."""
    interval: tuple[float, float] | None
    significant: bool


@dataclass(frozen=True)
class Comparison:
    """A directory beside the first."""

    base: Side
    own: Side
    rows: tuple[Row, ...]
    smallest_n: int
    verdicts: tuple[Verdict, ...]
    """For each number of VMs, over all rows."""


def compare(sides: Sequence[Side]) -> list[Comparison]:
    """Each but the first beside the first; UsageError where they are not comparable."""
    first, *others = sides
    return [_compare(first, other) for other in others]


def _compare(base: Side, own: Side) -> Comparison:
    before, after = base.cells(), own.cells()
    keys = [key for key in before
            if key in after and verdict.speedup(after[key], before[key]) is not None]
    if not keys:
        raise UsageError(f"{base.name} and {own.name} have no cell in common: no scheme under the"
                         " same workload at the same number of VMs.")
    _refuse(base, own, keys)
    alike = max(base.summary.alikeness or 0, own.summary.alikeness or 0)
    reps = max(base.manifest.reps, own.manifest.reps)
    raw = [stats.careful(stats.p_value(after[key].values, before[key].values), alike, reps)
           for key in keys]
    pairs = {key: (own.summary.results.units(*key), base.summary.results.units(*key),
                   before[key].better) for key in keys}
    rows = tuple(_row(before[key], after[key], p,
                      verdict.between([pairs[key]], alike, reps))
                 for key, p in zip(keys, stats.holm(raw), strict=True))
    smallest = stats.smallest_n(len(keys), alike, reps)
    verdicts = tuple(
        verdict.average(
            own.name, base.name, vms,
            [verdict.ratio_of(f"{row.own.scheme}/{row.own.workload}", row.own, row.base,
                              row.significant, smallest) for row in rows if row.own.vms == vms],
            [pair for key, pair in pairs.items() if key[2] == vms], (alike, reps))
        for vms in sorted({key[2] for key in keys}, reverse=True))
    return Comparison(base, own, rows, smallest, verdicts)


def _refuse(base: Side, own: Side, keys: Sequence[Key]) -> None:
    """UsageError unless a figure of the one is such a figure of the other."""
    for name in ("vcpus", "pcpus", "pin"):
        one, other = getattr(base.manifest, name), getattr(own.manifest, name)
        if one != other:
            raise UsageError(f"{base.name} and {own.name} are not comparable: {name} is {one} and"
                             f" {other}.")
    workloads = [{one.name: one for one in side.manifest.workloads} for side in (base, own)]
    for name in dict.fromkeys(key[1] for key in keys):
        first, second = (_figure(of[name]) for of in workloads)
        for what, value in first.items():
            if value != second[what]:
                raise UsageError(f"{base.name} and {own.name} are not comparable: the {what} of"
                                 f" {name} is {value!r} and {second[what]!r}.")


def _figure(workload: Workload) -> dict[str, str]:
    return {"unit": workload.unit, "metric": workload.metric, "better": workload.better,
            "command": workload.command, "neighbour": workload.neighbour}


def _row(base: Cell, own: Cell, p: float, interval: tuple[float, float] | None) -> Row:
    ratio = verdict.speedup(own, base)
    assert ratio is not None and own.median is not None and base.median is not None
    far = max(base.placebo_spread or 0, own.placebo_spread or 0)
    star = (p < stats.ALPHA and modes.may_have_star(own, base)
            and abs(own.median / base.median - 1) > far)
    return Row(base, own, ratio, interval, star)


def warnings(found: Sequence[Comparison]) -> list[str]:
    """What else than the commit differs, and what is wrong with the runs themselves."""
    lines = []
    for one in found:
        lines += [f"{name.replace('_', ' ')} differs: {one.base.name} has {_said(first)},"
                  f" {one.own.name} {_said(second)}."
                  for name in SAME
                  if (first := getattr(one.base.manifest, name))
                  != (second := getattr(one.own.manifest, name))]
        lines += [f"The settings of {label} differ." for label in _other_settings(one)]
    sides = [found[0].base, *(one.own for one in found)]
    lines += [f"{side.name}: its runs are of one boot, so what that boot has by chance is in every"
              " difference, with or without a star." for side in sides if side.summary.of_one_boot]
    return lines + [f"{side.name}: {line}" for side in sides
                    for line in opening.alerts(side.summary)]


def _said(value: object) -> str:
    return str(value) if value not in ("", ()) else "none"


def _other_settings(one: Comparison) -> list[str]:
    own = {scheme.label: placebo.settings(scheme) for scheme in one.own.manifest.schemes}
    return [scheme.label for scheme in one.base.manifest.schemes
            if own.get(scheme.label, placebo.settings(scheme)) != placebo.settings(scheme)]


def verdicts(one: Comparison) -> list[str]:
    """What the one is over the other; a line for each number of VMs."""
    stars = any(ratio.possible for each in one.verdicts for ratio in (each.best, each.worst))
    commits = [side.manifest.commit[:12] for side in (one.base, one.own)]
    few = "" if stars else "; too few runs for any star"
    return [f"{one.own.name} (commit {commits[1]}) over {one.base.name} (commit {commits[0]});"
            f" above x1 is better{few}:",
            *(f"  {opening.sentence(replace(each, scheme='all schemes'), stars, 'cells')}"
              for each in one.verdicts)]


def grids(found: Sequence[Comparison]) -> list[Grid]:
    """A table for each workload: cells side by side, and what the others are over the first."""
    sides = [found[0].base, *(one.own for one in found)]
    rows = [{(row.own.scheme, row.own.workload, row.own.vms): row for row in one.rows}
            for one in found]
    keys = list(dict.fromkeys(key for each in rows for key in each))
    made = []
    for workload in dict.fromkeys(key[1] for key in keys):
        own = [key for key in keys if key[1] == workload]
        cell = next(each[own[0]].base for each in rows if own[0] in each)
        made.append(Grid(
            f"{workload}: {cell.metric} ({cell.unit}), {cell.better} is better;"
            f" {cell.vcpus}-vCPU guests on {cell.pcpus} pCPUs", "scheme",
            ["VMs", *(side.name for side in sides),
             *(f"{one.own.name} over {one.base.name}" for one in found)],
            [(key[0], [columns((key[2],))[0].split()[0],
                       *(_cell(side.cells().get(key)) for side in sides),
                       *(_ratio(each.get(key)) for each in rows)]) for key in own]))
    return made


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    spread = "" if cell.spread is None else f" ± {100 * cell.spread:.0f} %"
    return f"{known(cell.median)}{spread}{modes.MARK * cell.bimodal}"


def _ratio(row: Row | None) -> str:
    if row is None:
        return "-"
    return f"x{known(row.speedup)}{opening.span(row.interval)}{'*' * row.significant}"


def notes(found: Sequence[Comparison]) -> list[str]:
    """What a reader of the tables has to know."""
    least = max(one.smallest_n for one in found)
    return ["Cell: median ± half the inter-quartile range. Ratios: of medians, turned so that above"
            f" 1 is better, with a {100 * stats.CONFIDENCE:.0f} % interval by bootstrap from"
            f" {stats.FEWEST} runs on.",
            f"* significant: {stats.TEST} of this comparison, and farther than the placebos of"
            f" both; possible from {least} values a cell on."]
