# SPDX-License-Identifier: GPL-2.0-only
"""How programs of our own are built and run here, and how what they print is read."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.build import userland
from lab.plan import config
from lab.run import parse
from tests.binaries import fixed_layout

LOOPS = ("munmap", "mprotect", "madvise", "fork")
"""Of tlb-loop."""
WORK = {"mmap": ("mmap-writer", "mappings"), "fault": ("fault-reader", "faults"),
        "pread": ("pread-loop", "reads")}
"""Of kernel-loop: the workload of a mode, and what it counts."""
LIMIT = 60.0
"""Seconds for what takes a few on an idle machine."""

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds a program as the lab does, or with other flags; each kind once."""
    folder = tmp_path_factory.mktemp("programs")

    def program(name: str, *flags: str) -> Path:
        target = folder / "".join((name, *flags)).replace("/", "")
        if not target.exists():
            command = [*(flags or userland.CC), "-Wextra", "-Werror", "-o", str(target),
                       str(userland.PROGRAMS / f"{name}.c"), "-lm"]
            subprocess.run(command, check=True)
        return target

    return program


def run(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*fixed_layout(), str(program), *options], capture_output=True,
                          text=True, timeout=60, check=False)


def good(program: Path, *options: str) -> str:
    done = run(program, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120,
                          check=False)


def number(output: str, name: str) -> float:
    found = re.findall(rf"(?m)^{re.escape(name)}: ([0-9.]+)(?: s)?$", output)
    assert len(found) == 1, output
    return float(found[0])


def figure(workload: str, output: str) -> float | None:
    return parse.figure(config.workloads()[workload], output, None).value
