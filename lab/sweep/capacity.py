# SPDX-License-Identifier: GPL-2.0-only
"""How many VMs a host carries until a figure passes its limit, by the rows of a sweep. Pure.

A seed has a curve of its own: its figure by the number of VMs. Where the curve first passes the
limit, between two numbers that were played, is what the host carries. Between them the figure's
logarithm is taken to be a straight line. A curve that begins beyond the limit, or ends within it,
says only that. Then nothing is said of the mean, and nothing is compared.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lab.core import stats
from lab.core.model import Better
from lab.plan.sweeps import Sweep
from lab.report.swept import Carried, Interval
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
            made += [_carried(place, limit, unit, setting, own, ends.get(sweep.schemes[0], {}),
                              max(1, len(ends) - 1))
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


def _carried(place: Place, limit: float, unit: str, setting: str, own: Mapping[int, float],
             base: Mapping[int, float], among: int) -> Carried:
    beyond = sum(not end for end in own.values())
    within = sum(math.isinf(end) for end in own.values())
    mean, interval = None, None
    if own and not beyond and not within:
        mean, interval = _estimate([*own.values()], 1)
    ratio, strict = None, None
    shared = [(own[seed], base[seed]) for seed in own if seed in base]
    if shared and all(0 < end < math.inf for pair in shared for end in pair):
        middle, ends = _estimate([math.log(mine / theirs) for mine, theirs in shared], among)
        ratio, strict = math.exp(middle), ends and (math.exp(ends[0]), math.exp(ends[1]))
    return Carried(*place, limit, unit, setting, mean, interval, beyond, within, len(own), ratio,
                   strict)


def _estimate(values: Sequence[float], among: int) -> tuple[float, Interval]:
    """A mean over seeds, and where it lies."""
    found = np.array(values)
    middle = math.fsum(values) / len(values)
    drawn = found[stats.draws(len(found))].mean(axis=1)
    return middle, stats.interval(middle, drawn, len(found), among=among)
