# SPDX-License-Identifier: GPL-2.0-only
"""Searches without a cluster: which trials go on, what held-out workloads decide, and a stop."""

from pathlib import Path
from typing import Any

import pytest

from lab.sweep import grid, page, search
from lab.sweep.store import Row, Store
from tests.lab import sweeping
from tests.lab.sweeping import BUILD
from tests.lab.test_sweep import FILE_HERE, Fake

SEARCH = sweeping.search(trials=12, width=4)


def test_a_search_finds_what_held_out_workloads_confirm(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path, SEARCH)
    fake = Fake(sweep, Store(tmp_path))
    fake.make(grid.runs(sweep, BUILD))
    search.run(fake, tmp_path)
    judged = search.results(tmp_path)
    assert judged[0].held and judged[0].held < 0.9 and abs(int(
        judged[0].values["extend_us"]) - 500) < 300
    assert next(one for one in judged if not one.values).held == pytest.approx(1)
    assert "takes 0." in search.said(judged)
    seeds = {row.seed for row in fake.store.rows.values() if row.workload == "dedup-short"}
    assert seeds == {100_001, 100_002, 100_003}
    page.make(sweep, tmp_path, FILE_HERE)
    assert "Held-out" in (tmp_path / page.FILE).read_text()


def test_half_of_a_wave_goes_on(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path, SEARCH)
    fake = Fake(sweep, Store(tmp_path))
    search.run(fake, tmp_path)
    tried = {seed: {row.setting for row in fake.store.rows.values() if row.seed == seed
                    and row.names} for seed in (1, 2, 3)}
    assert len(tried[1]) <= 12 and len(tried[2]) <= 6 and len(tried[3]) <= 3
    assert tried[3] <= tried[2] <= tried[1]


def test_a_search_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Stopped in its second wave: what it was trying is tried again, and nothing made twice."""
    sweep = sweeping.load(tmp_path, SEARCH)

    class Stopped(Fake):
        def make(self, runs: Any, name: str = "") -> list[Row]:
            if self.played > 6:
                raise KeyboardInterrupt
            return super().make(runs, name)

    with pytest.raises(KeyboardInterrupt):
        search.run(Stopped(sweep, Store(tmp_path)), tmp_path)
    before = Store(tmp_path)
    again = Fake(sweep, Store(tmp_path))
    search.run(again, tmp_path)
    assert {*before.rows} < {*again.store.rows}
    assert sum(row.made for row in before.rows.values()) == sum(
        again.store.rows[key].made for key in before.rows)
    assert search.results(tmp_path)


def test_no_setting_better_is_said_so(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path, SEARCH.replace("low = 50", "low = 2000"))
    search.run(Fake(sweep, Store(tmp_path)), tmp_path)
    assert search.said(search.results(tmp_path)).startswith("No setting is better than ecs-count")
