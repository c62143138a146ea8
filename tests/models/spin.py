# SPDX-License-Identifier: GPL-2.0-only
"""Spin: make the verifier of a model, run it, read its verdict."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CC = ("gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-o", "pan", "pan.c")


@dataclass(frozen=True)
class Verdict:
    """What Spin's verifier said."""

    errors: int
    states: int
    complete: bool
    first: str
    """The first error, empty without one."""


def verdict(output: str) -> Verdict:
    """Parse the verifier's output; a missing line is a failure of the verifier itself."""
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"^\s*(\S+) states, stored", output, re.MULTILINE)
    assert errors and states, output
    first = re.search(r"^pan:1: (.*) \(at depth \d+\)", output, re.MULTILINE)
    complete = "Search not completed" not in output and "max search depth" not in output
    return Verdict(int(errors[1]), int(float(states[1])), complete, first[1] if first else "")


def verify(model: Path, folder: Path, *defines: str) -> Verdict:
    """Generate, compile and run the verifier of a model in an empty folder."""
    subprocess.run(["spin", *defines, "-a", model], cwd=folder, check=True, capture_output=True)
    subprocess.run(CC, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["./pan", "-m1000000", "-w24"], cwd=folder, check=True,
                          capture_output=True, text=True, timeout=900)
    return verdict(done.stdout)
