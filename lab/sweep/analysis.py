# SPDX-License-Identifier: GPL-2.0-only
"""What the rows of a sweep say: worth of settings, of single values, and how flat the best is.

A run's worth is its time over that of the first scheme's run with the same workload, VMs, CPUs,
machine model and seed (a rate's the other way round): below 1 is better. Settings are compared by
geometric means over all of their runs. Intervals are the report's (`stats.interval`), over seeds,
which are what differs by chance; of fewer than three there is none.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.core import stats
from lab.sweep.model import Sweep
from lab.sweep.search import Pair, ratios, worth
from lab.sweep.store import Row

NEAR = 0.03
"""A setting so close to the best is as good as it, for how flat the optimum is."""


@dataclass(frozen=True)
class Ranked:
    """A setting and what it is worth."""

    setting: str
    names: tuple[str, ...]
    values: tuple[str, ...]
    worth: float
    interval: tuple[float, float] | None
    runs: int
    """Pairs that it rests on."""
    missing: int
    """Runs without a figure, its own or the baseline's."""
    by_workload: dict[str, float]


@dataclass(frozen=True)
class Marginal:
    """A parameter's value over all settings that have it, on one workload."""

    name: str
    value: str
    workload: str
    ratios: tuple[float, ...]


@dataclass(frozen=True)
class Cell:
    """A setting's own figures, in their unit."""

    workload: str
    machine: str
    vcpus: int
    pcpus: int
    vms: int
    setting: str
    unit: str
    median: float
    spread: float | None
    """Half the inter-quartile range over the median."""
    runs: int
    best: float
    worst: float


def of_sweep(sweep: Sweep, rows: Iterable[Row]) -> list[Row]:
    """Rows of the sweep's own seeds, workloads, machines and numbers; a search's are more."""
    return [row for row in rows if row.workload in sweep.workloads and row.seed <= sweep.seeds
            and row.machine in sweep.machines and row.vms in sweep.vms
            and row.vcpus in sweep.vcpus and row.pcpus in sweep.pcpus]


def by_setting(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by the label of their setting, in the order in which they came."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.setting].append(row)
    return dict(found)


def ranking(rows: Sequence[Row], baseline: str) -> list[Ranked]:
    """All settings, the best first; those of which nothing can be said come last."""
    of = by_setting(rows)
    base = of.get(baseline, [])
    ranked = []
    for label, own in of.items():
        pairs = ratios(own, base)
        loads = sorted({pair[0] for pair in pairs})
        ranked.append(Ranked(
            label, own[0].names, own[0].values, worth(pairs.values()), interval(pairs), len(pairs),
            len(own) - len(pairs),
            {load: worth(value for pair, value in pairs.items() if pair[0] == load)
             for load in loads}))
    return sorted(ranked, key=lambda one: one.worth)


def interval(pairs: Mapping[Pair, float]) -> tuple[float, float] | None:
    """Where the worth lies, by drawing seeds; None of fewer than `stats.FEWEST`."""
    logs: dict[int, list[float]] = defaultdict(list)
    for pair, value in pairs.items():
        logs[pair[-1]].append(math.log(value))
    if len(logs) < stats.FEWEST:
        return None
    sums = np.array([math.fsum(own) for own in logs.values()])
    counts = np.array([len(own) for own in logs.values()])
    picks = stats.draws(len(logs))
    drawn = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    found = stats.interval(math.log(worth(pairs.values())), drawn, len(logs))
    return found and (math.exp(found[0]), math.exp(found[1]))


def marginals(rows: Sequence[Row], baseline: str) -> list[Marginal]:
    """Of each parameter, value and workload, all the runs' worths."""
    base = [row for row in rows if row.setting == baseline]
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for own in by_setting(rows).values():
        for pair, ratio in ratios(own, base).items():
            for name, value in zip(own[0].names, own[0].values, strict=True):
                found[name, value, pair[0]].append(ratio)
    return [Marginal(*key, tuple(values)) for key, values in found.items()]


def flatness(ranked: Sequence[Ranked]) -> list[str]:
    """How flat the optimum is, in sentences: of the settings, and of each parameter."""
    varied = [one for one in ranked if one.names and one.runs]
    if not varied:
        return []
    best = varied[0]
    near = [one for one in varied if one.worth <= best.worth * (1 + NEAR)]
    said = [f"{len(near)} of {len(varied)} settings are within {NEAR:.0%} of the best,"
            f" {best.setting}; the worst is {varied[-1].worth / best.worth:.2f} times as slow."]
    if best.interval:
        touch = [one for one in varied[1:] if one.interval and one.interval[0] <= best.interval[1]]
        said.append(f"The {stats.CONFIDENCE:.0%} intervals of {len(touch)} others touch that of the"
                    " best.")
    for place, name in enumerate(best.names):
        values: dict[str, list[float]] = defaultdict(list)
        for one in varied:
            values[one.values[place]].append(one.worth)
        means = {value: worth(all_of) for value, all_of in values.items()}
        least = min(means.values())
        good = [value for value, mean in means.items() if mean <= least * (1 + NEAR)]
        said.append(f"{name}: over all else, {', '.join(sorted(good, key=natural))} of"
                    f" {', '.join(sorted(means, key=natural))} are within {NEAR:.0%} of its best"
                    " value.")
    return said


def cells(rows: Iterable[Row]) -> list[Cell]:
    """Figures of each setting in each cell."""
    found: dict[tuple[str, str, int, int, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.figure is not None:
            found[row.workload, row.machine, row.vcpus, row.pcpus, row.vms,
                  row.setting].append(row)
    made = []
    for key, own in found.items():
        figures = [row.figure for row in own if row.figure is not None]
        middle = stats.median(figures)
        assert middle is not None
        made.append(Cell(*key, own[0].measured_in, middle, stats.spread(figures), len(figures),
                         min(figures), max(figures)))
    return sorted(made, key=lambda one: (one.workload, one.machine, one.vcpus, one.pcpus,
                                         one.vms))


def natural(value: str) -> tuple[int, float, str]:
    """Numbers by size, then words."""
    digits = value.rpartition(":")[2]
    return (0, float(digits), value) if digits.isdecimal() else (1, 0.0, value)
