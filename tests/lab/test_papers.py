# SPDX-License-Identifier: GPL-2.0-only
"""Papers: their files, and what is made of their claims."""

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core.errors import UsageError
from lab.plan import papers
from lab.plan.papers import Claim, Paper, Row
from lab.report import paper_page, paper_picture, reproduction
from lab.report.reproduction import Verdict
from lab.report.summary import Summary, load, summarize
from tests.lab.synthetic import HACKBENCH, Counted, Synthetic

FASTER = Claim("pmt", 4.0, 2, "ticket")


def by_seed(values: Iterable[float]) -> dict[tuple[int, int], float]:
    return {(seed, 0): value for seed, value in enumerate(values)}


@pytest.mark.parametrize("name", papers.names())
def test_each_paper_can_be_played(name: str) -> None:
    """Its experiments exist, whole and quick, and have the cells of each claim."""
    paper = papers.load(name)
    assert paper.rows and all(row.claims for row in paper.rows)
    for row in paper.rows:
        whole, quick = row.plan(False), row.plan(True)
        assert whole.boots >= 5 and quick.boots <= whole.boots
        assert {s.name for s in whole.schemes if [o.name for o in whole.schemes].count(s.name) > 1}


@pytest.mark.parametrize(("old", "new", "message"), [
    ('scheme = "pmt"', 'scheme = "pmtt"', "has no scheme 'pmtt'"),
    ("vms = 3", "vms = 4", "no cell with 4 VMs"),
    ('workload = "hackbench"', 'workload = "hack"', "no workload 'hack'"),
    ('measure = "waiters"', 'measure = "flush mean"', "'against' is for"),
    ('measure = "waiters"', 'measure = "waits"', "measure must be"),
    ('experiment = "figure5"', 'experiment = "figure55"', "no experiment 'figure55'"),
    ("seeds = 2", "seeds = 0.5", "seeds must be"),
    ('measure = "waiters"', 'measure = "waiters"\nagainst_vms = 1', "needs 'against'"),
    ('against = "ticket"', 'against = "ticket"\nagainst_vms = 9', "no cell with 9 VMs"),
    ('against = "ticket"', 'against = "pmt"', "pmt is compared with itself"),
    ("value = 3.89", "value = 3.89\nmost = 2.0", "a ratio's range is above 1, and rises"),
    ("title", "tittle", "unknown key 'tittle'"),
])
def test_a_wrong_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str,
                                 new: str, message: str) -> None:
    text = (papers.PAPERS / "pmt.toml").read_text()
    assert old in text
    (tmp_path / "pmt.toml").write_text(text.replace(old, new, 1))
    monkeypatch.setattr(papers, "PAPERS", tmp_path)
    with pytest.raises(UsageError, match=message):
        papers.load("pmt")


def test_a_row_ties_vcpus_to_cpus() -> None:
    """Where its paper does so, and nowhere else."""
    rows = [row for name in papers.names() for row in papers.load(name).rows]
    assert {row.pin for row in rows} == {False, True}
    assert all(row.plan(quick).pin == row.pin for row in rows for quick in (False, True))


def test_a_paper_that_there_is_none_of() -> None:
    with pytest.raises(UsageError, match=r"no paper .pmtt. .known: apples, ecs"):
        papers.load("pmtt")


@pytest.mark.parametrize(("paper", "ours", "others", "placebo", "verdict"), [
    (4.0, (1.0, 1.1), (4.0, 4.4), 0.1, "confirmed"),
    (4.0, (1.0, 1.1), (1.5, 1.6), 0.1, "smaller"),
    (4.0, (1.0, 1.1), (40, 44), 0.1, "larger"),
    (4.0, (4.0, 4.4), (1.0, 1.1), 0.1, "contradicted"),
    (4.0, (1.0, 1.1), (1.05, 1.08), 0.0, "no difference"),
    (4.0, (1.0, 1.1), (4.0, 4.4), 5.0, "cannot tell"),
    (4.0, (1.0, 1.1), (0.5, 2.4), 0.0, "cannot tell"),
    (4.0, (1.0, 1.1), (0.5, 1.9), 0.0, "no difference"),
    (0.25, (1.0, 1.1), (0.4, 1.9), 0.0, "cannot tell"),
    (0.25, (1.0, 1.1), (0.6, 9.9), 0.0, "no difference"),
    (4.0, (1.0, 1.1, 1.05, 1.0, 1.1), (1.2, 1.25, 1.3, 1.2, 0.9), 0.0, "no difference"),
    (4.0, (1.0, 1.1, 1.05, 1.0, 1.1), (1.2, 5.0, 1.3, 6.0, 0.9), 0.0, "cannot tell"),
    (4.0, (1.0, 1.1, 1.05, 1.0, 1.1), (4.0, 4.4, 4.1, 4.2, 4.0), 0.0, "confirmed"),
    (1.0, (1.0, 1.1), (1.05, 1.08), 0.0, "confirmed"),
    (1.0, (1.0, 1.1), (1.05, 1.08), 0.3, "cannot tell"),
    (1.0, (1.0, 1.1), (1.05, 1.38), 0.0, "cannot tell"),
    (1.0, (1.0, 1.1), (1.5, 1.6), 0.0, "contradicted"),
    (0.8, (1.5, 1.6), (1.0, 1.1), 0.0, "confirmed"),
    (4.0, (1.0,), (4.0, 4.4), 0.0, "too few seeds"),
    (4.0, (), (1.0,), 0.0, "not played"),
    (4.0, (0.0, 1.0), (1.0, 2.0), 0.0, "not played"),
])
def test_verdicts(paper: float, ours: tuple[float, ...], others: tuple[float, ...],
                  placebo: float, verdict: Verdict) -> None:
    """Of times: the smaller the better. Rates turn it round."""
    claim = replace(FASTER, value=paper)
    found = reproduction.judged(claim, by_seed(ours), by_seed(others), "lower", placebo)
    assert found.verdict == verdict
    turned = reproduction.judged(claim, by_seed(others), by_seed(ours), "higher", placebo)
    assert turned.verdict == verdict
    assert found.least <= (found.ours or 0) <= found.most


@pytest.mark.parametrize(("ours", "verdict"), [
    (1.04, "smaller"), (1.06, "confirmed"), (1.3, "confirmed"), (1.9, "confirmed"),
    (1.95, "larger")])
def test_a_range_of_ratios(ours: float, verdict: Verdict) -> None:
    """Between the least's square root and the most's square."""
    claim = replace(FASTER, value=1.105, most=1.387)
    found = reproduction.judged(claim, by_seed((1.0, 1.001)), by_seed((ours, 1.001 * ours)),
                                "lower", 0.0)
    assert found.verdict == verdict


@pytest.mark.parametrize(("paper", "most", "values", "verdict"), [
    (88.5, 0, (88.0, 92.0), "confirmed"), (88.5, 0, (70.0,), "differs"),
    (88.5, 0, (), "not played"),
    (0.0, 0, (0.3,), "confirmed"), (0.0, 0, (7.6,), "differs"), (5.4, 0, (0.1,), "differs"),
    (5.4, 0, (9.0,), "confirmed"), (85.8, 100.0, (99.0,), "confirmed"),
    (85.8, 100.0, (70.0,), "differs"),
])
def test_shares_are_compared_as_they_are(paper: float, most: float, values: tuple[float, ...],
                                         verdict: Verdict) -> None:
    """To a number or a range; small ones have to be alike, too, not only near."""
    claim = Claim("ticket", paper, 2, measure="waiters", most=most)
    assert reproduction.judged(claim, by_seed(values), {}, "lower", None).verdict == verdict


def test_a_guest_that_only_computes_does_not_dilute(tmp_path: Path) -> None:
    """What the measured guest spun is of its own time, not of its neighbour's too."""
    def counted(scheme: str, vms: int) -> Counted:
        return Counted(guest={"lock_acquisitions": 9, "lock_wait_ns": 5 * 10**8,
                              "lock_stolen_ns": 0, "lock_halted_ns": 0}, usec=(10**6, 9 * 10**6))

    beside = replace(HACKBENCH, neighbour="burn")
    made = Synthetic(("ticket",), beside, vms=(2,), counted=counted, observe="locks")
    row = replace(ROW, claims=(Claim("ticket", 50.0, 2, measure="spinning"),))
    (found,) = reproduction.found(row, summarize(load(made.write(tmp_path))), False)
    assert found.ours == pytest.approx(50) and found.verdict == "confirmed"


def made(directory: Path) -> Summary:
    """Ticket locks take four times as long with two VMs; 3 of 4 stalls are waiters'."""
    def value(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
        slow = 4.0 if vms == 2 and scheme.startswith("ticket") else 1.0
        return slow * rng.uniform(1, 1.05)

    def counted(scheme: str, vms: int) -> Counted:
        flushed = 1000 if scheme == "pmt" else 8000
        return Counted(
            guest={"lock_stalls_holder": 100, "lock_stalls_waiter": 300, "lock_acquisitions": 9,
                   "lock_wait_ns": 10**8, "lock_stolen_ns": 0, "lock_halted_ns": 0},
            usec=(10**6,) * vms, flushes={"ipi": [(flushed, flushed), (2 * flushed, flushed)]})

    return summarize(load(Synthetic(("ticket", "ticket:2", "pmt"), vms=(1, 2), value=value,
                                    counted=counted, observe=True).write(directory)))


ROW = Row("Table 9", "what is shown", "figure5", {HACKBENCH.name: HACKBENCH.name}, (
    FASTER,
    Claim("pmt", 6.0, 2, "ticket", "flush mean"),
    Claim("pmt", 1.3, 1, "ticket", "flush max"),
    Claim("ticket", 75.0, 2, measure="waiters"),
    Claim("ticket", 50.0, 1, measure="spinning"),
    Claim("ticket", 90.0, 2, measure="avoided"),
    Claim("pmt", 2.0, 3, "ticket"),
), reason="it was measured.")


def test_a_page(tmp_path: Path) -> None:
    """Every measure is found in results; what was not played, or is not there, says so."""
    summary = made(tmp_path)
    found = reproduction.found(ROW, summary, False)
    assert [one.verdict for one in found] == [
        "confirmed", "confirmed", "larger", "confirmed", "differs", "not played", "not played"]
    assert found[0].ours == pytest.approx(4, rel=0.1) and found[0].seeds == 10
    assert found[1].ours == pytest.approx(8) and found[3].ours == pytest.approx(75)
    assert found[4].ours == pytest.approx(10)
    assert found[0].placebo is not None and found[0].placebo < 0.1 and found[1].placebo == 0
    paper = Paper("p", "A Paper", "Somebody, 2013", "a machine", (ROW,))
    paper = replace(paper, rows=(ROW, replace(ROW, name="None")))
    paper_page.keep(paper_page.of(paper, [(ROW, summary)], False, ("./pvsync", "reproduce", "p")),
                    tmp_path)
    text = paper_page.page(paper_page.read(tmp_path / paper_page.FILE), paper)
    assert text.startswith("# A Paper\n\n**Of its claims: 3 confirmed, 1 larger, 1 differs,")
    assert "| 2 | pmt | ticket | performance | 4.00 |" in text and "Why: it was measured." in text
    assert "Not made in this run." in text
    assert all(len(line) <= 100 or line.startswith("|") for line in text.splitlines())


@pytest.mark.parametrize("span", [2, 10, 11, 1000, 3e3, 4e3, 1e7])
def test_numbers_of_an_axis_do_not_run_into_each_other(span: float) -> None:
    """There is room for a dozen."""
    assert 2 <= len(paper_picture.marks(span)) * math.log10(span) + 1 <= 12
