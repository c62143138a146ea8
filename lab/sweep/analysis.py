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

import numpy as np

from lab.core import stats
from lab.plan.sweeps import Sweep
from lab.report.swept import NEAR, Cell, Interval, Marginal, Ranked, Valued
from lab.sweep.search import Pair, ratios, worth
from lab.sweep.store import Row

MOST_VALUES = 10
SPANS = 4
"""Of a parameter with more values than MOST_VALUES."""


def latest(rows: Iterable[Row]) -> list[Row]:
    """Rows of the kernel, images and emulator that the last of them had: no others are mixed in.

    Of a run that was made again under another key, it is the last. Nothing of nothing.
    """
    ordered = sorted(rows, key=lambda row: row.made)
    found = {identity(row): row for row in ordered
             if (row.kernel, row.images, row.emulator) ==
             (ordered[-1].kernel, ordered[-1].images, ordered[-1].emulator)}
    return list(found.values())


def identity(row: Row) -> tuple[object, ...]:
    """What a run is in its sweep, by names."""
    return (row.setting, row.workload, row.vms, row.vcpus, row.pcpus, row.machine, row.seed)


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
    among = max(1, len(of) - 1)
    ranked = []
    for label, own in of.items():
        pairs = ratios(own, base)
        loads = sorted({pair[0] for pair in pairs})
        ranked.append(Ranked(
            label, own[0].names, own[0].values, worth(pairs.values()), interval(pairs),
            interval(pairs, among), len(pairs), len(own) - len(pairs),
            {load: worth(value for pair, value in pairs.items() if pair[0] == load)
             for load in loads}))
    return sorted(ranked, key=lambda one: one.worth)


def interval(pairs: Mapping[Pair, float], among: int = 1) -> Interval:
    """Where the worth lies, by drawing seeds; None of fewer than `stats.FEWEST`.

    So many intervals are to hold `among` each other.
    """
    return over_seeds([(pair[-1], value) for pair, value in pairs.items()], among)


def over_seeds(found: Sequence[tuple[int, float]], among: int = 1) -> Interval:
    """`interval` of seeds and ratios."""
    logs: dict[int, list[float]] = defaultdict(list)
    for seed, value in found:
        logs[seed].append(math.log(value))
    if len(logs) < stats.FEWEST:
        return None
    sums = np.array([math.fsum(own) for own in logs.values()])
    counts = np.array([len(own) for own in logs.values()])
    picks = stats.draws(len(logs))
    drawn = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    middle = math.log(worth(value for _, value in found))
    ends = stats.interval(middle, drawn, len(logs), among=among)
    return ends and (math.exp(ends[0]), math.exp(ends[1]))


def marginals(rows: Sequence[Row], baseline: str) -> list[Marginal]:
    """Of each parameter, value and workload, all the runs' worths; values by size."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for name, value, pair, ratio in _by_value(rows, baseline):
        found[name, value, pair[0]].append(ratio)
    made = []
    for key, values in sorted(found.items(), key=lambda one: natural(one[0][1])):
        middle, box = stats.median(values), stats.quartiles(values)
        assert middle is not None and box is not None
        made.append(Marginal(*key, middle, *box, len(values), tuple(values)))
    return made


def values(rows: Sequence[Row], baseline: str) -> list[Valued]:
    """Of each parameter and value the worth over all else."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for name, value, pair, ratio in _by_value(rows, baseline):
        found[name, value].append((pair[-1], ratio))
    return [Valued(*key, worth(ratio for _, ratio in own), over_seeds(own))
            for key, own in sorted(found.items(), key=lambda one: (one[0][0], natural(one[0][1])))]


def _by_value(rows: Sequence[Row], baseline: str) -> Iterable[tuple[str, str, Pair, float]]:
    base = [row for row in rows if row.setting == baseline]
    settings = by_setting(rows).values()
    shown = spans(pair for own in settings
                  for pair in zip(own[0].names, own[0].values, strict=True))
    for own in settings:
        for pair, ratio in ratios(own, base).items():
            for one in zip(own[0].names, own[0].values, strict=True):
                yield one[0], shown[one], pair, ratio


def spans(played: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """How each value of a parameter is shown: as it is, or as one of SPANS of many numbers.

    `played` are names and values of settings. A search plays few values twice. Where a parameter
    has more than MOST_VALUES, each span has about as many of them.
    """
    values: dict[str, set[str]] = defaultdict(set)
    for name, value in played:
        values[name].add(value)
    shown = {}
    for name, own in values.items():
        numbers = all(natural(value)[0] == 0 for value in own)
        count = SPANS if numbers and len(own) > MOST_VALUES else len(own)
        for part in np.array_split(np.array(sorted(own, key=natural)), count):
            first, last = str(part[0]), str(part[-1])
            label = first if first == last else f"{first} to {last}"
            shown.update({(name, str(value)): label for value in part})
    return shown


def flatness(ranked: Sequence[Ranked], valued: Sequence[Valued], far: float | None) -> list[str]:
    """How flat the optimum is, in sentences: of the settings, and of each parameter.

    Settings and values are told apart when their intervals do not touch, and are farther from each
    other than a placebo from its baseline, by the factor `far`.
    """
    varied = [one for one in ranked if one.names and one.runs]
    if not varied:
        return []
    best, worst = varied[0], varied[-1]
    near = [one for one in varied if one.worth <= best.worth * (1 + NEAR)]
    untold = sum(not _apart(best, one, best.strict, one.strict, far) for one in varied[1:])
    verb = "is" if len(near) == 1 else "are"
    said = [f"{len(near)} of {len(varied)} settings {verb} within {NEAR:.0%} of the best,"
            f" {best.setting}; the worst takes {worst.worth / best.worth:.2f} times its time."]
    if len(varied) > 1:
        said.append(f"{untold} of the {len(varied) - 1} others are not told apart from the best.")
    return said + [_flat(name, [one for one in valued if one.name == name], far)
                   for name in dict.fromkeys(one.name for one in valued)]


def _flat(name: str, valued: Sequence[Valued], far: float | None) -> str:
    """Of one parameter."""
    best = min(valued, key=lambda one: one.worth)
    good = [one.value for one in valued if one.worth <= best.worth * (1 + NEAR)]
    others = [one for one in valued if one.value not in good]
    untold = [one.value for one in others
              if not _apart(best, one, best.interval, one.interval, far)]
    said = (f"{name}: over all else, {', '.join(good)} {'is' if len(good) == 1 else 'are'} within"
            f" {NEAR:.0%} of the best value, {best.value}")
    if not others:
        return f"{said}: all that were played."
    if not untold:
        return f"{said}; {', '.join(one.value for one in others)} worse."
    return f"{said}. Not told apart from it: {', '.join(untold)}."


def _apart(best: Ranked | Valued, other: Ranked | Valued, of_best: Interval, of_other: Interval,
           far: float | None) -> bool:
    """Whether the other is shown to be worse, by these intervals."""
    return (of_best is not None and of_other is not None and of_best[1] < of_other[0]
            and (far is None or other.worth / best.worth > far))


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
    """Numbers by size, and spans by their first; then words."""
    digits = value.partition(" ")[0].rpartition(":")[2]
    return (0, float(digits), value) if digits.isdecimal() else (1, 0.0, value)
