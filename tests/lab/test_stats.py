# SPDX-License-Identifier: GPL-2.0-only
"""The statistics, on hand-made values and on simulated experiments."""

import math
import random
import sys
from itertools import chain

import pytest
from scipy.stats import mannwhitneyu

from lab.core import cells, stats


def test_middle_and_spread() -> None:
    assert stats.median([3.0, 1.0, 2.0]) == 2.0
    assert stats.median([]) is None
    assert stats.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)
    assert stats.quartiles([]) is None
    assert stats.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(1 / 3)
    assert stats.spread([1.0]) is None


def test_mean_is_harmonic_for_rates() -> None:
    assert stats.mean([1.0, 3.0], "lower") == 2.0
    assert stats.mean([1.0, 3.0], "higher") == pytest.approx(1.5)
    assert stats.mean([], "lower") is None


def test_ideal() -> None:
    assert cells.overcommit(3, 2, 2) == 3.0
    assert cells.overcommit(1, 2, 4) == 1.0
    assert stats.ideal(2.0, 3.0, "lower") == 6.0
    assert stats.ideal(6.0, 3.0, "higher") == 2.0
    assert stats.ideal(None, 3.0, "lower") is None


def test_p_value_by_hand() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]
    assert stats.p_value(low, high) == pytest.approx(2 / math.comb(10, 5))
    assert stats.p_value(high, low) == stats.p_value(low, high)


def test_p_value_without_information() -> None:
    assert stats.p_value([], [1.0]) == 1.0
    assert stats.p_value([1.0] * 9, [1.0] * 9) == 1.0
    assert stats.p_value([1.0], [2.0]) == 1.0


def test_ties_never_make_it_bolder() -> None:
    tied = stats.p_value([1.0, 1.0, 2.0, 3.0, 4.0], [6.0, 6.0, 7.0, 8.0, 9.0])
    assert 2 / math.comb(10, 5) < tied < 0.05
    a, b = [1.1, 1.3, 1.5, 1.7], [1.2, 1.4, 1.6, 1.8]
    assert stats.p_value(a, b) == mannwhitneyu(a, b, method="exact").pvalue


def test_holm() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.5, 0.9]) == [1.0, 1.0]
    assert stats.holm([]) == []


@pytest.mark.parametrize(("comparisons", "n"), [(1, 5), (4, 6), (12, 7), (100, 9)])
def test_smallest_n_is_the_smallest(comparisons: int, n: int) -> None:
    assert stats.smallest_n(comparisons) == n
    for count, reaches in ((n, True), (n - 1, False)):
        low = [float(k) for k in range(count)]
        best = stats.p_value(low, [value + 1000 for value in low])
        assert (best * comparisons < stats.ALPHA) is reaches


def test_alikeness_by_hand() -> None:
    """1 when a boot's values are the same, 0 when boots make no difference, on any scale."""
    same = [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    mixed = [[1.0, 4.0, 5.0, 8.0], [2.0, 3.0, 6.0, 7.0]]
    assert stats.alikeness([same]) == pytest.approx(1)
    assert stats.alikeness([mixed]) == 0
    half = stats.alikeness([same, mixed])
    assert half is not None and 0.2 < half < 0.8
    thousandfold = [[1000 * value for value in boot] for boot in same]
    assert stats.alikeness([thousandfold, mixed]) == half


@pytest.mark.parametrize("cells", [[], [[]], [[[1.0, 2.0]]], [[[1.0], [2.0]]], [[[1.0, 2.0], []]]])
def test_alikeness_that_cannot_be_known(cells: list[list[list[float]]]) -> None:
    assert stats.alikeness(cells) is None


def test_alike_values_count_for_fewer() -> None:
    p = 2 / math.comb(20, 10)
    assert stats.careful(p, 0, 5) == pytest.approx(p)
    assert stats.careful(p, 0.5, 1) == pytest.approx(p)
    assert stats.careful(1.0, 0.5, 5) == 1.0
    assert p < stats.careful(p, 0.1, 5) < stats.careful(p, 0.3, 5) < stats.careful(p, 0.3, 10) < 1
    assert stats.smallest_n(12, 0.3, 5) > stats.smallest_n(12)


def booted(rng: random.Random, differ: float) -> list[list[float]]:
    """A cell of two boots with five runs each, whose guests differ by so many spreads of a run."""
    boots = [rng.gauss(0, differ) for _ in range(2)]
    return [[rng.gauss(boot, 1) for _ in range(5)] for boot in boots]


@pytest.mark.parametrize("differ", [0, 0.5, 1.0])
def test_guests_that_differ_by_boot_show_no_star(differ: float,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of 12 equal comparisons, whose schemes have each their own guests in each boot."""
    rng, tables, starred, plain = random.Random(22), 150, 0, 0
    for _ in range(tables):
        pairs = [(booted(rng, differ), booted(rng, differ)) for _ in range(12)]
        alike = stats.alikeness(cell for pair in pairs for cell in pair)
        assert alike is not None
        p = [stats.p_value([*chain(*one)], [*chain(*other)]) for one, other in pairs]
        starred += min(stats.holm([stats.careful(one, alike, 5) for one in p])) < stats.ALPHA
        plain += min(stats.holm(p)) < stats.ALPHA
    with capsys.disabled():
        print(f" [boots {differ}: {starred} of {tables} tables show a star, {plain} uncorrected]",
              end="", file=sys.stderr)
    assert starred <= 2.5 * stats.ALPHA * tables
    # Uncorrected many would: the bound above can be missed.
    assert differ < 1 or plain > 0.1 * tables


def simulated(rng: random.Random, n: int, shift: float) -> list[float]:
    """Times as they look: near the best, some of them late, boots that differ."""
    boots = [rng.lognormvariate(0, 0.02) for _ in range(2)]
    return [
        shift * boots[k % 2] * (1 + rng.lognormvariate(-3.2, 0.6) + 0.05 * (rng.random() < 0.1))
        for k in range(n)
    ]


def test_same_against_same_shows_no_star(capsys: pytest.CaptureFixture[str]) -> None:
    """400 tables of 12 equal comparisons: at most ALPHA of them may show a star."""
    rng, tables = random.Random(20), 400
    p = [[stats.p_value(_plain(rng, 10), _plain(rng, 10)) for _ in range(12)]
         for _ in range(tables)]
    starred = sum(min(stats.holm(table)) < stats.ALPHA for table in p)
    with capsys.disabled():
        print(f" [A/A: {starred} of {tables} tables show a star]", end="", file=sys.stderr)
    assert starred <= 2.5 * stats.ALPHA * tables
    # Without Holm's correction many more would: the bound above can be missed.
    assert sum(min(table) < stats.ALPHA for table in p) > 2.5 * stats.ALPHA * tables


def _plain(rng: random.Random, n: int) -> list[float]:
    return [1 + rng.lognormvariate(-2.5, 0.7) for _ in range(n)]


def test_a_fifth_slower_shows_a_star(capsys: pytest.CaptureFixture[str]) -> None:
    """A true shift of 20 % with 10 values, among 12 comparisons, is found."""
    rng, tables, found = random.Random(21), 200, 0
    for _ in range(tables):
        p = [stats.p_value(simulated(rng, 10, 1.0), simulated(rng, 10, 1.2))]
        p += [stats.p_value(simulated(rng, 10, 1.0), simulated(rng, 10, 1.0)) for _ in range(11)]
        found += stats.holm(p)[0] < stats.ALPHA
    with capsys.disabled():
        print(f" [20 %: {found} of {tables} found]", end="", file=sys.stderr)
    assert found >= 0.95 * tables
