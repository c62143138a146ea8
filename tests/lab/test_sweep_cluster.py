# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps on a real Dask scheduler with workers of their own, which are killed meanwhile."""

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lab.core.progress import Silent
from lab.sweep import cluster, grid
from lab.sweep.campaign import Campaign, Prepared
from lab.sweep.execute import Lost
from lab.sweep.store import Store
from tests.lab import sweeping
from tests.lab.clusters import LIMIT_S, Cluster, wait

SEEDS = 60


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[int], Cluster]]:
    made: list[Cluster] = []

    def start(workers: int) -> Cluster:
        made.append(Cluster(tmp_path / f"cluster{len(made)}", workers))
        return made[-1]

    yield start
    for process in (process for one in made for process in one.processes):
        process.kill()
        process.wait()


class Command(threading.Thread):
    """What `./pvsync sweep` does, once it has something to boot."""

    def __init__(self, folder: Path, address: str,
                 play: Callable[[dict[str, Any]], dict[str, Any]] = sweeping.play) -> None:
        super().__init__(daemon=True)
        self.store = Store(folder / "out", alone=True)
        self.sweep = sweeping.load(folder, sweeping.FILE.replace("seeds = 3", f"seeds = {SEEDS}")
                                   + sweeping.HOST)
        self.runs = grid.runs(self.sweep, sweeping.BUILD)
        self.ended: BaseException | None = None
        self._address, self._play = address, play
        self.start()

    def run(self) -> None:
        try:
            with cluster.connect(self._address) as client:
                Campaign(self.sweep, Prepared(sweeping.BUILD, (), {}), self.store, client,
                         Silent(), play=self._play).make(self.runs)
        except BaseException as error:
            self.ended = error

    def units(self) -> set[str]:
        """Those that are kept."""
        return {row.unit for row in list(self.store.rows.values())}


def test_a_killed_worker_and_a_killed_scheduler_lose_nothing(
        tmp_path: Path, started: Callable[[int], Cluster]) -> None:
    first = started(2)
    command = Command(tmp_path, first.address)
    wait(lambda: len(command.units()) > 5)
    first.kill(1)
    before = len(command.units())
    wait(lambda: len(command.units()) > before + 10)
    first.kill(0)
    command.join(LIMIT_S)
    assert isinstance(command.ended, Lost) and "the same command goes on" in str(command.ended)
    kept = command.units()
    assert len(kept) < len(grid.units(command.runs, (), 24)) == 2 * SEEDS

    second = started(2)
    again = Command(tmp_path, second.address)
    assert {row.unit for row in again.store.rows.values()} == kept, "all of it was on the disk"
    again.join(LIMIT_S)
    assert again.ended is None
    wanted = {run.key for run in again.runs}
    parts = [key for part in (tmp_path / "out/parts").glob("*.parquet")
             for key in pq.read_table(part)["key"].to_pylist()]
    assert Counter(parts) == Counter(wanted), "each run has one row"
    assert all(row.valid for row in again.store.rows.values())
    assert not kept & {*second.played()}, "nothing that was kept was made again"
    assert max(Counter(second.played()).values()) == 1
    assert len({row.worker for row in again.store.rows.values()}) == 4


def broken(task: dict[str, Any]) -> dict[str, Any]:
    """One unit of seed 3 kills its worker, those of seed 4 fail by themselves."""
    if task["seed"] == 3 and len(task["experiment"]["schemes"]) == 1:
        ctypes.CDLL(None)._exit(1)
    if task["seed"] == 4:
        raise RuntimeError("the host did not boot")
    return sweeping.play(task)


def test_what_fails_for_good_is_a_row_and_stops_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On workers of the command's own, which come back after each death."""
    monkeypatch.setattr("tests.lab.test_sweep_cluster.SEEDS", 5)
    command = Command(tmp_path, "", broken)
    command.join(LIMIT_S)
    assert command.ended is None and not command.is_alive()
    reasons = Counter((row.seed, row.reason) for row in command.store.rows.values())
    assert reasons == {
        **{(seed, ""): 20 for seed in (1, 2, 5)}, (4, "the host did not boot"): 20,
        (3, ""): 16, (3, "the workers that were at it died, one after the other"): 4}


def test_workers_of_this_machine_do_not_watch_themselves() -> None:
    """They would take CPU time from the hosts; the settings of `cluster.CONFIG` reach them."""
    def told() -> list[Any]:
        from dask import config

        return [config.get(name) for name in ("distributed.worker.profile.enabled",
                                              "distributed.admin.tick.interval")]

    with cluster.connect(workers=1) as client:
        assert [*client.run(told).values()] == [[False, "500ms"]]
