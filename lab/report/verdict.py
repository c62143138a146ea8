# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment has shown of a scheme: its speed-up on average, at best and at worst.

A speed-up is the ratio of a cell's median to the baseline's, turned so that above 1 is better.
The average over workloads is the geometric mean of these ratios. Its interval is a bootstrap
over runs (`stats.interval`): a draw takes runs with replacement, the same ones in all cells, so
that what one seed or boot does to several cells counts once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.core import stats
from lab.core.cells import Cell
from lab.core.model import Better, Manifest
from lab.report import placebo

Unit = tuple[int, int]
"""Host boot, or seed, and repetition: what a draw takes or leaves."""
Units = Mapping[tuple[str, str, int], Mapping[Unit, float]]
"""Scheme, workload and number of VMs to the values of its valid runs."""
Pair = tuple[Mapping[Unit, float], Mapping[Unit, float], Better]
"""A cell's values, those of the cell that it is compared with, and what is better."""
Array = NDArray[np.float64]
IDEAL = "ideal"
"""In place of a baseline: the baseline alone in one VM, were sharing without loss."""


@dataclass(frozen=True)
class Ratio:
    """A scheme's speed-up under one workload."""

    workload: str
    speedup: float
    significant: bool
    """Whether its cell has a star."""
    possible: bool
    """Whether it could have one: there are enough values."""


@dataclass(frozen=True)
class Verdict:
    """A scheme against the baseline at one number of VMs."""

    scheme: str
    baseline: str
    vms: int
    speedup: float
    """Geometric mean over the workloads."""
    interval: tuple[float, float] | None
    """Of `speedup`, 95 %; None with fewer runs than `stats.FEWEST`."""
    beyond: bool
    """Whether `speedup` is farther from 1 than every placebo's at as many VMs, as shown."""
    differs: bool
    """Whether it is, and the interval leaves 1 out."""
    best: Ratio
    worst: Ratio
    workloads: int
    """How many have values of both."""
    runs: int
    """Values of the cell that has fewest: seeds, where each is one run."""


def speedup(cell: Cell, reference: Cell) -> float | None:
    """How many times better than the reference; None without values."""
    if not cell.median or not reference.median:
        return None
    return stats.speedup(cell.median, reference.median, cell.better)


def verdicts(manifest: Manifest, cells: Mapping[tuple[str, str, int], Cell], units: Units,
             alike: float | None, smallest_n: int) -> tuple[Verdict, ...]:
    """Of each scheme, the most VMs first; none of schemes without values."""
    names = list(dict.fromkeys(workload.name for workload in manifest.workloads))
    found = []
    for scheme in manifest.schemes:
        for vms in sorted(manifest.vms, reverse=True):
            pairs = [(cells[scheme.label, name, vms], cells[manifest.baseline, name, vms])
                     for name in names]
            pairs = [(own, base) for own, base in pairs if speedup(own, base) is not None]
            if scheme.label != manifest.baseline and pairs:
                found.append(_verdict(pairs, units, alike or 0, manifest.reps, smallest_n))
    return tuple(_beside(one, found, placebo.labels(manifest)) for one in found)


def ideals(manifest: Manifest, cells: Mapping[tuple[str, str, int], Cell], units: Units,
           alike: float | None) -> tuple[Verdict, ...]:
    """Of each scheme at several VMs over what sharing without loss takes, see `needed_load`.

    That is the baseline's for all schemes, so that what they lose can be compared: 1 is without
    loss, below it time is lost. Nothing without 1-VM cells.
    """
    found = []
    for scheme in manifest.schemes:
        for vms in sorted(set(manifest.vms) - {1}):
            ratios, sources = [], []
            for workload in manifest.workloads:
                single = cells.get((manifest.baseline, workload.name, 1))
                own = cells[scheme.label, workload.name, vms]
                if single is None or not single.values or not own.values:
                    continue
                load = needed_load(single, own)
                free = {unit: stats.shared(value, load, own.better)
                        for unit, value in units[_key(single)].items()}
                best = replace(single, median=stats.ideal(single.median, load, own.better))
                ratios.append(ratio_of(workload.name, own, best, False, 0))
                sources.append((units[_key(own)], free, own.better))
            if ratios:
                found.append(average(scheme.label, IDEAL, vms, ratios, sources,
                                     (alike or 0, manifest.reps)))
    return tuple(found)


def needed_load(single: Cell, cell: Cell) -> float:
    """How many times as long as one VM alone the VMs of a cell take at least.

    They need as many times the CPU time that it takes alone, on the host's CPUs: less than the
    overcommit where it leaves some of them idle. That is the overcommit where it is not known.
    """
    if single.busy is None:
        return cell.relative_load
    return max(1.0, cell.vms * single.busy / cell.pcpus)


def _verdict(pairs: Sequence[tuple[Cell, Cell]], units: Units, alike: float, reps: int,
             smallest_n: int) -> Verdict:
    ratios = [ratio_of(own.workload, own, base, own.significant, smallest_n)
              for own, base in pairs]
    own, base = pairs[0]
    sources = [(units[_key(one)], units[_key(other)], one.better) for one, other in pairs]
    return average(own.scheme, base.scheme, own.vms, ratios, sources, (alike, reps))


def ratio_of(name: str, own: Cell, base: Cell, star: bool, smallest_n: int) -> Ratio:
    """Of two cells with values."""
    ratio = speedup(own, base)
    assert ratio is not None
    return Ratio(name, ratio, star, min(len(own.values), len(base.values)) >= smallest_n)


def average(scheme: str, baseline: str, vms: int, ratios: Sequence[Ratio],
            pairs: Sequence[Pair], alike: tuple[float, int]) -> Verdict:
    """Over ratios, and the values they come from; `alike` and `reps` of `between` in one.

    Of placebos nothing is known here.
    """
    logs = [math.log(ratio.speedup) for ratio in ratios]
    interval = between(pairs, *alike)
    return Verdict(
        scheme=scheme, baseline=baseline, vms=vms,
        speedup=math.exp(math.fsum(logs) / len(logs)), interval=interval,
        beyond=True, differs=interval is not None and not interval[0] <= 1 <= interval[1],
        best=max(ratios, key=lambda ratio: ratio.speedup),
        worst=min(ratios, key=lambda ratio: ratio.speedup),
        workloads=len(ratios), runs=fewest(pairs))


def _key(cell: Cell) -> tuple[str, str, int]:
    return (cell.scheme, cell.workload, cell.vms)


def _far(speedup: float) -> float:
    """How far from 1, by the digits that a page shows: what reads alike is as far."""
    return abs(math.log(float(f"{speedup:.3g}")))


def _beside(one: Verdict, all_of_them: Sequence[Verdict], placebos: Sequence[str]) -> Verdict:
    """The same, with what the other schemes that are placebos say of it."""
    far = [_far(other.speedup) for other in all_of_them
           if other.scheme in placebos and other.vms == one.vms and other.scheme != one.scheme]
    beyond = all(_far(one.speedup) > placebo_far for placebo_far in far)
    return replace(one, beyond=beyond, differs=one.differs and beyond)


def fewest(pairs: Sequence[Pair]) -> int:
    """Values of the cell that has fewest, which is what an interval rests on."""
    return min(len(cell) for own, base, _ in pairs for cell in (own, base))


def between(pairs: Sequence[Pair], alike: float, reps: int) -> tuple[float, float] | None:
    """95 % interval of the geometric mean of speed-ups, each of a cell over another.

    `alike` and `reps` say how alike the runs of a boot are, and how many it has.
    """
    names = sorted({unit for own, base, _ in pairs for unit in (*own, *base)})
    drawn = stats.draws(len(names))

    def estimate(picks: NDArray[np.intp]) -> Array:
        logs = np.zeros(len(picks))
        for own, base, better in pairs:
            ratio = np.log(_medians(own, names, picks)) - np.log(_medians(base, names, picks))
            logs += -ratio if better == "lower" else ratio
        return logs / len(pairs)

    found = stats.interval(float(estimate(np.arange(len(names))[None])[0]), estimate(drawn),
                           fewest(pairs), alike, reps)
    return None if found is None else (math.exp(found[0]), math.exp(found[1]))


def _medians(values: Mapping[Unit, float], names: Sequence[Unit],
             picks: NDArray[np.intp]) -> Array:
    """Of each draw; of all values where a draw has none of them."""
    row = np.array([values.get(name, np.nan) for name in names])
    drawn = row[picks]
    lost = np.isnan(drawn).all(axis=1)
    drawn[lost] = row
    middle: Array = (np.nanmedian if np.isnan(drawn).any() else np.median)(drawn, axis=1)
    return middle
