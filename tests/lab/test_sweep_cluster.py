# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps on a real Dask scheduler with workers of their own, which are killed meanwhile."""

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.sweep import artifacts, cluster, grid, worker
from lab.sweep.execute import Lost
from tests.lab import sweeping
from tests.lab.clusters import LIMIT_S, Cluster, Command, wait

SEEDS = 60
UNIT = """
import json, pathlib, sys
task = json.load(sys.stdin)
assert pathlib.Path(task["places"]["kernel"]).read_text() == "bzImage"
assert (pathlib.Path(task["places"]["firmware"]) / "bios").read_bytes() == bytes(3000)
experiment = task["experiment"]
print(json.dumps([
    {"scheme": scheme["label"], "workload": load["name"], "vms": vms, "boot": 0, "valid": True,
     "reason": "", "seed": task["seed"], "tries": 1, "figures": [1.0] * vms}
    for scheme in experiment["schemes"] for load in experiment["workloads"]
    for vms in experiment["vms"]]))
"""
"""Stands for lab.sweep.unit: looks at what has arrived, and makes its figures up."""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def start(workers: int, caches: bool = False) -> Cluster:
        made.append(Cluster(tmp_path / f"cluster{len(made)}", workers, caches))
        return made[-1]

    yield start
    for process in (process for one in made for process in one.processes):
        process.kill()
        process.wait()


def test_a_killed_worker_and_a_killed_scheduler_lose_nothing(
        tmp_path: Path, started: Callable[..., Cluster]) -> None:
    first = started(2)
    command = Command(tmp_path, first.address, seeds=SEEDS)
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
    again = Command(tmp_path, second.address, seeds=SEEDS)
    assert {row.unit for row in again.store.rows.values()} == kept, "all of it was on the disk"
    again.whole()
    assert not kept & {*second.played()}, "nothing that was kept was made again"
    assert max(Counter(second.played()).values()) == 1
    assert len(again.workers()) == 4


def broken(task: dict[str, Any]) -> dict[str, Any]:
    """One unit of seed 3 kills its worker, those of seed 4 fail by themselves."""
    if task["seed"] == 3 and len(task["experiment"]["schemes"]) == 1:
        ctypes.CDLL(None)._exit(1)
    if task["seed"] == 4:
        raise RuntimeError("the host did not boot")
    return sweeping.play(task)


def test_what_fails_for_good_is_a_row_and_stops_nothing(tmp_path: Path) -> None:
    """On workers of the command's own, which come back after each death."""
    command = Command(tmp_path, play=broken, seeds=5)
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


@pytest.fixture
def needs(tmp_path: Path) -> list[artifacts.Artifact]:
    """What a unit needs, where no worker sees the client's files."""
    lab = tmp_path / "source/lab/sweep"
    lab.mkdir(parents=True)
    for name, text in (("../__init__.py", ""), ("__init__.py", ""), ("unit.py", UNIT)):
        (lab / name).write_text(text)
    (tmp_path / "kernel").write_text("bzImage")
    (tmp_path / "firmware").mkdir()
    (tmp_path / "firmware/bios").write_bytes(bytes(3000))
    found = [artifacts.artifact("lab", tmp_path / "source"),
             *(artifacts.artifact(name, tmp_path / name) for name in ("kernel", "firmware"))]
    return [replace(one, signature=[0, 0, 0]) for one in found]


def test_artifacts_reach_each_cache_once(
        tmp_path: Path, needs: list[artifacts.Artifact],
        started: Callable[..., Cluster]) -> None:
    """A second command has nothing to send."""
    def command(seeds: int, address: str) -> Counter[str]:
        said = sweeping.Said()
        Command(tmp_path, address, seeds=seeds, play=worker.play, progress=said,
                needs=needs).whole()
        return Counter(line.rpartition(",")[0] for line in said.lines)

    first = started(2, caches=True)
    size = sum(file.stat().st_size for file in (tmp_path / "source").rglob("*.py")) / 1e6
    assert command(3, first.address) == {
        f"sending lab, {size:.1f} MB": 2, "sending kernel, 0.0 MB": 2,
        "sending firmware, 0.0 MB": 2}
    for place in range(2):
        assert {path.name for path in (first.file.parent / f"cache{place}").iterdir()} == {
            "tmp", *(f"artifact-{one.digest}" for one in needs)}
    assert not command(6, first.address)
