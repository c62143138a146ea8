# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the kernel of which each commit runs some."""

import subprocess
import sys

from lab.core.paths import ROOT
from tests import run_all
from tests.sampling import chosen

NAMES = [f"test_{number}" for number in range(14)]


def test_each_has_its_turn() -> None:
    """A quarter, the same each time, and all of them in sixty commits."""
    assert len(chosen(NAMES, "a")) == 4
    assert chosen(NAMES, "a") == chosen(reversed(NAMES), "a")
    assert set().union(*(chosen(NAMES, str(commit)) for commit in range(60))) == set(NAMES)
    assert chosen(["alone"], "a") == {"alone"} and chosen([], "a") == set()


def collected(*arguments: str) -> set[str]:
    """Names of the tests of the kernel that pytest would run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "tests/kernel", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line and " " not in line}


def test_what_a_commit_leaves_out_is_run_elsewhere() -> None:
    """By `make soak`, and by whoever asks for the tests without --sample."""
    usual = collected()
    sample = collected("--sample")
    left = usual - sample
    assert sample < usual and len(left) >= 9
    assert left <= collected("--soak", "1")


def test_make_test_samples() -> None:
    (stage,) = [stage for stage in run_all.stages() if stage.name == "kernel"]
    assert "--sample" in stage.command


def test_what_is_left_out_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-v", "--sample",
         "tests/kernel/test_torture.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "left to other commits and to make soak:" in done.stdout
