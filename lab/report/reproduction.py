# SPDX-License-Identifier: GPL-2.0-only
"""A paper's numbers beside ours: each claim confirmed, contradicted or neither.

A ratio is that of the medians over seeds. Its range is a 95 % interval by bootstrap over seeds, as
in a report's verdict; with fewer seeds than that takes it is that of all pairs of seeds. A ratio
within the range of the placebo, or a range that has 1 in it, shows no difference. That alone
confirms or denies nothing: a range that is wide has room for what the paper has as well.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from lab.core import stats
from lab.core.cells import FlushTimes
from lab.core.model import Better
from lab.observe import figures, flushes, histogram, windows
from lab.plan.papers import SHARES, Claim, Measure, Row
from lab.report import placebo, verdict
from lab.report.summary import RunFigure, Summary
from lab.report.verdict import Unit

Verdict = Literal["confirmed", "smaller", "larger", "contradicted", "no difference",
                  "cannot tell", "differs", "too few seeds", "not played"]
ALIKE = 0.05
"""So near to 1 a paper's ratio says that nothing changes."""
NONE = 1.25
"""No difference is confirmed where the range, and the placebo, stay within so many times."""
FEWEST = 2
"""Seeds of either scheme below which a ratio has no range, and nothing is said of it."""
LEAST = 0.02
"""What no ratio is said to differ from 1 by less than, whatever the placebo."""
LONG, SLICE = 16, 19
"""Waits of bins above them take 2^16 cycles or longer, the threshold of Friebel and Biemueller;
2^19, which is a sixth of a time slice of 3 ms, as a guest's cycles are of 1 GHz here."""
EVEN = 1.0
"""CPU times are even below so many per cent, if as much was lent."""
POINTS = 10.0
"""Per cents that are this near to each other can be the same, see `_near`."""
MEANING: dict[Verdict, str] = {
    "confirmed": "shown in the paper's direction, and between the square root and the square of its"
                 " ratio; of a range, the root of its least and the square of its most. Where the"
                 " paper has no difference none is shown, and range and placebo are within"
                 f" {NONE:g} times. Per cents are within {POINTS:g} points and a factor of 2, or"
                 " both below 1",
    "smaller": "shown in the paper's direction, by less than the square root of its ratio",
    "larger": "shown in the paper's direction, by more than the square of its ratio",
    "contradicted": "shown in the other direction, or a difference where the paper has none",
    "no difference": "the paper has one; none is shown here, and the range has no room for the"
                     " square root of its ratio",
    "cannot tell": "no difference is shown, and the range or the placebo has room for what the"
                   " paper has, or for another one where it has none. Even CPU times tell nothing"
                   f" where less than {EVEN:g} % was lent, or where stock's own part by as much",
    "differs": f"per cents more than {POINTS:g} points or a factor of 2 apart",
    "too few seeds": "one seed has no range",
    "not played": "no valid run of it",
}


@dataclass(frozen=True)
class Found:
    """What our runs say of a claim."""

    claim: Claim
    ours: float | None
    """Ratio or per cent, as the claim's value; None without valid runs."""
    least: float
    most: float
    """Over all pairs of seeds, or over the seeds."""
    placebo: float | None
    """How far a placebo's figure was from its baseline's: 0.1 is 10 %."""
    seeds: int
    """The fewer of the two schemes."""
    verdict: Verdict


def _flush_mean(run: RunFigure) -> float | None:
    return _flushed(run, lambda one: one.wall.mean_ns)


def _flush_p90(run: RunFigure) -> float | None:
    return _flushed(run, lambda one: one.wall.p90_ns)


def _flush_max(run: RunFigure) -> float | None:
    return _flushed(run, lambda one: one.wall.max_ns)


def _flushed(run: RunFigure, of: Callable[[FlushTimes], float]) -> float | None:
    seen = run.observation
    timed = flushes.figures(flushes.merged(seen.flushes)) if seen else None
    return of(timed[0]) if timed else None


def _waiters(run: RunFigure) -> float | None:
    seen = run.observation
    counted = figures.total(guest.counters for guest in seen.guests) if seen else {}
    owners, waiters = counted.get("lock_stalls_holder"), counted.get("lock_stalls_waiter")
    if owners is None or waiters is None or not owners + waiters:
        return None
    return 100 * waiters / (owners + waiters)


def _spinning(run: RunFigure) -> float | None:
    """Of the guests whose figure counts: of one, where the others only compute beside it."""
    seen = run.observation
    if seen is None:
        return None
    counted = len(run.values)
    share = figures.spinning(replace(seen, guests=seen.guests[:counted],
                                     cpu_s=seen.cpu_s[:counted]))
    return None if share is None else 100 * share


def _avoided(run: RunFigure) -> float | None:
    share = figures.preempted(run.observation).avoided if run.observation else None
    return None if share is None else 100 * share


def _uneven(run: RunFigure) -> float | None:
    samples = run.observation.samples if run.observation else None
    apart = windows.end(samples) if samples else None
    return None if apart is None else 100 * abs(apart)


def _lent(run: RunFigure) -> float | None:
    """To all VMs together, of the mean of their CPU times: by so much loans alone part two."""
    share = figures.preempted(run.observation).borrowed if run.observation else None
    return None if share is None else 100 * share * run.run.vms


def _long_waits(run: RunFigure) -> float | None:
    return _longer(run, LONG, lambda waits, cycles: waits)


def _long_waiting(run: RunFigure) -> float | None:
    return _longer(run, SLICE, lambda waits, cycles: cycles)


def _longer(run: RunFigure, last: int, of: Callable[[int, int], int]) -> float | None:
    """The per cent of bins above `last` of the measured guests' waits that took time."""
    seen = run.observation
    bins = histogram.total([one.waits for one in seen.guests[:len(run.values)]] if seen else [])
    parts = {number: of(waits, cycles) for number, waits, cycles in bins if cycles}
    whole = sum(parts.values())
    above = sum(part for number, part in parts.items() if number > last)
    return 100 * above / whole if whole else None


MEASURES: dict[Measure, Callable[[RunFigure], float | None]] = {
    "performance": lambda run: run.mean,
    "flush mean": _flush_mean,
    "flush p90": _flush_p90,
    "flush max": _flush_max,
    "waiters": _waiters,
    "spinning": _spinning,
    "avoided": _avoided,
    "uneven": _uneven,
    "lent": _lent,
    "long waits": _long_waits,
    "long waiting": _long_waiting,
}


Values = Mapping[Unit, float]
"""Of a scheme's runs."""


def judged(claim: Claim, own: Values, other_values: Values, better: Better,
           placebo: float | None, alike: tuple[float, int] = (0, 1)) -> Found:
    """A claim and the values of its two schemes; of the first alone for a share.

    `alike`: how alike the runs of a boot are, and how many it has, as for `verdict.between`.
    """
    ours, others = [*own.values()], [*other_values.values()]
    if claim.measure in SHARES:
        middle = stats.median(ours)
        if middle is None:
            return Found(claim, None, 0, 0, None, 0, "not played")
        near = _near(middle, claim.value, max(claim.value, claim.most))
        return Found(claim, middle, min(ours), max(ours), None, len(ours),
                     "confirmed" if near else "differs")
    one, other = stats.median(ours), stats.median(others)
    if not one or not other or not all((*ours, *others)):
        return Found(claim, None, 0, 0, placebo, 0, "not played")
    turned = [stats.speedup(a, b, better) for a, b in product(ours, others)]
    ratio = stats.speedup(one, other, better)
    least, most = (verdict.between([(own, other_values, better)], *alike)
                   or (min(turned), max(turned)))
    seeds = min(len(ours), len(others))
    return Found(claim, ratio, least, most, placebo, seeds,
                 _verdict(claim, ratio, least, most, placebo or 0.0)
                 if seeds >= FEWEST else "too few seeds")


def _near(ours: float, least: float, most: float) -> bool:
    """Whether a per cent is about those from the least to the most."""
    bound = min(max(ours, least), most)
    return max(ours, bound) < 1 or (
        abs(ours - bound) <= POINTS and bound / 2 <= ours <= 2 * bound)


def _verdict(claim: Claim, ours: float, least: float, most: float, placebo: float) -> Verdict:
    paper, end = claim.value, claim.most or claim.value
    margin = 1 + max(LEAST, placebo)
    shown = 1 if least > 1 and ours > margin else -1 if most < 1 and ours < 1 / margin else 0
    said = 0 if abs(paper - 1) <= ALIKE + 1e-9 else 1 if paper > 1 else -1
    if said == 0:
        narrow = least >= 1 / NONE and most <= NONE and margin <= NONE
        return "contradicted" if shown else "confirmed" if narrow else "cannot tell"
    if shown == 0:
        room = max(most if said > 0 else 1 / least, margin)
        return "cannot tell" if room >= math.exp(abs(math.log(paper)) / 2) else "no difference"
    if shown != said:
        return "contradicted"
    sizes = sorted(math.log(ours) / math.log(one) for one in (paper, end))
    return "smaller" if sizes[1] < 1 / 2 else "larger" if sizes[0] > 2 else "confirmed"


def found(row: Row, summary: Summary, quick: bool) -> list[Found]:
    """Each claim of a row in its results; those that --quick leaves out say so."""
    return [_found(claim, row.played(claim, quick), summary) for claim in row.claims]


def _found(claim: Claim, workload: str, summary: Summary) -> Found:
    known = {one.name: one for one in summary.results.manifest.workloads}
    if workload not in known or claim.vms not in summary.results.manifest.vms:
        return Found(claim, None, 0, 0, None, 0, "not played")

    def values(label: str, vms: int) -> Values:
        return _values(summary, claim.measure, label, workload, vms)

    better = known[workload].better if claim.measure == "performance" else "lower"
    far = [off for vms in {claim.vms, claim.other_vms}
           if (off := _placebo(summary, values, vms)) is not None]
    others = values(claim.against, claim.other_vms) if claim.against else {}
    alike = summary.alikeness or 0, summary.results.manifest.reps
    share = claim.vms / claim.other_vms if claim.measure == "performance" else 1.0
    own = {unit: value / share if better == "lower" else value * share
           for unit, value in values(claim.scheme, claim.vms).items()}
    one = judged(claim, own, others, better, max(far, default=None), alike)
    return _evenly(one, workload, summary) if claim.measure == "uneven" else one


def _values(summary: Summary, measure: Measure, label: str, workload: str, vms: int) -> Values:
    """Of a scheme's valid runs."""
    runs = summary.results.of(label, workload, vms)
    return {(run.run.boot, run.run.rep): value for run in runs
            if (value := MEASURES[measure](run)) is not None}


def _evenly(one: Found, workload: str, summary: Summary) -> Found:
    """Even CPU times say something where as much was lent, and stock's own are even."""
    def middle(measure: Measure, label: str) -> float:
        known = _values(summary, measure, label, workload, one.claim.vms)
        return stats.median([*known.values()]) or 0.0

    manifest = summary.results.manifest
    stock = max(middle("uneven", label)
                for label in (manifest.baseline, *placebo.labels(manifest)))
    blind = stock >= EVEN or middle("lent", one.claim.scheme) < EVEN
    said: Verdict = "cannot tell" if one.verdict == "confirmed" and blind else one.verdict
    return replace(one, placebo=stock / 100, verdict=said)


def _placebo(summary: Summary, values: Callable[[str, int], Values], vms: int) -> float | None:
    """How far the baseline's twins are from it."""
    manifest = summary.results.manifest
    base = stats.median([*values(manifest.baseline, vms).values()])
    far = [abs(middle / base - 1) for label in placebo.labels(manifest)
           if base and (middle := stats.median([*values(label, vms).values()])) is not None]
    return max(far, default=None)
