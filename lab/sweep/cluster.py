# SPDX-License-Identifier: GPL-2.0-only
"""The Dask cluster that a sweep runs on: this machine's cores, a scheduler, or a class by name."""

import importlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import dask
import psutil
from distributed import Client, LocalCluster

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


@contextmanager
def connect(scheduler: str = "", cls: str = "", options: Mapping[str, Any] | None = None,
            workers: int = 0, unit_mib: int = UNIT_MIB) -> Iterator[Client]:
    """A client; what was started for it ends with the block.

    `scheduler` is the address of one that runs; `cls` is a class such as
    `dask_jobqueue.SLURMCluster`, which gets the options; without both it is this machine.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(CONFIG):
        if scheduler:
            cluster = None
        elif cls:
            cluster = _class(cls)(**(options or {}))
            if workers:
                cluster.scale(workers)
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
                with suppress(OSError, TimeoutError):
                    cluster.close()


def room(unit_mib: int) -> int:
    """Hosts that this machine's cores and memory have room for."""
    free = psutil.virtual_memory().available >> 20
    return max(1, min(len(os.sched_getaffinity(0)), free // unit_mib))


def _class(name: str) -> Any:
    module, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError, ValueError) as error:
        venv = "$(./pvsync venv sweep)/bin/pip"
        raise UsageError(f"there is no cluster class {name} ({error}): install its package with"
                         f" {venv}") from None


def _client(where: Any) -> Client:
    try:
        return Client(where, timeout=CONNECT_S)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise LabError(f"no scheduler answers at {where}: {error}") from None
