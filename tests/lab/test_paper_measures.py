# SPDX-License-Identifier: GPL-2.0-only
"""What papers' claims are measured by, in results with values computed by hand."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from lab.plan.papers import Claim, Row
from lab.report import paper_page, reproduction
from lab.report.reproduction import Found, Verdict
from lab.report.summary import load, summarize
from tests.lab.synthetic import HACKBENCH, Counted, Synthetic


def found(made: Synthetic, directory: Path, *claims: Claim) -> list[Found]:
    """Each claim in results that are written there."""
    row = Row("Table 9", "what is shown", "figure5", {HACKBENCH.name: HACKBENCH.name}, claims)
    return reproduction.found(row, summarize(load(made.write(directory))), False)


def windows(first: int, second: int) -> tuple[tuple[int, int], ...]:
    """Three windows in which two VMs part by what they differ in the first, in all."""
    return (first, second), (120_000, 80_000), (80_000, 120_000)


@pytest.mark.parametrize(("first", "second", "lent_ns", "stock", "verdict"), [
    (100_000, 99_500, 10**7, 100_000, "confirmed"),
    (99_500, 100_000, 10**7, 100_000, "confirmed"),
    (100_000, 90_000, 10**7, 100_000, "differs"),
    (100_000, 90_000, 0, 100_000, "differs"),
    (100_000, 99_500, 10**5, 100_000, "cannot tell"),
    (100_000, 99_500, 0, 100_000, "cannot tell"),
    (100_000, 99_500, 10**7, 90_000, "cannot tell"),
])
def test_cpu_times_that_stay_even(tmp_path: Path, first: int, second: int, lent_ns: int,
                                  stock: int, verdict: Verdict) -> None:
    """After all windows together, whoever has more; it says nothing where little was lent."""
    def counted(scheme: str, vms: int) -> Counted:
        pair = (first, second) if scheme == "pmt" else (100_000, stock)
        return Counted(windows=windows(*pair), usec=(300_000, 300_000),
                       host={"extend_ns": lent_ns, "extend_granted": 9})

    made = Synthetic(("ticket", "pmt"), vms=(2,), counted=counted, observe="ecs", window_ms=100)
    uneven, lent = found(made, tmp_path, Claim("pmt", 0.0, 2, measure="uneven"),
                         Claim("pmt", 5.4, 2, measure="lent"))
    both = 200_000 + (first + second) / 2
    assert uneven.ours == pytest.approx(100 * abs(first - second) / both, rel=0.01)
    assert uneven.placebo == pytest.approx((100_000 - stock) / (300_000 - 5_000), rel=0.05)
    assert uneven.verdict == verdict
    assert lent.ours == pytest.approx(100 * lent_ns / 3e8, rel=0.01)


WAITS = {0: (10**6, 0), 10: (90, 9 * 700), 16: (7, 7 * 40_000), 17: (2, 2 * 70_000),
         24: (1, 10**7)}


@pytest.mark.parametrize("vms", [1, 2])
def test_long_waits(tmp_path: Path, vms: int) -> None:
    """By number from 2^16 cycles on, by time from 2^19 on; of measured guests alone."""
    beside = replace(HACKBENCH, neighbour="burn")
    made = Synthetic(("tas",), beside, vms=(vms,), observe="locks", counted=lambda scheme, vms:
                     Counted(waits=WAITS, other_waits={24: (10**6, 10**13)}))
    number, time, less = found(
        made, tmp_path, Claim("tas", 2.2, vms, measure="long waits"),
        Claim("tas", 95.0, vms, measure="long waiting", most=100.0),
        Claim("tas", 60.0, vms, measure="long waiting"))
    assert number.ours == pytest.approx(3, abs=0.1)
    assert time.ours == pytest.approx(100 * 1e7 / (1e7 + 140_000 + 286_300), abs=0.1)
    assert [one.verdict for one in (number, time, less)] == ["confirmed", "confirmed", "differs"]


def test_over_another_number_of_vms(tmp_path: Path) -> None:
    """Over the share that each VM has; the placebo is the farther one of both numbers."""
    def value(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
        slow = 8.0 if vms == 2 else 1.5 if scheme == "ticket:2" else 1.0
        return slow * rng.uniform(1, 1.01)

    def counted(scheme: str, vms: int) -> Counted:
        tail = [(64_000, 64_000)] * 3 if vms == 2 else [(70_000, 70_000)]
        return Counted(flushes={"ipi": [(1000, 1000)] * (20 - len(tail)) + tail})

    made = Synthetic(("ticket", "ticket:2"), vms=(1, 2), value=value, counted=counted,
                     observe=True)
    slower, flushes = found(
        made, tmp_path, Claim("ticket", 0.25, 2, "ticket", against_vms=1),
        Claim("ticket", 0.01, 2, "ticket", "flush p90", against_vms=1))
    assert slower.ours == pytest.approx(0.25, rel=0.03) and slower.placebo is not None
    assert slower.placebo == pytest.approx(0.5, rel=0.03) and slower.verdict == "confirmed"
    assert flushes.ours == pytest.approx(1 / 64, rel=0.15)
    assert paper_page.cells(slower, False)[:3] == ["2", "ticket", "ticket, 1 VM"]
