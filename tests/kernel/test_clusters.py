# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps by SSHCluster and by SLURMCluster, whose units take 30 ms and make their figures up.

An SSH server and a Slurm of one node are started for that, and packages are fetched from PyPI, so
it is for --soak. No kernel is booted.
"""

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask import config as dask_config

from lab.core.errors import LabError
from lab.sweep import execute
from tests.kernel import daemons
from tests.lab import sweeping
from tests.lab.clusters import LIMIT_S, Command, wait

pytestmark = pytest.mark.soak
SEEDS = 60
SLURM = "dask_jobqueue.SLURMCluster"


@pytest.fixture(autouse=True, scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(daemons.install(tmp_path_factory.mktemp("packages")))
        importlib.import_module("dask_jobqueue")  # takes signals: no thread may
        yield


@pytest.fixture
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with daemons.ssh(tmp_path_factory.mktemp("ssh")) as found:
        yield found


def hosts(connection: dict[str, Any], workers: int) -> dict[str, Any]:
    """[cluster] of docs/sweeps.md: the first host has the scheduler."""
    return {"hosts": ["127.0.0.1"] * (1 + workers), "connect_options": connection,
            "worker_options": {"nthreads": 1, "death_timeout": 60},
            "scheduler_options": {"dashboard": False, "idle_timeout": "1 hour"}}


def test_a_sweep_by_ssh(tmp_path: Path, connection: dict[str, Any]) -> None:
    command = Command(tmp_path, seeds=SEEDS, cls="distributed.SSHCluster",
                      options=hosts(connection, 2))
    command.whole()
    assert len(command.workers()) == 2


@pytest.mark.parametrize(("change", "said"), [
    ({"port": 9}, "Connect call failed"), ({"client_keys": []}, "Permission denied"),
    ({"known_hosts": "/dev/null"}, "Host key is not trusted")])
def test_a_host_that_lets_nobody_in_is_told(tmp_path: Path, connection: dict[str, Any],
                                            change: dict[str, Any], said: str) -> None:
    command = Command(tmp_path, seeds=1, cls="distributed.SSHCluster",
                      options=hosts({**connection, **change, "agent_path": None}, 1))
    command.join(LIMIT_S)
    assert isinstance(command.ended, LabError) and said in str(command.ended)


class Queue:
    """A Slurm, and the sweeps that get workers of it."""

    def __init__(self, config: Path, folder: Path) -> None:
        self._config, self._folder = config, folder
        self.log = folder / "played"

    def options(self, **others: Any) -> dict[str, Any]:
        """[cluster] of docs/sweeps.md."""
        return {"queue": "all", "cores": 1, "processes": 1, "memory": "500MB",
                "walltime": "00:10:00", "interface": "lo",
                "log_directory": str(self._folder / "logs"),
                "scheduler_options": {"dashboard_address": ":0"},
                "job_script_prologue": [f"export {sweeping.LOG}={self.log}"], **others}

    def jobs(self) -> set[str]:
        """Those that run."""
        return {*daemons.said(self._config, "squeue", "-h", "-t", "R", "-o", "%i").split()}

    def all_jobs(self) -> set[str]:
        return {*daemons.said(self._config, "squeue", "-h", "-o", "%i").split()}

    def cancel(self, *jobs: str) -> None:
        daemons.said(self._config, "scancel", *jobs)


@pytest.fixture
def queue(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
          tmp_path: Path) -> Iterator[Queue]:
    with daemons.slurm(tmp_path_factory.mktemp("slurm")) as config:
        monkeypatch.setenv("SLURM_CONF", str(config))
        yield Queue(config, tmp_path)


def test_a_sweep_by_slurm_whose_jobs_are_cancelled(
        tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """First one of its two jobs, then all that there are: others take their place."""
    monkeypatch.setattr(execute, "RENEW_S", 1)
    monkeypatch.setenv(sweeping.UNIT_S, "0.2")  # so that a job is at a unit when it is cancelled
    with dask_config.set({"distributed.deploy.lost-worker-timeout": "500ms"}):
        command = Command(tmp_path, seeds=SEEDS, cls=SLURM, options=queue.options(), workers=2)
        wait(lambda: len(command.workers()) == 2)
        first = queue.jobs()
        queue.cancel(min(first))
        wait(lambda: len(command.workers()) == 3)
        second = queue.jobs()
        assert len(first | second) == 3
        queue.cancel(*second)
        wait(lambda: not queue.jobs() & second)
        kept = len(command.units())
        command.whole()
    assert kept < len(command.units()) == 2 * SEEDS
    assert len(command.workers()) >= 4
    played = Counter(queue.log.read_text().split())
    assert {*played} == command.units() and 1 <= sum(count > 1 for count in played.values()) <= 3
    wait(lambda: not queue.all_jobs())


def test_a_partition_that_does_not_exist_is_told(tmp_path: Path, queue: Queue) -> None:
    command = Command(tmp_path, seeds=1, cls=SLURM, options=queue.options(queue="nope"), workers=2)
    command.join(LIMIT_S)
    assert isinstance(command.ended, LabError) and "\n" not in str(command.ended)
    assert f"{SLURM} could not start its workers" in str(command.ended)
    assert "Invalid partition name specified" in str(command.ended)


def test_workers_that_end_at_once_are_told_of(tmp_path: Path, queue: Queue,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """The command waits on, as for a queue that is long; its message says what to look at."""
    monkeypatch.setattr(execute, "NOBODY_S", 2)
    said = sweeping.Said()
    command = Command(tmp_path, seeds=1, cls=SLURM, workers=1, progress=said,
                      options=queue.options(python="/no/such/python"))
    wait(lambda: said.lines)
    assert "its queue and their logs tell" in said.lines[0] and command.is_alive()
    logs = [path.read_text() for path in (tmp_path / "logs").glob("*.err")]
    assert len(logs) == 1 and "/no/such/python: No such file" in logs[0]
    command.stop()
    wait(lambda: not queue.all_jobs())
