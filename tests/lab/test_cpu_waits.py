# SPDX-License-Identifier: GPL-2.0-only
"""How long vCPUs waited for a CPU: reading it, and figures by values computed by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.core.cells import CpuWaits
from lab.observe import cpu_waits
from lab.observe.cpu_waits import Waited

LINES = ["0 3 2100", "12 96 288000000", "14 1 9000000", "longest 9000000"]
WAITED = Waited({0: (3, 2100), 12: (96, 288_000_000), 14: (1, 9_000_000)}, 9_000_000)


def test_parse() -> None:
    assert cpu_waits.parse(LINES) == WAITED
    assert cpu_waits.parse(["longest 0"]) == Waited({}, 0)
    assert cpu_waits.parse(["lasts 0", "longest 0"]) == Waited({}, 0)
    assert cpu_waits.parse([*LINES[:-1], "lasts 70", LINES[-1]]) == replace(WAITED, lasts_ns=70)
    assert cpu_waits.parse(["23 1 5000000000", "longest 5000000000"]) is not None


@pytest.mark.parametrize("damage", [
    lambda lines: [],
    lambda lines: lines[:-1],
    lambda lines: [*lines[:-1], "longest"],
    lambda lines: [*lines[:-1], "longest -1"],
    lambda lines: [*lines[:-1], "longest \u0663"],
    lambda lines: [*lines[:-1], "longest " + "9" * 5000],
    lambda lines: [*lines, "\ufffd\ufffd"],
    lambda lines: [lines[-1], *lines],
    lambda lines: [lines[0], *lines],
    lambda lines: [*lines[:-1], "14 1", lines[-1]],
    lambda lines: [lines[0], "[ 9.1] BUG: soft lockup", *lines[1:]],
    lambda lines: [*lines[:-1], "24 1 9000000", lines[-1]],
    lambda lines: [*lines, "lasts 70"],
    lambda lines: [*lines[:-1], "lasts", lines[-1]],
    lambda lines: [*lines[:-1], "lasts 1", "lasts 2", lines[-1]],
])
def test_nothing_is_taken_from_a_damaged_file(damage: Callable[[list[str]], list[str]]) -> None:
    assert cpu_waits.parse(damage(LINES)) is None


def test_what_was_added() -> None:
    before = Waited({0: (1, 100), 12: (6, 18_000_000)}, 3_000_000)
    assert cpu_waits.between(before, WAITED) == Waited(
        {0: (2, 2000), 12: (90, 270_000_000), 14: (1, 9_000_000)}, 9_000_000)
    assert cpu_waits.between(WAITED, WAITED) == Waited({}, 0)
    for one, other in ((None, WAITED), (WAITED, None), (WAITED, before)):
        assert cpu_waits.between(one, other) is None


def test_a_longest_wait_of_before_is_not_the_runs() -> None:
    before = Waited({14: (1, 9_000_000)}, 9_000_000)
    after = Waited({12: (1, 3_000_000), 14: (1, 9_000_000)}, 9_000_000)
    assert cpu_waits.between(before, after) == Waited({12: (1, 3_000_000)}, 4_096_000)


def test_a_wait_that_lasts_is_the_runs() -> None:
    """Or a vCPU that got no CPU again would not show."""
    starved = replace(WAITED, lasts_ns=7_000_000_000)
    assert cpu_waits.between(WAITED, starved) == Waited({}, 7_000_000_000)
    more = Waited({0: (4, 2900), 12: (96, 288_000_000), 14: (1, 9_000_000)}, 9_000_000, 800)
    assert cpu_waits.between(starved, more) == Waited({0: (1, 800)}, 1000)


def test_percentiles_are_the_ends_of_bins() -> None:
    assert cpu_waits.percentile_ns(WAITED, 3) == 1000
    assert cpu_waits.percentile_ns(WAITED, 4) == 4_096_000
    assert cpu_waits.percentile_ns(WAITED, 99) == 4_096_000
    assert cpu_waits.percentile_ns(WAITED, 100) == 9_000_000
    assert cpu_waits.percentile_ns(Waited({23: (1, 7 * 10**9)}, 7 * 10**9), 99) == 7 * 10**9
    with pytest.raises(ValueError, match="no wait"):
        cpu_waits.percentile_ns(Waited({}, 0), 99)


def test_figures_of_all_runs_and_vms() -> None:
    starved = Waited({12: (1, 3_000_000), 23: (1, 6_000_000_000)}, 6_000_000_000)
    quiet = Waited({}, 0)
    seen = cpu_waits.figures([((WAITED, quiet), 4.0), ((WAITED, starved), 6.0)])
    assert seen and (seen.per_s, seen.mean_ms) == pytest.approx(
        (202 / 10, (2 * 297.0021 + 6003) / 202))
    assert (seen.p99_ms, seen.longest_ms, seen.vms_longest_ms) == (16.384, 6000, (9, 6000))
    assert cpu_waits.figures([((quiet,), 4.0)]) == CpuWaits(0, None, None, 0, (0,))


@pytest.mark.parametrize("runs", [
    [], [((), 4.0)], [((None, None), 4.0)], [((WAITED, None), 4.0)],
    [((WAITED, WAITED), 4.0), ((WAITED, None), 4.0)], [((WAITED, WAITED), 4.0), ((), 4.0)],
    [((WAITED,) * 3, 4.0), ((WAITED,), 4.0)],
])
def test_one_unknown_vm_may_be_the_one_that_starved(
    runs: list[tuple[tuple[Waited | None, ...], float]]
) -> None:
    assert cpu_waits.figures(runs) is None
