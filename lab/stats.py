# SPDX-License-Identifier: GPL-2.0-only
"""The statistics of the tables.

Run times under a hypervisor are not normal: most runs are near the best time,
some wait for a whole time slice, so the values are skewed, with outliers, and
there are few of them. Hence medians, quartiles, and for significance the
two-sided Mann-Whitney U test, which asks only whether the values of one cell
tend to lie above those of the other and is exact for few values.

A table has many comparisons, so their p values are corrected by Holm's method:
the chance that a table in which nothing differs shows any star at all is at
most ALPHA. `smallest_n` tells how many values a cell needs before a star is
possible; below that the table says so instead of letting its silence pass for
equality.

Values of one boot are more alike than those of different boots. Because every
boot runs every scheme, this widens both sides of a comparison alike and makes
the test more careful, not less.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.stats import mannwhitneyu

from lab.model import Better

ALPHA = 0.01
TEST = "two-sided Mann-Whitney U, p < 0.01 after Holm's correction over the table"


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


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-Bonferroni adjusted p values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def smallest_n(comparisons: int, alpha: float = ALPHA) -> int:
    """Values a cell (and its baseline) needs before its star is possible.

    With n values each and no overlap between them the exact test gives
    2 / C(2n, n); the strictest step of Holm's method multiplies it by the
    number of comparisons.
    """
    n = 1
    while comparisons * 2 / math.comb(2 * n, n) >= alpha:
        n += 1
    return n


def overcommit(vms: int, vcpus: int, pcpus: int) -> float:
    """CPUs wanted per CPU there, at least 1: how much longer fair sharing takes."""
    return max(1.0, vms * vcpus / pcpus)


def ideal(single: float | None, load: float, better: Better) -> float | None:
    """The 1-VM figure under `load` times its overcommit, were sharing free of cost."""
    if single is None:
        return None
    return single * load if better == "lower" else single / load
