# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the kernel and of models of which each commit runs some."""

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


def collected(folder: str, *arguments: str) -> set[str]:
    """Names of the tests of a folder that pytest would run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", f"tests/{folder}", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if line.startswith("tests/")}


def test_what_a_commit_leaves_out_is_run_elsewhere() -> None:
    """By `make soak`, and by whoever asks for the tests without --sample."""
    usual = collected("kernel")
    sample = collected("kernel", "--sample")
    left = usual - sample
    assert sample < usual and len(left) >= 15
    assert left <= collected("kernel", "--soak", "1")


def test_those_that_share_guests_are_left_out_together() -> None:
    """What takes long is to boot them."""
    sharing = "::test_every_lock_", "::test_every_wait_is_traced"
    found = [one for one in collected("kernel", "--sample") if any(name in one for name in sharing)]
    assert len(found) in (0, 6), found


def test_mutants_of_models_are_left_out_and_models_are_not() -> None:
    usual = collected("models")
    left = usual - collected("models", "--sample")
    assert len(left) >= 100 and all("test_each_mutation" in one for one in left)


def test_make_test_samples_and_make_soak_does_not() -> None:
    for name in ("kernel", "kernel-vt", "models"):
        (stage,) = [stage for stage in run_all.stages() if stage.name == name]
        assert "--sample" in stage.command
    for stage in run_all.soak_stages(1):
        assert "--sample" not in stage.command
    assert {"kernel", "models"} <= {stage.name for stage in run_all.soak_stages(1)}


def test_what_is_left_out_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-v", "--sample",
         "tests/kernel/test_torture.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "left to other commits and to make soak:" in done.stdout
