# SPDX-License-Identifier: GPL-2.0-only
"""A sweep's campaign without a cluster: what is made again, and which trials a search knows."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from distributed import Client

from lab.core import paths
from lab.core.progress import Silent
from lab.plan import config
from lab.sweep import artifacts, collect, execute, grid, search, worker
from lab.sweep.campaign import Campaign, Prepared
from lab.sweep.model import Setting
from lab.sweep.store import Store
from tests.lab import sweeping
from tests.lab.sweeping import BUILD, FILE, HOST

SEARCH = sweeping.search(trials=4, width=2)


def campaign(folder: Path, text: str = FILE + HOST, **options: Any) -> Campaign:
    sweep = sweeping.load(folder, text)
    return Campaign(sweep, Prepared(BUILD, (), {}), Store(folder / "out"),
                    cast("Client", sweeping.Client()), Silent(),
                    **{"play": sweeping.play, **options})


def units_played(one: Campaign) -> list[str]:
    return [task["unit"] for task in cast("sweeping.Client", one.client).tasks]


def test_what_failed_before_is_made_again_once(tmp_path: Path) -> None:
    """Also when the same runs are asked for in several waves, and when they fail again."""
    first = campaign(tmp_path)
    runs = grid.runs(first.sweep, BUILD)
    bad, worse = grid.units(runs, (), 24)[:2]
    for unit in (bad, worse):
        first.store.add(unit.key, collect.failed(unit, "its worker died", "c"))

    def play(task: dict[str, Any]) -> dict[str, Any]:
        return {**sweeping.play(task), **({"runs": []} if task["unit"] == worse.key else {})}

    again = campaign(tmp_path, again=True, play=play)
    for _ in range(3):
        again.make(runs)
    assert {*Counter(units_played(again)).values()} == {1}
    assert {bad.key, worse.key} <= {*units_played(again)}
    assert all(again.store.rows[run.key].valid for run in bad.runs)
    assert {again.store.rows[run.key].reason for run in worse.runs} == {collect.NOT_MADE}
    without = campaign(tmp_path)
    without.make(runs)
    assert units_played(without) == []


def test_what_fails_now_waits_for_the_next_command(tmp_path: Path) -> None:
    def play(task: dict[str, Any]) -> dict[str, Any]:
        return {**sweeping.play(task), "runs": []}

    one = campaign(tmp_path, again=True, play=play)
    runs = grid.runs(one.sweep, BUILD)
    one.make(runs)
    count = len(units_played(one))
    one.make(runs)
    assert len(units_played(one)) == count


@pytest.mark.parametrize("lacking", [execute.MOST_TRIES + 1, execute.MOST_TRIES + 2])
def test_a_late_answer_is_kept(tmp_path: Path, lacking: int) -> None:
    """The last try counts when it was one; without it the unit has failed."""
    tries = 0

    def play(task: dict[str, Any]) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        return {"lacks": [], "worker": ""} if tries <= lacking else sweeping.play(task)

    one = campaign(tmp_path, play=play)
    unit = grid.units(grid.runs(one.sweep, BUILD), (), 24)[0]
    rows = one.make(unit.runs)
    assert tries == execute.MOST_TRIES + 2
    assert {row.valid for row in rows} == {lacking == execute.MOST_TRIES + 1}
    assert {row.reason for row in rows if not row.valid} <= {
        "no worker was there for long enough, or could be given what it needs"}


# Which trials a search knows

def name(one: Campaign) -> str:
    base, varied = (Setting(config.select_schemes((scheme,))[0])
                    for scheme in one.sweep.schemes)
    return search._name(one, base, varied)


@pytest.mark.parametrize(("old", "new"), [
    ("trials = 4", "trials = 9\nfinalists = 1\nheld_seeds = 2")])
def test_a_search_that_is_only_longer_goes_on(tmp_path: Path, old: str, new: str) -> None:
    assert name(campaign(tmp_path, SEARCH.replace(old, new))) == name(campaign(tmp_path, SEARCH))


@pytest.mark.parametrize(("old", "new"), [
    ("seeds = 3", "seeds = 2"), ("low = 50", "low = 60"), ("hackbench-short", "ebizzy-short"),
    ('["pvqspinlock", "ecs-count"]', '["pmt", "ecs-count"]'), ("vms = [1, 2]", "vms = [1]")])
def test_trials_of_another_search_do_not_count(tmp_path: Path, old: str, new: str) -> None:
    assert name(campaign(tmp_path, SEARCH.replace(old, new))) != name(campaign(tmp_path, SEARCH))


def test_trials_of_another_kernel_do_not_count(tmp_path: Path) -> None:
    first = campaign(tmp_path, SEARCH)
    search.run(first, tmp_path)
    kernel = replace(BUILD, kernel="newer")
    second = replace(first, prepared=Prepared(kernel, (), {}))
    assert name(first) != name(second)
    search.run(second, tmp_path)
    tried = [row for row in first.store.rows.values() if row.names and row.seed == 1]
    for build in (BUILD, kernel):
        assert len({row.setting for row in tried if row.kernel == build.kernel}) >= 2


def test_a_finalist_that_is_what_there_was_keeps_its_rows(tmp_path: Path) -> None:
    """The same runs under two names: neither loses its figures to the other."""
    one = campaign(tmp_path, SEARCH)
    base, varied = (config.select_schemes((scheme,))[0] for scheme in one.sweep.schemes)
    same = Setting(varied, (("extend", "ecs"),))
    assert one.sweep.search
    judged, rows = search.judge(one, Setting(base), [(Setting(varied), None), (same, 1.0)],
                                one.sweep.search)
    assert [len(each.ratios) for each in judged] == [6, 6]
    assert judged[0].held == judged[1].held == pytest.approx(1)
    assert {row.setting for row in rows} == {"pvqspinlock", "ecs-count", "ecs-count extend=ecs"}


def test_a_finalist_without_a_row_is_not_judged(tmp_path: Path) -> None:
    class Nothing(Campaign):
        def make(self, runs: Any, name: str = "") -> list[Any]:
            return []

    one = campaign(tmp_path, SEARCH)
    nothing = Nothing(one.sweep, one.prepared, one.store, one.client, one.progress)
    base, varied = (Setting(config.select_schemes((scheme,))[0])
                    for scheme in one.sweep.schemes)
    assert one.sweep.search
    judged, _ = search.judge(nothing, base, [(varied, None)], one.sweep.search)
    assert judged[0].held is None and "nothing is decided" in search.said(judged)


# What runs on a worker

def test_a_unit_that_dies_at_once_says_why() -> None:
    """Its task does not fit into a pipe, and nobody reads it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        worker._run([sys.executable, "-c", "import sys; sys.exit('no such lab')"], "x" * 1_000_000,
                    "", out, err)
        err.seek(0)
        assert err.read() == b"no such lab\n"


def test_an_artifact_is_on_the_disk_before_it_has_its_name(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel").write_bytes(b"x" * 700)
    told = vars(artifacts.artifact("kernel", tmp_path / "kernel"))
    monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path / "cache"))
    final = worker.kept(told["digest"])
    synced: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(final.exists()))
    artifacts.send(told, {worker.INSIDE: tmp_path / "kernel"}, worker.receive)
    assert final.read_bytes() == b"x" * 700 and synced == [False]


def test_a_worker_has_the_sources_that_units_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab as an artifact is no checkout, and knows the kernel's parameters and counters."""
    monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path))
    lab = artifacts.frozen("lab", {name: paths.ROOT / name for name in artifacts.LAB})
    asked = ("from lab.observe import counters; from lab.plan import known; "
             "print(known.guest()['tau'], known.own()['mark'], counters.LIST)")
    said = subprocess.run([sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": lab.path},
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert lab.path in said.stdout
