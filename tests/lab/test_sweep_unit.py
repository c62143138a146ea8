# SPDX-License-Identifier: GPL-2.0-only
"""What a unit of a sweep answers, from the result directory that it was played in."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.core.model import BootRecord, Experiment, GuestRun, RunRecord
from lab.run import records
from lab.sweep import grid, unit
from lab.sweep.unit import Outcome
from tests.lab import sweeping
from tests.lab.test_sweep_hunt import HUNT

LOST = "the host was silent for 80 s after it was asked to round"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Three seeds of one boot."""
    sweep = sweeping.load(tmp_path, HUNT.replace("seeds = 10", "seeds = 3"), "hunt")
    return grid.experiment(sweep, grid.units(grid.runs(sweep, sweeping.BUILD), (), 24)[0])


def run(folder: Path, seed: int, host: int, reason: str = "", attempt: int = 0,
        begun: bool = True) -> None:
    """A try at the run of races-wake for a seed, on a host with that number."""
    guests = []
    for name in ("s0-0", "s0-1"):
        output = f"{name}-{seed}-{attempt}.out"
        (folder / output).write_text("time: 2.5 s\n")
        guests.append(GuestRun(name, 1.0, 2.0, 1.0, 0, output))
    records.append(folder / records.RUNS, RunRecord(
        f"b{seed}-r0-races-wake-v2-s0-a{attempt}", host, 0, attempt, "s0", "races-wake", 2, 3, 4,
        not reason, reason, tuple(guests), 1.0, seed=5000 + host if begun else None))


def ended(folder: Path, host: int, reason: str = "", guest: str = "") -> None:
    records.append(folder / records.BOOTS,
                   BootRecord(host, guest, "s0" if guest else "", not reason, reason, 1.0))


def told(folder: Path, experiment: Experiment, hunt: bool = True) -> Sequence[Outcome]:
    return unit.outcomes(folder, experiment, hunt)


def test_a_run_is_of_the_seed_that_it_was_planned_for(
    tmp_path: Path, experiment: Experiment,
) -> None:
    """A host that takes a lost one's place has a number of its own, as have those after it."""
    run(tmp_path, 0, 0, LOST)
    run(tmp_path, 0, 1, attempt=1)
    run(tmp_path, 1, 2)
    run(tmp_path, 2, 3, LOST)
    found = told(tmp_path, experiment)
    assert [(one.boot, one.valid, one.seed, one.tries, one.reason) for one in found] == [
        (0, True, 5001, 2, ""), (1, True, 5002, 1, ""), (2, False, 5003, 1, LOST)]
    assert found[0].figures == (2.5, 2.5) and found[2].figures == ()


def test_a_run_that_was_not_tried_has_no_tries(tmp_path: Path, experiment: Experiment) -> None:
    run(tmp_path, 0, 0, "the runs of this cell before it failed altogether", begun=False)
    (found,) = told(tmp_path, experiment)
    assert (found.seed, found.tries, found.valid) == (None, 0, False)


@pytest.mark.parametrize("hunt", [True, False])
@pytest.mark.parametrize(("guest", "reason"), [
    ("s0-1", "the log of guest s0-1 says: WARNING: CPU: 1"),
    ("", "the host's console says: BUG: KASAN: use-after-free"),
])
def test_what_a_boot_shows_at_its_end_is_found(
    tmp_path: Path, experiment: Experiment, guest: str, reason: str, hunt: bool,
) -> None:
    """After its last run, which was valid; a sweep that measures keeps that run."""
    run(tmp_path, 0, 0)
    ended(tmp_path, 0, reason, guest)
    run(tmp_path, 1, 1)
    ended(tmp_path, 1)
    first, second = told(tmp_path, experiment, hunt)
    assert (first.valid, first.reason) == ((False, reason) if hunt else (True, ""))
    assert second.valid and not second.reason


def test_a_run_that_failed_keeps_its_reason(tmp_path: Path, experiment: Experiment) -> None:
    """Also where its host was ended for that."""
    run(tmp_path, 0, 0, "guest s0-0 did not end its run within 20 s")
    ended(tmp_path, 0, "2 guests failed in this boot")
    (found,) = told(tmp_path, experiment)
    assert found.reason == "guest s0-0 did not end its run within 20 s"


def test_what_takes_unmeasured_runs(tmp_path: Path, experiment: Experiment) -> None:
    """A guest of several settings, and of a sweep that measures."""
    assert not experiment.share and experiment.reps == 1
    sweep = sweeping.load(tmp_path, HUNT[:HUNT.index("[hunt]")])
    for one in grid.units(grid.runs(sweep, sweeping.BUILD), (), 24):
        assert grid.experiment(sweep, one).share
    sweep = sweeping.load(tmp_path, HUNT.replace('"guest-all-pv"', '"guest-all-slow"'))
    assert all(len(grid.experiment(sweep, one).share) == 2
               for one in grid.units(grid.runs(sweep, sweeping.BUILD), (), 24))
