# SPDX-License-Identifier: GPL-2.0-only
"""The verdict on top of a report: averages, intervals, and what makes figures less."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.core import stats
from lab.report import opening, report, table
from lab.report.summary import Summary, as_json, load, summarize
from lab.report.verdict import Ratio, Verdict, between
from tests.lab.synthetic import HACKBENCH, THROUGHPUT, Synthetic

FACTORS = {"a": 1.0, "a:2": 1.02, "b": 0.5, "c": 1.01, "d": 1.0206}


def known(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
    """Times: `b` takes half as long as `a`, `c` is nearer to it than its placebo.

    `d` is farther than the placebo, by less than a page shows.
    """
    return vms * FACTORS[scheme] * (1 + 1e-4 * rng.random())


def made(directory: Path, *schemes: str, **changes: object) -> Summary:
    changes = {"value": known, "reps": 1, "boots": 8, **changes}
    return summarize(load(Synthetic(schemes, **changes).write(directory)))  # type: ignore[arg-type]


def test_speedups(tmp_path: Path) -> None:
    summary = made(tmp_path, "a", "a:2", "b", "c")
    found = {(one.scheme, one.vms): one for one in summary.verdicts}
    assert [*found] == [(label, vms) for label in ("a:2", "b", "c") for vms in (3, 2, 1)]
    for vms in (1, 2, 3):
        b = found["b", vms]
        assert b.speedup == pytest.approx(2, rel=1e-3) and b.differs and b.best.significant
        assert b.interval and b.interval[0] < b.speedup < b.interval[1] < 2.01
        c = found["c", vms]
        assert c.speedup == pytest.approx(1 / 1.01, rel=1e-3)
        assert c.interval and c.interval[1] < 1 and not c.beyond and not c.differs
        assert (b.workloads, b.runs, b.baseline) == (1, 8, "a")


def test_what_reads_as_the_placebo_does_is_no_difference(tmp_path: Path) -> None:
    summary = made(tmp_path, "a", "a:2", "d")
    for placebo, d in zip(summary.verdicts[:3], summary.verdicts[3:], strict=True):
        assert d.speedup < placebo.speedup and f"{d.speedup:.3g}" == f"{placebo.speedup:.3g}"
        assert d.interval and d.interval[1] < 1 and not d.beyond and not d.differs


def test_rates_turn(tmp_path: Path) -> None:
    (b, *_) = made(tmp_path, "a", "b", workload=THROUGHPUT).verdicts
    assert b.speedup == pytest.approx(0.5, rel=1e-3)


def test_the_average_is_geometric(tmp_path: Path) -> None:
    """Twice as fast in one workload and half as fast in another is nothing."""
    summaries = [made(tmp_path / name, "a", "b", vms=(2,), workload=workload)
                 for name, workload in (("x", HACKBENCH), ("y", THROUGHPUT))]
    pairs = [(one.results.units("b", name, 2), one.results.units("a", name, 2), better)
             for one, (name, better) in zip(summaries, (("hackbench", "lower"),
                                                        ("dbench", "higher")), strict=True)]
    found = between(pairs, 0, 1)  # type: ignore[arg-type]
    assert found and math.sqrt(found[0] * found[1]) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_an_interval_holds_the_truth(n: int) -> None:
    """Five workloads in which nothing differs but by chance, some of it one seed's in all."""
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(200):
        own, base = (np.exp(rng.normal(0, 0.3, (5, n)) + rng.normal(0, 0.15, n))
                     for _ in range(2))
        pairs = [({(k, 0): float(a) for k, a in enumerate(row)},
                  {(k, 0): float(b) for k, b in enumerate(other)}, "lower")
                 for row, other in zip(own, base, strict=True)]
        low, high = between(pairs, 0, 1) or (1, 1)  # type: ignore[arg-type]
        held += low <= 1 <= high
    assert held >= 187


def test_what_a_seed_does_to_both_counts_for_neither() -> None:
    slow = {(seed, 0): 10.0 ** seed for seed in range(6)}
    twice = {unit: 2 * value for unit, value in slow.items()}
    assert between([(twice, slow, "lower")], 0, 1) == pytest.approx((0.5, 0.5))


def test_boots_that_are_alike_widen_it() -> None:
    own = {(boot, rep): 1 + 0.1 * rep + boot for boot in (0, 1) for rep in range(5)}
    base = dict.fromkeys(own, 1.0)
    narrow, wide = (between([(own, base, "lower")], alike, 5) for alike in (0, 1))
    assert narrow and wide
    assert math.log(wide[1] / wide[0]) == pytest.approx(
        math.sqrt(5) * math.log(narrow[1] / narrow[0]))


def test_missing_runs_of_a_draw(tmp_path: Path) -> None:
    base = {(seed, 0): 2.0 for seed in range(8)}
    own = {(seed, 0): 1.0 for seed in range(3)}
    assert between([(own, base, "lower")], 0, 1) == pytest.approx((2.0, 2.0))
    del own[2, 0]
    assert between([(own, base, "lower")], 0, 1) is None


def test_few_runs_have_no_interval(tmp_path: Path) -> None:
    summary = made(tmp_path, "a", "a:2", "b", "c", boots=2)
    assert all(one.interval is None and not one.differs for one in summary.verdicts)
    head, *lines = opening.verdict(summary)
    assert head == ("Verdict against a; above x1 is better; 2 runs a cell, too few for an"
                    " interval; too few for any star:")
    assert "  b, 3 VMs: x2.00 in hackbench" in lines
    assert "  c, 3 VMs: x0.990 (no difference) in hackbench" in lines


def test_sentences() -> None:
    best = Ratio("mmap-writer", 3.4, True, True)
    one = Verdict("recommended", "pvqspinlock", 3, 1.4, (1.21, 1.62), True, True, best,
                  Ratio("pbzip2", 0.953, False, True), 10, 10)
    assert opening.sentence(one) == (
        "recommended, 3 VMs: x1.40 on average [1.21, 1.62] over 10 workloads,"
        " best mmap-writer x3.40*, worst pbzip2 x0.953 (no difference)")
    same = replace(one, differs=False, interval=(0.9, 2.2), worst=replace(best, significant=False,
                                                                         possible=False))
    assert "[0.900, 2.20] (no difference) over" in opening.sentence(same)
    assert opening.sentence(same).endswith("worst mmap-writer x3.40 (too few runs for a star)")
    assert opening.sentence(replace(one, workloads=1)) == (
        "recommended, 3 VMs: x1.40 [1.21, 1.62]* in mmap-writer")


def test_it_is_on_top(tmp_path: Path) -> None:
    """Before the tables: what is wrong first, in text, page and JSON."""
    summary = made(tmp_path, "a", "a:2", "b", lost=frozenset({("b", 2)}))
    text = table.as_text(summary)
    places = [text.index(part) for part in ("NOT VALID", "Verdict against a", "  b, 3 VMs: x2.00",
                                            "hackbench: time (s)", "Cell: median")]
    assert places == sorted(places) and text.count("NOT VALID") == 1
    report.make(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index("Verdict against a") < page.index("<table>") and "<li>  b, 3 VMs: " in page
    verdicts = json.loads(as_json(summary))["verdicts"]
    assert [one["scheme"] for one in verdicts] == ["a:2"] * 3 + ["b"] * 3
    assert verdicts[3]["best"]["workload"] == "hackbench"


def test_nothing_to_compare_has_no_verdict(tmp_path: Path) -> None:
    assert opening.lines(made(tmp_path, "a")) == []


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    summary = made(tmp_path, "a", "a:2", "b", lost=frozenset({("b", 2)}))
    wrong = replace(
        summary, results=replace(summary.results, warnings=("CPUs stood still",)),
        cells=tuple(replace(cell, bimodal=cell.scheme == "b" and cell.vms == 3,
                            vs_baseline=-0.3 if cell.scheme == "a:2" and cell.vms == 2 else 0.0,
                            significant=cell.scheme == "a:2" and cell.vms == 1)
                    for cell in summary.cells))
    invalid, stood, moved, two = opening.alerts(wrong)
    assert invalid.startswith("NOT VALID") and stood == "Warning: CPUs stood still."
    assert moved == ("The placebo moved, which changes nothing: hackbench +0.0 % at 1 VM*,"
                     " hackbench -30.0 % at 2 VMs.")
    assert two.startswith("‡") and "b/hackbench/3 VMs" in two


def test_the_same_runs_give_the_same(tmp_path: Path) -> None:
    first, second = (made(tmp_path / name, "a", "b") for name in "xy")
    assert first.verdicts == second.verdicts
    assert (stats.draws(5) == stats.draws(5)).all()
