# SPDX-License-Identifier: GPL-2.0-only
"""A real Dask scheduler with workers, each a process on the loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab import sweeping

LIMIT_S = 120
DASK = (sys.executable, "-P", "-m", "dask")


class Cluster:
    """A scheduler and its workers, each a process on the loopback."""

    def __init__(self, folder: Path, workers: int) -> None:
        folder.mkdir()
        self.log = folder / "played"
        self.file = folder / "scheduler.json"
        self._folder = folder
        self.processes = [self._start("scheduler", "--host", "127.0.0.1", "--port", "0",
                                      "--no-dashboard", "--scheduler-file", str(self.file))]
        wait(self.file.exists)
        self.processes += [self._start(
            "worker", "--scheduler-file", str(self.file), "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--local-directory", str(folder / f"w{place}"))
            for place in range(workers)]

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{words[0]}.log").open("ab") as log:
            return subprocess.Popen([*DASK, *words], stdout=log, stderr=log, cwd=self._folder,
                                    env={**os.environ, sweeping.LOG: str(self.log)})

    def kill(self, place: int) -> None:
        self.processes[place].send_signal(signal.SIGKILL)
        self.processes[place].wait()

    def played(self) -> list[str]:
        """Keys of units in the order in which workers began them."""
        return self.log.read_text().split() if self.log.exists() else []

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])


def wait(until: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT_S
    while not until():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
