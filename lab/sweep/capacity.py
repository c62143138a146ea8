# SPDX-License-Identifier: GPL-2.0-only
"""How many VMs a host carries until a figure passes its limit, by the rows of a sweep. Pure.

A seed has a curve of its own: its figure by the number of VMs. Where the curve first passes the
limit, between two numbers that were played, is what the host carries. Between them the figure's
logarithm is taken to be a straight line. A curve that begins beyond the limit, or ends within it,
says only that. Then, or where a run is missing, there is no mean, and nothing is compared.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from lab.core import stats
from lab.core.model import Better
from lab.plan.sweeps import Sweep
from lab.report.swept import Carried, Interval
from lab.sweep.analysis import over_seeds
from lab.sweep.search import worth
from lab.sweep.store import Row

Place = tuple[str, str, int, int]
"""Workload, machine model, vCPUs, pCPUs."""


def carried(sweep: Sweep, rows: Iterable[Row]) -> list[Carried]:
    """Of each limit, in the order of the file, all settings in the order of their rows."""
    curves: dict[Place, dict[str, dict[int, dict[int, float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict)))
    kinds: dict[str, tuple[str, Better]] = {}
    for row in rows:
        kinds[row.workload] = row.measured_in, row.better
        if row.figure is not None:
            curves[row.workload, row.machine, row.vcpus, row.pcpus][row.setting][row.seed][
                row.vms] = row.figure
    made = []
    for place, of in curves.items():
        unit, better = kinds[place[0]]
        for limit in sweep.limit.get(place[0], ()):
            ends = {setting: {seed: crossing(curve, limit, better)
                              for seed, curve in sorted(seeds.items())
                              if set(curve) == set(sweep.vms)}
                    for setting, seeds in of.items()}
            base = ends.get(sweep.schemes[0], {})
            made += [_carried((*place, limit, unit, setting), own, base, sweep.seeds, len(ends) - 1)
                     for setting, own in ends.items()]
    return made


def crossing(curve: Mapping[int, float], limit: float, better: Better) -> float:
    """Number of VMs at which a curve passes its limit; 0 or infinite where it does not.

    The figures and the limit are above 0. 0: beyond the limit from the least number of VMs on;
    infinite: within it up to the most.
    """
    sign = 1 if better == "lower" else -1
    before: tuple[int, float] | None = None
    for vms, figure in sorted(curve.items()):
        over = sign * math.log(figure / limit)
        if over > 0:
            if before is None:
                return 0.0
            fewer, under = before
            return fewer + (vms - fewer) * -under / (over - under)
        before = vms, over
    return math.inf


def _carried(what: tuple[str, str, int, int, float, str, str], own: Mapping[int, float],
             base: Mapping[int, float], seeds: int, among: int) -> Carried:
    """Of a setting; a mean is of all seeds, and so is a comparison."""
    beyond = sum(not end for end in own.values())
    within = sum(math.isinf(end) for end in own.values())
    mean = ratio = None
    interval: Interval = None
    strict: Interval = None
    if _crosses(own, seeds):
        values = np.array([*own.values()])
        mean = float(values.mean())
        interval = stats.interval(mean, values[stats.draws(seeds)].mean(axis=1), seeds)
        if _crosses(base, seeds):
            ratios = [(seed, end / base[seed]) for seed, end in own.items()]
            ratio = worth(one for _, one in ratios)
            strict = over_seeds(ratios, max(1, among))
    return Carried(*what, mean, interval, beyond, within, len(own), ratio, strict)


def _crosses(ends: Mapping[int, float], seeds: int) -> bool:
    """Whether each of so many seeds has a number of VMs."""
    return len(ends) == seeds and all(0 < end < math.inf for end in ends.values())
