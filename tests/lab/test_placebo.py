# SPDX-License-Identifier: GPL-2.0-only
"""Placebos: which schemes are some, how far they were, and whose star that takes away."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core import stats
from lab.plan import config
from lab.report import placebo, table
from lab.report.summary import Summary, as_json, load, summarize
from tests.lab.synthetic import Synthetic

WITHOUT = {"busted", "shootdown-cost", "races", "smoke", "tlb-check", "torture8"}
"""Experiments that publish no difference from a baseline."""


def apart(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
    """Known differences from `a`: the placebo 10 % above, `b` 5 % below and `c` 20 %."""
    factor = {"a": 1.0, "a:2": 1.1, "b": 0.95, "c": 0.8}[scheme]
    return vms * factor * (1 + 1e-3 * rng.random())


def summary_of(directory: Path, *schemes: str) -> Summary:
    return summarize(load(Synthetic(schemes, value=apart).write(directory)))


def test_no_smaller_difference_has_a_star(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, "a", "a:2", "b", "c")
    for vms in (1, 2, 3):
        a, copy, b, c = (summary.cell(name, "hackbench", vms) for name in ("a", "a:2", "b", "c"))
        assert {cell.placebo_spread for cell in (a, copy, b, c)} == {copy.vs_baseline}
        assert copy.vs_baseline == pytest.approx(0.1, abs=0.01)
        assert b.p_value is not None and b.p_value < stats.ALPHA and not b.significant
        assert c.significant and copy.significant and not a.significant
    for cell in json.loads(as_json(summary))["cells"]:
        assert cell["placebo_spread"] == pytest.approx(0.1, abs=0.01)


def test_the_same_without_a_placebo(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, "a", "b", "c")
    assert summary.cell("b", "hackbench", 2).significant
    assert {cell.placebo_spread for cell in summary.cells} == {None}
    assert "No placebo beside it: how large" in " ".join(table.notes(summary))


def test_one_scheme_alone_needs_none(tmp_path: Path) -> None:
    assert "lacebo" not in " ".join(table.notes(summary_of(tmp_path, "a")))


def test_the_table_says_how_far_it_was_and_whose_star_is_gone(tmp_path: Path) -> None:
    text = " ".join(table.as_text(summary_of(tmp_path, "a", "a:2", "b", "c")).split())
    found = re.search(r"Placebo \(a:2\): changes nothing, and was so far from a: hackbench:"
                      r" ([\d.]+) % at 1 VM, [\d.]+ % at 2 VMs, [\d.]+ % at 3 VMs\.", text)
    assert found and float(found[1]) == pytest.approx(10, abs=1)
    assert "No smaller difference has a star. These pass the test and are no farther:" \
        " b/hackbench/1, b/hackbench/2, b/hackbench/3." in text


def test_the_farthest_of_several_counts(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, "a", "a:2", "b")
    cells = [*summary.cells, *(replace(cell, scheme="a:3", vs_baseline=-0.5)
                               for cell in summary.cells if cell.scheme == "a:2")]
    assert placebo.spreads(cells, ("a:2", "a:3"))["hackbench", 2] == 0.5


def test_a_placebo_without_runs_takes_no_star_away(tmp_path: Path) -> None:
    made = Synthetic(("a", "a:2", "b"), reps=7, boots=1, value=apart)
    directory = made.write(tmp_path)
    lines = (directory / "runs.jsonl").read_text().splitlines(keepends=True)
    (directory / "runs.jsonl").write_text("".join(line for line in lines if '"a:2"' not in line))
    summary = summarize(load(directory))
    assert summary.cell("b", "hackbench", 2).significant
    assert summary.cell("b", "hackbench", 2).placebo_spread is None
    assert "No placebo beside it" in " ".join(table.notes(summary))


def test_what_a_placebo_is() -> None:
    known = config.schemes()
    stock, made = known["pvqspinlock"], known["placebo"]
    assert placebo.settings(stock) == placebo.settings(made) and stock.guest != made.guest
    beside = known["stock-beside-ecs-count"]
    with_one = replace(beside, neighbour=(*(beside.neighbour or ()), "placebo.x"))
    assert placebo.settings(beside) == placebo.settings(with_one)
    for other in (replace(stock, guest=("nopvspin",)), replace(stock, host={"mark": "exit"}),
                  replace(stock, cpu=("kvm-pv-unhalt=off",)), replace(stock, variant="off"),
                  replace(stock, neighbour=())):
        assert placebo.settings(other) != placebo.settings(stock)


@pytest.mark.parametrize("name", sorted(config.experiments()))
def test_every_experiment_that_compares_has_one(name: str) -> None:
    plan = config.experiment(name)
    base = plan.schemes[0]
    copies = [one for one in plan.schemes[1:]
              if placebo.settings(one) == placebo.settings(base)]
    assert bool(copies) == (name not in WITHOUT), name
