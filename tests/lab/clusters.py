# SPDX-License-Identifier: GPL-2.0-only
"""A real Dask scheduler with workers, each a process on the loopback, and sweeps on clusters."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lab.core.progress import Progress, Silent
from lab.sweep import cluster, grid
from lab.sweep.artifacts import Artifact
from lab.sweep.campaign import Campaign, Prepared
from lab.sweep.execute import Play
from lab.sweep.store import Store
from tests.lab import sweeping

LIMIT_S = 120
DASK = (sys.executable, "-P", "-m", "dask")


class Cluster:
    """A scheduler and its workers, each a process on the loopback."""

    def __init__(self, folder: Path, workers: int, caches: bool = False) -> None:
        """With `caches` each worker has one of its own, else all have the client's."""
        folder.mkdir()
        self.log = folder / "played"
        self.file = folder / "scheduler.json"
        self._folder = folder
        self.processes = [self._start("scheduler", "--host", "127.0.0.1", "--port", "0",
                                      "--no-dashboard", "--scheduler-file", str(self.file))]
        wait(self.file.exists)
        self.processes += [self._start(
            "worker", "--scheduler-file", str(self.file), "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--local-directory", str(folder / f"w{place}"),
            **({"PVSYNC_CACHE": str(folder / f"cache{place}")} if caches else {}))
            for place in range(workers)]

    def _start(self, *words: str, **environment: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{words[0]}.log").open("ab") as log:
            return subprocess.Popen([*DASK, *words], stdout=log, stderr=log, cwd=self._folder,
                                    env={**os.environ, sweeping.LOG: str(self.log),
                                         **environment})

    def kill(self, place: int) -> None:
        self.processes[place].send_signal(signal.SIGKILL)
        self.processes[place].wait()

    def played(self) -> list[str]:
        """Keys of units in the order in which workers began them."""
        return self.log.read_text().split() if self.log.exists() else []

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])


class Command(threading.Thread):
    """What `./pvsync sweep` does, once it has something to boot."""

    def __init__(  # noqa: PLR0913 (what a test may choose, each by name)
            self, folder: Path, scheduler: str = "", *, seeds: int, cls: str = "",
            options: Mapping[str, Any] | None = None, workers: int = 0, play: Play = sweeping.play,
            progress: Progress | None = None, needs: Sequence[Artifact] = ()) -> None:
        super().__init__(daemon=True)
        self.store = Store(folder / "out", alone=True)
        self.sweep = sweeping.load(folder, sweeping.FILE.replace("seeds = 3", f"seeds = {seeds}")
                                   + sweeping.HOST)
        self.runs = grid.runs(self.sweep, sweeping.BUILD)
        self.ended: BaseException | None = None
        self._connect = partial(cluster.connect, scheduler, cls, options, workers)
        self._play, self._progress = play, progress or Silent()
        self._prepared = Prepared(sweeping.BUILD, tuple(needs), {})
        self.start()

    def run(self) -> None:
        try:
            with self._connect() as self._client:
                Campaign(self.sweep, self._prepared, self.store, self._client, self._progress,
                         play=self._play).make(self.runs)
        except BaseException as error:
            self.ended = error

    def units(self) -> set[str]:
        """Those that are kept."""
        return {row.unit for row in list(self.store.rows.values())}

    def workers(self) -> set[str]:
        """Those that made them."""
        return {row.worker for row in list(self.store.rows.values())}

    def stop(self) -> None:
        """It ends as when the scheduler is lost."""
        self._client.close()  # type: ignore[no-untyped-call]
        self.join(LIMIT_S)

    def whole(self) -> None:
        """It ends by itself, and each run has one row, which is valid."""
        self.join(LIMIT_S)
        assert self.ended is None and not self.is_alive(), self.ended
        wanted = {run.key for run in self.runs}
        parts = [key for part in self.store.parts.glob("*.parquet")
                 for key in pq.read_table(part)["key"].to_pylist()]
        assert Counter(parts) == Counter(wanted), "each run has one row"
        assert all(row.valid for row in self.store.rows.values())


def wait(until: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT_S
    while not until():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
