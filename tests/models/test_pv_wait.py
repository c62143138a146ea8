# SPDX-License-Identifier: GPL-2.0-only
"""The model of wait and kick: exhaustive as it is, and wrong after each mutation."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("pv_wait.pml")
CC = ("gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-o", "pan", "pan.c")
BOUNDS = {"pv-pmt": ("-DTICKET=0", "-DFIRST=2", "-DOTHERS=1"), "pv-ticket": ("-DTICKET=1",)}
LOST = "invalid end state"
TWO_OWNERS = "assertion violated (owners==1)"
MUTATIONS = [
    ("pv-pmt", "NO_MB1", LOST), ("pv-ticket", "NO_MB1", LOST),
    ("pv-pmt", "NO_MB2", LOST), ("pv-ticket", "NO_MB2", LOST),
    ("pv-pmt", "NO_ANNOUNCE", LOST), ("pv-ticket", "NO_ANNOUNCE", LOST),
    ("pv-pmt", "TAKE_FAST", LOST), ("pv-ticket", "TAKE_FAST", LOST),
    ("pv-pmt", "NO_KICK", LOST), ("pv-ticket", "NO_KICK", LOST),
    ("pv-pmt", "NO_RECHECK", LOST), ("pv-ticket", "NO_RECHECK", LOST),
    ("pv-pmt", "KEEP_MARK", LOST), ("pv-ticket", "WAKE_ANY", LOST),
    ("pv-pmt", "TAKE_OWNED", TWO_OWNERS), ("pv-ticket", "TAKE_OWNED", TWO_OWNERS),
]


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


def verify(folder: Path, *defines: str) -> Verdict:
    """Generate, compile and run the verifier in an empty folder."""
    subprocess.run(["spin", *defines, "-a", MODEL], cwd=folder, check=True, capture_output=True)
    subprocess.run(CC, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["./pan", "-m1000000", "-w24"], cwd=folder, check=True,
                          capture_output=True, text=True, timeout=900)
    return verdict(done.stdout)


@pytest.mark.parametrize("lock", BOUNDS)
def test_no_waiter_sleeps_for_ever(lock: str, tmp_path: Path) -> None:
    found = verify(tmp_path, *BOUNDS[lock])
    assert found.errors == 0, found.first
    assert found.complete
    print(f"[{lock}: {found.states} states]", end=" ")
    assert found.states > 100_000  # a model that cannot move passes as well


@pytest.mark.parametrize(("lock", "mutation", "error"), MUTATIONS)
def test_each_mutation_is_found(lock: str, mutation: str, error: str, tmp_path: Path) -> None:
    found = verify(tmp_path, *BOUNDS[lock], f"-D{mutation}")
    assert found.errors
    assert found.first == error
