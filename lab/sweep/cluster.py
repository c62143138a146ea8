# SPDX-License-Identifier: GPL-2.0-only
"""The Dask cluster that a sweep runs on: this machine's cores, a scheduler, or a class by name."""

import asyncio
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import dask
import psutil
from distributed import Client, LocalCluster, Status
from distributed.deploy.cluster import Cluster
from distributed.deploy.spec import SpecCluster

from lab.core.decode import suggest
from lab.core.errors import LabError, UsageError

CONNECT_S = 20
UNIT_MIB = 3000
"""Memory that a host takes, for the number of workers on this machine, unless told."""
CONFIG = {
    **{f"distributed.worker.memory.{what}": False for what in ("pause", "spill", "terminate")},
    "distributed.scheduler.allowed-failures": 0,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "500ms",
}
"""Of clusters that are started here: workers take next to no memory themselves, how often one may
die is counted by `execute`, and Dask watches itself seldom, as emulators need the CPUs."""
LOGGERS = ("distributed", "tornado.application", "asyncio")
"""They would tell in tracebacks of what is told here."""
PIP = "$(./pvsync venv sweep)/bin/pip"
BEGUN_S = 1.0
"""So long a start of workers is waited for, before others of the sweep go on."""

_renewals: WeakKeyDictionary[SpecCluster, Future[None]] = WeakKeyDictionary()
"""What has workers started anew. It is never broken off: Dask would not know of those that were
asked for already, and ask for them once more."""


@contextmanager
def connect(scheduler: str = "", cls: str = "", options: Mapping[str, Any] | None = None,
            workers: int = 0, unit_mib: int = UNIT_MIB) -> Iterator[Client]:
    """A client; what was started for it ends with the block.

    `scheduler` is the address of one that runs; `cls` is a class such as
    `dask_jobqueue.SLURMCluster`, which gets the options; without both it is this machine.
    """
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", r"Port \d+ is already in use", UserWarning)  # of a dashboard
    with dask.config.set(CONFIG):
        if scheduler:
            cluster = None
        elif cls:
            cluster = _started(cls, options or {}, workers)
        else:
            cluster = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=workers or room(unit_mib), threads_per_worker=1, memory_limit=0,
                dashboard_address=":0", silence_logs=logging.CRITICAL)
        try:
            client = _client(cluster if cluster is not None else scheduler)
            try:
                yield client
            finally:
                with suppress(OSError, TimeoutError):
                    client.close(timeout=3)  # type: ignore[no-untyped-call]
        finally:
            if cluster is not None:
                _close(cluster)


def room(unit_mib: int) -> int:
    """Hosts that this machine's cores and memory have room for."""
    free = psutil.virtual_memory().available >> 20
    return max(1, min(len(os.sched_getaffinity(0)), free // unit_mib))


def find(name: str) -> Callable[..., Any]:
    """A cluster class, or what makes one, by name; UsageError when there is none."""
    module, _, last = name.rpartition(".")
    if not module:
        raise UsageError(f"--cluster {name} has no module: name it as dask_jobqueue.SLURMCluster")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"there is no cluster class {name} ({error}): install its package with"
                         f" {PIP}") from None
    made = getattr(found, last, None)
    if not callable(made):
        raise UsageError(f"{module} has no {last}{suggest(last, dir(found))}")
    return made  # type: ignore[no-any-return]


def renew(client: Client) -> str:
    """Have workers that went away started anew, where the cluster was started here.

    A job may be cancelled or meet its time limit. What hinders it, or nothing. It waits for
    BEGUN_S at most; what takes longer goes on, and the next call tells what came of it.
    """
    cluster = client.cluster
    if not isinstance(cluster, SpecCluster) or cluster.status != Status.running:
        return ""
    task = _renewals.get(cluster)
    if task is None:
        begun = [one for one in cluster.workers.values() if one.status != Status.created]
        if len(begun) == len(cluster.worker_spec):
            return ""
        task = _renewals[cluster] = asyncio.run_coroutine_threadsafe(
            _complete(cluster), cluster.loop.asyncio_loop)  # type: ignore[union-attr]
    try:
        error = task.exception(BEGUN_S)
    except TimeoutError:
        return ""
    except CancelledError:
        error = None
    del _renewals[cluster]
    return _short(error) if error else ""


async def _complete(cluster: SpecCluster, workers: int = 0) -> None:
    """Start what it lacks, and raise what hinders it; `scale` alone would tell nobody."""
    if workers:
        cluster.scale(workers)  # type: ignore[no-untyped-call]
    await cluster


def _started(name: str, options: Mapping[str, Any], workers: int) -> Cluster:
    """A cluster of this class with as many workers asked for."""
    made = find(name)
    try:
        cluster = made(**options)
    except Exception as error:  # of any cluster's own kind
        raise LabError(f"{name} could not be started: {_short(error)}") from None
    if not isinstance(cluster, Cluster):
        raise UsageError(f"{name} is no cluster class of Dask")
    try:
        if isinstance(cluster, SpecCluster):
            if workers and not cluster.new_spec:
                raise UsageError(f"{name} has the workers that its options say: leave --workers"
                                 " out")
            if not (workers or cluster.worker_spec):
                raise UsageError(f"{name} has no workers unless told: add --workers N")
            cluster.sync(_complete, cluster, workers)  # type: ignore[no-untyped-call]
        elif workers:
            cluster.scale(workers)
    except LabError:
        _close(cluster)
        raise
    except Exception as error:  # of any cluster's own kind
        _close(cluster)
        raise LabError(f"{name} could not start its workers: {_short(error)}") from None
    return cluster


def _close(cluster: Cluster) -> None:
    try:
        cluster.close()
    except Exception:  # Dask's own assertion fails where a worker was never started
        if isinstance(cluster, SpecCluster):
            cluster.shutdown_on_close = False  # it would wait for that in the end


def _short(error: BaseException) -> str:
    """The error in a line; where a package is missing, how to get it."""
    text = " ".join(str(error).split()) or type(error).__name__
    cause: BaseException | None = error
    while cause and not isinstance(cause, ImportError):
        cause = cause.__cause__
    return f"{text} The command is {PIP} install." if cause else text


def _client(where: Any) -> Client:
    try:
        return Client(where, timeout=CONNECT_S)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise LabError(f"no scheduler answers at {where}: {error}") from None
