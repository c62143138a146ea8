# SPDX-License-Identifier: GPL-2.0-only
"""The statistics of the tables.

Run times under a hypervisor are not normal: most runs are near the best time, some wait for a whole
time slice, so the values are skewed, with outliers, and there are few of them. Hence medians,
quartiles, and for significance the two-sided Mann-Whitney U test. That test asks only whether the
values of one cell tend to lie above those of the other, and is exact for few values.

A table has many comparisons, so their p values are corrected by Holm's method:
the chance that a table in which nothing differs shows any star at all is at
most ALPHA. `smallest_n` tells how many values a cell needs before a star is
possible; below that the table says so instead of letting its silence pass for
equality.

Values of one boot are more alike than those of different boots: they come
from the same guests, which keep what they have by chance, such as where their
memory lies. The test takes all values for independent, and would see a
difference of two schemes in what is one of two boots. So its p values are made
as large as they would be with fewer values: m values of a boot count for
m / (1 + (m - 1) r), where r says how alike they are in this table (`alikeness`;
the design effect of Kish, "Survey Sampling", 1965). With one boot that is not
known, and the table says so.

The interval of an average is a bootstrap over runs: the estimate plus and minus its standard
error over DRAWS draws, times Student's t (Efron and Tibshirani, "An Introduction to the
Bootstrap", 1993, chapter 12). Draws of n runs are too alike by sqrt(n / (n - 1)), for which the
error is corrected. Runs of a boot that are alike widen it by the square root of the same design
effect. Percentiles of the draws would end at one of the few values.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, norm, rankdata
from scipy.stats import t as student

from lab.core.model import Better

ALPHA = 0.01
TEST = "two-sided Mann-Whitney U, p < 0.01 after Holm's correction over the table"
CONFIDENCE = 0.95
"""Of intervals."""
FEWEST = 3
"""Runs from which an interval can be had."""
DRAWS = 2000
"""Of a bootstrap."""
Boots = Sequence[Sequence[float]]
"""Values of a cell by boot, in each as many as it has runs."""


def median(values: Sequence[float]) -> float | None:
    """The middle value; None of none."""
    return float(np.median(values)) if values else None


def mean(values: Sequence[float], better: Better) -> float | None:
    """Arithmetic for times; harmonic for rates.

    Rates are work per time: the harmonic mean is the rate of all the work
    over all the time when each run does the same work.
    """
    if not values:
        return None
    if better == "lower":
        return math.fsum(values) / len(values)
    return len(values) / math.fsum(1 / value for value in values)


def quartiles(values: Sequence[float]) -> tuple[float, float] | None:
    """The 25th and 75th percentile (linear between values); None of none."""
    if not values:
        return None
    low, high = np.percentile(values, [25, 75])
    return float(low), float(high)


def spread(values: Sequence[float]) -> float | None:
    """Half the inter-quartile range over the median; None below two values."""
    if len(values) < 2:
        return None
    low, high = np.percentile(values, [25, 75])
    return float((high - low) / 2 / np.median(values))


def p_value(a: Sequence[float], b: Sequence[float]) -> float:
    """That such a difference comes by chance; 1.0 when nothing can be said.

    Exact without ties, otherwise the normal approximation with corrections
    for ties and continuity, which is on the careful side for few values.
    """
    if not a or not b or len({*a, *b}) == 1:
        return 1.0
    ties = len({*a, *b}) < len(a) + len(b)
    method: Literal["asymptotic", "exact"] = "asymptotic" if ties else "exact"
    return float(mannwhitneyu(a, b, alternative="two-sided", method=method).pvalue)


def alikeness(cells: Iterable[Boots]) -> float | None:
    """How alike the values of one boot are, 0 (as those of several) to 1 (the same).

    The intraclass correlation by a one-way analysis of variance of all cells together, of
    the ranks within each cell, so that neither its scale nor outliers matter. None when no
    cell has several boots with several values, from which it could be known.
    """
    between = within = 0.0
    degrees = [0, 0]
    sizes = []
    for boots in cells:
        counts = np.array([len(boot) for boot in boots if boot])
        if len(counts) < 2:
            continue
        ranks = rankdata(np.concatenate([boot for boot in boots if boot]))
        ranks /= len(ranks) + 1
        parts = np.split(ranks, np.cumsum(counts)[:-1])
        between += sum(len(part) * (part.mean() - ranks.mean()) ** 2 for part in parts)
        within += sum(((part - part.mean()) ** 2).sum() for part in parts)
        degrees[0] += len(parts) - 1
        degrees[1] += len(ranks) - len(parts)
        sizes.append((len(ranks) - (counts**2).sum() / len(ranks)) / (len(parts) - 1))
    if not degrees[1]:
        return None
    between, within, size = between / degrees[0], within / degrees[1], float(np.mean(sizes))
    spread = between + (size - 1) * within
    return float(max(0.0, (between - within) / spread)) if spread else 0.0


def careful(p: float, alike: float, size: float) -> float:
    """A p value of values that are alike in boots of `size` values."""
    return float(2 * norm.sf(norm.isf(p / 2) / math.sqrt(1 + (size - 1) * alike)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-Bonferroni adjusted p values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def smallest_n(comparisons: int, alike: float = 0, size: float = 1, alpha: float = ALPHA) -> int:
    """Values a cell (and its baseline) needs before its star is possible.

    With n values each and no overlap between them the exact test gives 2 / C(2n, n), which
    `careful` makes larger. The strictest step of Holm's method multiplies it by the number of
    comparisons.
    """
    n = 1
    while comparisons * careful(2 / math.comb(2 * n, n), alike, size) >= alpha:
        n += 1
    return n


def draws(n: int) -> NDArray[np.intp]:
    """A row for each draw of a bootstrap: the places of n runs that it takes; always the same."""
    return np.random.default_rng(n).integers(0, max(1, n), (DRAWS, n))


def interval(estimate: float, drawn: NDArray[np.float64], n: int, alike: float = 0,
             size: float = 1, among: int = 1) -> tuple[float, float] | None:
    """Around an estimate from n runs, by what draws of them gave for it.

    `alike` and `size` are those of `careful`. `among` intervals hold together, each by itself is
    wider for that (Bonferroni). None with fewer than FEWEST runs.
    """
    if n < FEWEST:
        return None
    error = float(drawn.std()) * math.sqrt(n / (n - 1) * (1 + (size - 1) * alike))
    half = error * float(student.isf((1 - CONFIDENCE) / among / 2, n - 1))
    return estimate - half, estimate + half


def speedup(own: float, reference: float, better: Better) -> float:
    """How many times better a figure is than the reference's; neither is 0."""
    return reference / own if better == "lower" else own / reference


def shared(single: float, load: float, better: Better) -> float:
    """A 1-VM figure, were it to take `load` times as long."""
    return single * load if better == "lower" else single / load


def ideal(single: float | None, load: float, better: Better) -> float | None:
    """The 1-VM figure under `load` times its overcommit, were sharing free of cost."""
    return None if single is None else shared(single, load, better)
