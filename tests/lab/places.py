# SPDX-License-Identifier: GPL-2.0-only
"""Labs as processes of their own, on fakes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.core.model import RunRecord
from lab.run import records

PVSYNC = Path(__file__).parent / "fake" / "pvsync.py"
EXPERIMENT = """\
about = "two schemes on fakes"
schemes = ["ticket", "pmt"]
workloads = ["hackbench"]
vms = [1]
vcpus = 2
pcpus = 2
reps = 2
boots = 1
guest_mem = 64
max_repeats = 4
"""
LIMIT = 60.0
"""Seconds for what takes a few."""


class Place:
    """Where labs run as processes of their own, with guests that are fakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.tmp = folder / "tmp"
        self.go = folder / "go"
        """Once it is there, `waiting` waits no more."""
        self.tmp.mkdir()
        (folder / "x.toml").write_text(EXPERIMENT)
        self.labs: list[subprocess.Popen[str]] = []

    def command(self, *arguments: str, cmd: str = "sleep 0.3") -> list[str]:
        """A lab's command line: what it is given, where its results are, what guests do."""
        return [sys.executable, str(PVSYNC), "run", str(self.folder / "x.toml"), "--cmd", cmd,
                *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.tmp)}

    def start(self, *arguments: str, cmd: str = "sleep 0.3",
              ignored: signal.Signals | None = None) -> subprocess.Popen[str]:
        """A lab; it inherits that a signal is ignored, as a background job does."""
        def prepare() -> None:
            if ignored is not None:
                signal.signal(ignored, signal.SIG_IGN)
        one = subprocess.Popen(self.command(*arguments, cmd=cmd), env=self.environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=prepare)  # noqa: PLW1509 (no threads here)
        self.labs.append(one)
        return one

    def run(self, *arguments: str, cmd: str = "sleep 0.3") -> tuple[int, str]:
        """Status and standard error of a lab that ends by itself."""
        one = self.start(*arguments, cmd=cmd)
        _, errors = one.communicate(timeout=LIMIT)
        return one.returncode, errors

    def waiting(self) -> str:
        """A guest's command that does not end in the third run, nor later, before `go`.

        Shells alone, which are no machines; they end with the folder, too.
        """
        return (f"sleep 0.3; while {{ read a && read b; }} <{self.out}/{records.RUNS}"
                f" && [ ! -e {self.go} ]; do sleep 0.1; done")

    def runs(self) -> list[RunRecord]:
        return records.runs(self.out)

    def folders(self) -> list[str]:
        """Those for the time that a lab runs."""
        return sorted(one.name for one in self.tmp.iterdir())

    def begun(self) -> int:
        """How many guests said that a measured command has started."""
        logs = self.out.glob("boots/*/host-control.log")
        return sum(log.read_text(errors="replace").count('"op": "round"') for log in logs)

    def close(self) -> None:
        for one in self.labs:
            if one.poll() is None:
                one.kill()
            one.communicate()
        shutil.rmtree(self.folder)


@pytest.fixture
def place() -> Iterator[Place]:
    """Short, for sockets' paths."""
    one = Place(Path(tempfile.mkdtemp(prefix="faults-")))
    yield one
    one.close()


def one_sentence(errors: str) -> str:
    """The last thing that the lab said; there must be no traceback."""
    assert "Traceback" not in errors and "Exception" not in errors, errors
    said = [line for line in errors.splitlines() if line.startswith("pvsync: ")]
    assert len(said) == 1, errors
    return said[0]
