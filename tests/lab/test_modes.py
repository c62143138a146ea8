# SPDX-License-Identifier: GPL-2.0-only
"""Cells whose median hides a second mode."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.core.cells import Cell
from lab.report import modes
from lab.report.summary import _with_baseline, as_json, load, summarize
from lab.report.table import as_text, cell_text
from tests.lab.synthetic import Synthetic


@pytest.mark.parametrize(("values", "two"), [
    ([0.06] * 9 + [7.4], True),
    ([0.06] * 6 + [7.4] * 4, True),
    ([7.4, 0.06, 7.3, 0.061, 7.5], True),
    ([1.0, 1.1, 1.2, 2.9, 3.0], True),
    ([1.0, 1.1, 1.2, 1.1, 2.9], False),
    ([1.0, 1.1, 1.2, 2.1, 2.2], False),
    ([1.0, 1.3, 1.7, 2.2, 2.9, 3.8, 4.9], False),
    ([0.0, 0.0, 1.0], True),
    ([1.0, 3.0], True), ([5.0], False), ([], False), ([2.0] * 20, False),
    ([0.0, 0.0], False),
])
def test_the_rule(values: Sequence[float], two: bool) -> None:
    assert modes.bimodal(values) == two
    assert modes.bimodal([*reversed(values)]) == two


@pytest.mark.parametrize("n", [5, 10, 20])
def test_one_mode_hardly_ever_looks_like_two(n: int) -> None:
    """And two are found, if each has two values: fast and twenty times as slow."""
    chance = np.random.default_rng(n)
    drawn = chance.lognormal(0, 0.3, (2000, n))
    assert sum(modes.bimodal(row.tolist()) for row in drawn) < 20
    slow = drawn * np.where(np.arange(n) < 2, 20, 1)
    assert all(modes.bimodal(row.tolist()) for row in slow)


def cell(values: Sequence[float]) -> Cell:
    return Cell("pmt", "w", 3, 2, 2, "time", "s", "lower", tuple(values), 1.0, None, None, 0.25,
                False, 0, None, None, min=min(values), max=max(values),
                bimodal=modes.bimodal(values))


def test_stars() -> None:
    """The test is of ranks, and says nothing of how bad the rare ones are."""
    base, twice = cell([1.0, 1.1, 1.2]), cell([0.5, 0.6, 0.7])
    rare, apart = cell([0.5, 0.6, 0.5, 0.6, 7.4]), cell([0.1, 0.1, 0.9, 0.9])
    assert modes.may_have_star(twice, base)
    assert rare.bimodal and not modes.may_have_star(rare, base)
    assert not modes.may_have_star(base, rare)
    assert apart.bimodal and modes.may_have_star(apart, base)
    assert [_with_baseline(one, base, 1e-6).significant for one in (twice, rare, apart)] == [
        True, False, True]


def test_text() -> None:
    hidden = cell([0.06] * 9 + [7.4])
    assert cell_text(hidden) == "1.00  (+25.0 %)‡"
    assert cell_text(replace(hidden, significant=True)).endswith("‡*")
    (note,) = modes.notes([cell([1.0, 1.1]), hidden])
    assert "pmt/w/3 VMs 0.06 to 7.4 s" in note and note.startswith("‡")
    assert modes.notes([cell([1.0, 1.1])]) == []


def test_table_and_summary(tmp_path: Path) -> None:
    made = Synthetic(reps=5, boots=2)
    made.write(tmp_path)
    summary = summarize(load(tmp_path))
    data = json.loads(as_json(summary))
    for one in data["cells"]:
        assert (one["min"], one["max"]) == (min(one["values"]), max(one["values"]))
        assert one["bimodal"] is False
    assert "‡" not in as_text(summary)
    text = as_text(replace(summary, cells=tuple(replace(c, bimodal=True) for c in summary.cells)))
    assert text.count("‡") == len(summary.cells) + 1
