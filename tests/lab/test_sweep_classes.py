# SPDX-License-Identifier: GPL-2.0-only
"""Cluster classes by name: options, refusals, and workers that went away."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from dask import config as dask_config
from distributed import Scheduler, Status
from distributed.deploy.spec import ProcessInterface, SpecCluster

from lab.core.errors import LabError, UsageError
from lab.sweep import cluster, execute
from tests.lab import sweeping
from tests.lab.clusters import wait
from tests.lab.test_sweep_campaign import campaign

SCHEDULER = {"cls": Scheduler, "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"}}


class NoPartition(ProcessInterface):
    """A worker whose job the batch system refuses."""

    def __init__(self, address: str, name: str = "") -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            scheduler=address, name=name)

    async def start(self) -> None:
        raise RuntimeError("Exit code: 1\nstderr:\nsbatch: error: invalid partition: nope")


def refused(**options: Any) -> SpecCluster:
    """As distributed.SSHCluster, a function that makes a cluster."""
    return SpecCluster(  # type: ignore[no-untyped-call]
        scheduler=SCHEDULER, worker={"cls": NoPartition}, **options)


def fixed(**_options: Any) -> SpecCluster:
    return SpecCluster(  # type: ignore[no-untyped-call]
        workers={0: {"cls": "distributed.Worker"}}, scheduler=SCHEDULER)


def unpackaged(**_options: Any) -> SpecCluster:
    try:
        raise ImportError("Please install asyncssh using pip or conda.")
    except ImportError as error:
        raise RuntimeError("Cluster failed to start: install asyncssh.") from error


HERE = __name__


@pytest.mark.parametrize(("name", "workers", "wrong", "said"), [
    ("SLURMCluster", 2, UsageError, "has no module: name it as dask_jobqueue.SLURMCluster"),
    ("no_such.Cluster", 2, UsageError, r"install its package with .*/bin/pip"),
    ("distributed.SSHClustr", 2, UsageError, "has no SSHClustr, did you mean 'SSHCluster'"),
    ("builtins.dict", 2, UsageError, "is no cluster class of Dask"),
    (f"{HERE}.refused", 2, LabError, "could not start its workers: .* invalid partition: nope"),
    (f"{HERE}.refused", 0, UsageError, "has no workers unless told: add --workers N"),
    (f"{HERE}.fixed", 2, UsageError, "has the workers that its options say"),
    (f"{HERE}.unpackaged", 2, LabError, r"install asyncssh\. The command is .*/bin/pip install"),
])
def test_a_cluster_that_cannot_be_had_is_told_in_a_line(
        name: str, workers: int, wrong: type[LabError], said: str,
        capfd: pytest.CaptureFixture[str]) -> None:
    """At once, before anything waits for its workers, and without Dask's tracebacks."""
    with pytest.raises(wrong, match=said) as found, cluster.connect(cls=name, workers=workers):
        pass
    assert type(found.value) is wrong and "\n" not in str(found.value)
    assert capfd.readouterr() == ("", "")


def test_options_of_a_class_are_what_it_wants(tmp_path: Path) -> None:
    """SSHCluster has a list and a table, which come as they are."""
    text = """
[cluster]
hosts = ["a", "b"]
worker_options = { nthreads = 1 }
"""
    sweep = sweeping.load(tmp_path, sweeping.FILE + sweeping.HOST + text)
    assert sweep.cluster == {"hosts": ["a", "b"], "worker_options": {"nthreads": 1}}


def test_a_worker_that_went_away_is_started_anew() -> None:
    """A batch system ends jobs in the end; `scale` alone would never ask for others."""
    options = {"processes": False, "dashboard_address": ":0"}
    with (dask_config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
          cluster.connect(cls="distributed.LocalCluster", options=options, workers=1) as client):
        client.wait_for_workers(1)
        made = cast("SpecCluster", client.cluster)
        assert cluster.renew(client) == "" and len(made.workers) == 1
        (first,) = made.workers.values()
        made.sync(first.close)  # type: ignore[no-untyped-call]
        wait(lambda: not made.workers)
        assert cluster.renew(client) == ""
        client.wait_for_workers(1, timeout=20)
        assert [*made.workers.values()] != [first]
        assert {one.status for one in made.workers.values()} == {Status.running}


def test_a_slow_start_of_workers_is_not_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep goes on meanwhile, and is told in the end what hindered it."""
    begun: list[object] = []

    async def slow(made: object) -> None:
        begun.append(made)
        await asyncio.sleep(0.5)
        raise RuntimeError("sbatch: error: down")

    monkeypatch.setattr(cluster, "BEGUN_S", 0.01)
    with (dask_config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
          cluster.connect(cls="distributed.LocalCluster", workers=1,
                          options={"processes": False, "dashboard_address": ":0"}) as client):
        client.wait_for_workers(1)
        made = cast("SpecCluster", client.cluster)
        (first,) = made.workers.values()
        made.sync(first.close)  # type: ignore[no-untyped-call]
        wait(lambda: not made.workers)
        monkeypatch.setattr(cluster, "_complete", slow)
        assert [cluster.renew(client) for _ in range(3)] == [""] * 3
        wait(lambda: cluster.renew(client) == "sbatch: error: down")
        assert begun == [made]


def test_the_user_is_told_that_no_worker_comes(tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with what to look at; what hinders new workers is told once, too."""
    for name in ("NOBODY_S", "LOOK_S", "RENEW_S"):
        monkeypatch.setattr(execute, name, 0.01)
    monkeypatch.setattr(cluster, "renew", lambda client: "sbatch: error: down")
    monkeypatch.setattr(sweeping.Client, "nthreads", lambda client: {})
    said = sweeping.Said()
    one = campaign(tmp_path, play=lambda task: {"lacks": [], "worker": ""})
    replace(one, progress=said).make(sweeping.runs(tmp_path)[:2])
    assert Counter(line.partition(":")[0] for line in said.lines) == {
        "a worker could not be started anew": 1, f"no worker is there for {0.01:.0f} s": 1}
