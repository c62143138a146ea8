# SPDX-License-Identifier: GPL-2.0-only
"""Times of remote TLB flushes: reading them, adding them up, and their percentiles."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lab.observe import flushes
from lab.observe.flushes import Flushes, Timed, Times
from tests.lab.synthetic import bucket, latency_lines

LINES = ["mechanism ipi", "calls 3", "wall_ns 1086 1000", "ran_ns 93 80",
         "6 1 2", "80 1 1", "960 1 0",
         "mechanism shoot4u", "calls 1", "wall_ns 9 9", "ran_ns 9 9", "9 1 1"]
WHOLE: Timed = {
    "ipi": Flushes(3, Times(1086, 1000, {6: 1, 80: 1, 960: 1}), Times(93, 80, {6: 2, 80: 1})),
    "shoot4u": Flushes(1, Times(9, 9, {9: 1}), Times(9, 9, {9: 1})),
}


def test_a_whole_file() -> None:
    assert flushes.parse(LINES) == WHOLE
    assert flushes.parse([]) == {}


@pytest.mark.parametrize("damage", [
    lambda lines: lines[1:],
    lambda lines: lines[:-2],
    lambda lines: lines[:8],
    lambda lines: lines[7:] + lines[7:],
    lambda lines: [*lines[:5], "[ 9.1] BUG: soft lockup", *lines[5:]],
    lambda lines: lines[:5] + lines[4:],
    lambda lines: lines[:2] + lines[3:],
    lambda lines: [*lines, "24 1"],
    lambda lines: [*lines, "24 1 -1"],
    lambda lines: [*lines, "24 1 \u0663"],
    lambda lines: [*lines, "24 1 " + "9" * 5000],
    lambda lines: [*lines, "17 1 0"],
    lambda lines: [*lines, "130 0 1"],
    lambda lines: [*lines, "128 65 0"],
    lambda lines: [*lines, "128 0 65"],
    lambda lines: ["mechanism ../x", *lines[1:]],
    lambda lines: [line.replace("calls 3", "calls x") for line in lines],
    lambda lines: [line.replace("calls 3", "calls 300") for line in lines],
])
def test_nothing_is_taken_from_a_damaged_file(damage: Callable[[list[str]], list[str]]) -> None:
    assert flushes.parse(damage(LINES)) is None


def test_a_flush_may_end_while_the_file_is_read() -> None:
    seen = flushes.parse([*LINES, "128 2 1"])
    assert seen and seen["shoot4u"].wall.buckets == {9: 1, 128: 2}


def test_junk() -> None:
    rng = random.Random(1)
    for _ in range(500):
        data = bytearray("\n".join(LINES).encode())
        for _ in range(rng.randrange(1, 10)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        flushes.parse(data.decode(errors="replace").split("\n"))


def test_buckets_are_those_of_the_kernel() -> None:
    """Every value lies in the bucket that the kernel puts it in, and those touch each other."""
    values = [*range(5000), *(2**n + d for n in range(12, 42) for d in (-1, 0, 1, 2**(n - 3)))]
    for value in values:
        lower = bucket(value)
        assert lower <= value < flushes.upper(lower)
        assert bucket(flushes.upper(lower) - 1) == lower
        assert bucket(flushes.upper(lower)) == flushes.upper(lower)
        assert lower < 8 or (flushes.upper(lower) - lower) * 8 <= lower


def timed(**values: list[tuple[int, int]]) -> Timed:
    """As the kernel would tell of flushes with these wall and ran times."""
    seen = flushes.parse(latency_lines(values))
    assert seen is not None
    return seen


def test_difference() -> None:
    old, new = [(1000, 900), (50, 50)], [(70, 7), (1_000_000, 20), (72, 0)]
    seen = flushes.between(timed(ipi=old, kvmtlb=[(5, 5)]),
                           timed(ipi=old + new, kvmtlb=[(5, 5)], shoot4u=[(3, 3)]))
    expected = timed(ipi=new, shoot4u=[(3, 3)])
    assert seen == {**expected, "ipi": Flushes(3, expected["ipi"].wall, Times(27, 21, {
        0: 1, 7: 1, 20: 1}))}, "the longest may have run for less than 900 ns, but 22 and more not"
    assert flushes.between({}, WHOLE) == WHOLE
    assert flushes.between(WHOLE, WHOLE) == {}


def test_the_longest_of_before_is_not_the_longest_of_the_run() -> None:
    seen = flushes.between(timed(ipi=[(10**9, 10**9)]), timed(ipi=[(10**9, 10**9), (90, 90)]))
    assert seen and 90 <= seen["ipi"].wall.max_ns < flushes.upper(bucket(90))


def test_what_went_backwards_or_is_missing_is_unknown() -> None:
    assert flushes.between(None, WHOLE) is None
    assert flushes.between(WHOLE, None) is None
    assert flushes.between(WHOLE, {}) is None
    one = timed(ipi=[(80, 80), (90, 90)])
    assert flushes.between(one, timed(ipi=[(80, 80), (200, 200), (9, 9)])) is None
    assert flushes.between(one, timed(ipi=[(80, 80), (90, 9), (9, 9)])) is None
    (more,) = timed(ipi=[(80, 80), (90, 90), (9, 9)]).values()
    assert flushes.between(one, {"ipi": more})
    assert flushes.between(one, {"ipi": replace(more, calls=1)}) is None
    for less in (replace(more, wall=replace(more.wall, sum_ns=1)),
                 replace(more, ran=replace(more.ran, sum_ns=1))):
        assert flushes.between(one, {"ipi": less}) is None
    nowhere = {"ipi": Flushes(3, one["ipi"].wall, one["ipi"].ran)}
    assert flushes.between(one, nowhere) is None


def test_merging() -> None:
    parts = [timed(ipi=[(80, 70)], kvmtlb=[(9, 9)]), {}, timed(ipi=[(5000, 4), (81, 80)])]
    assert flushes.merged(parts) == timed(ipi=[(80, 70), (5000, 4), (81, 80)], kvmtlb=[(9, 9)])
    assert flushes.merged([*parts, None]) is None
    assert flushes.merged([]) == {}


SAMPLES = {
    "skewed": [round(random.Random(n).lognormvariate(11, 2)) for n in range(1000)],
    "two humps": [random.Random(n).choice((900, 4_000_000)) + n for n in range(333)],
    "small": [0, 1, 1, 2, 3, 7],
    "one": [123_456],
    "equal": [64_000] * 77,
}


@pytest.mark.parametrize("values", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("percent", [1, 10, 50, 90, 99, 100])
def test_percentiles_are_exact_to_a_bucket(values: list[int], percent: int) -> None:
    (one,) = timed(ipi=[(value, 0) for value in values]).values()
    true = int(np.percentile(values, percent, method="inverted_cdf"))
    found = flushes.percentile(one.wall, percent)
    assert bucket(true) <= found < flushes.upper(bucket(true))
    assert found <= max(values)
    assert flushes.percentile(one.ran, percent) == 0


def test_percentiles_move_through_a_bucket() -> None:
    (one,) = timed(ipi=[(value, 0) for value in range(1024, 1024 + 128)]).values()
    assert [round(flushes.percentile(one.wall, percent)) for percent in (25, 50, 75)] == [
        1024 + 31, 1024 + 63, 1024 + 95]


def test_no_flush_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no flush"):
        flushes.percentile(Times(0, 0, {}), 50)


@pytest.mark.parametrize("values", SAMPLES.values(), ids=SAMPLES)
def test_distribution_is_exact_at_the_ends_of_buckets(values: list[int]) -> None:
    (one,) = timed(ipi=[(value, 0) for value in values]).values()
    points = flushes.distribution(one.wall.buckets)
    for ns, share in points:
        assert share == pytest.approx(np.mean(np.asarray(values) < ns))
    assert points[0] == (bucket(min(values)), 0) and points[-1][1] == 1
    assert points[-1][0] == flushes.upper(bucket(max(values)))
    assert [ns for ns, _ in points] == sorted({ns for ns, _ in points})
    assert flushes.distribution({}) == []


def test_figures() -> None:
    rng = random.Random(3)
    pairs = {name: [(wall := rng.randrange(100, 10**6), wall // rng.randrange(1, 9))
                    for _ in range(500)] for name in ("ipi", "kvmtlb")}
    found = flushes.figures(timed(**pairs))
    assert found and [one.mechanism for one in found] == ["all", "ipi", "kvmtlb"]
    for one, values in zip(found, (pairs["ipi"] + pairs["kvmtlb"], *pairs.values()), strict=True):
        assert one.calls == len(values)
        for place, clock in enumerate((one.wall, one.ran)):
            raw = [pair[place] for pair in values]
            assert clock.mean_ns == pytest.approx(np.mean(raw)) and clock.max_ns == max(raw)
            for percent in (50, 90, 99):
                true = bucket(int(np.percentile(raw, percent, method="inverted_cdf")))
                assert true <= getattr(clock, f"p{percent}_ns") < flushes.upper(true)
            assert sum(bucket[1 + place] for bucket in one.buckets) == len(values)
    (alone,) = flushes.figures(timed(shoot4u=[(9, 9)])) or ()
    assert alone == (flushes.figures(WHOLE) or ())[-1] and alone.buckets == ((9, 1, 1),)
    assert flushes.figures({}) == () and flushes.figures(None) is None
