# SPDX-License-Identifier: GPL-2.0-only
from collections import Counter
from dataclasses import replace

import pytest

from lab.core.model import Experiment, GuestRun, RunRecord, Scheme, Workload
from lab.plan import schedule

WORK = Workload("w", "", "true", "time", "s", "lower", "", 10)
WHAT = Experiment(
    "e", "", (Scheme("a", "", label="a"), Scheme("b", "", label="b"), Scheme("a", "", label="a:2")),
    (WORK, replace(WORK, name="x")), (1, 3), 2, 2, reps=4, boots=2)


def record(run: schedule.PlannedRun, attempt: int, valid: bool) -> RunRecord:
    return RunRecord(run.run_id(attempt), 0, run.rep, attempt, run.scheme, run.workload, run.vms,
                     2, 2, valid, "" if valid else "bad", (), 1.0)


def test_every_cell_gets_its_runs() -> None:
    runs = schedule.plan(WHAT, 7)
    cells = Counter((run.scheme, run.workload, run.vms) for run in runs)
    assert len(cells) == 12 and set(cells.values()) == {8}
    assert len({run.key for run in runs}) == len(runs) == 96
    assert all("/" not in run.key and ":" not in run.key for run in runs)
    assert [run.boot for run in runs] == sorted(run.boot for run in runs)


def test_schemes_interleave_in_changing_order() -> None:
    runs = schedule.plan(WHAT, 7)
    groups = [runs[i:i + 3] for i in range(0, len(runs), 3)]
    for group in groups:
        assert {run.scheme for run in group} == {"a", "b", "a:2"}
        assert len({(run.workload, run.vms, run.rep, run.boot) for run in group}) == 1
    assert len({group[0].scheme for group in groups}) == 3


def test_the_seed_decides() -> None:
    assert schedule.plan(WHAT, 7) == schedule.plan(WHAT, 7) != schedule.plan(WHAT, 8)


def test_remaining_and_attempts() -> None:
    runs = schedule.plan(WHAT, 1)
    records = [record(runs[0], 0, False), record(runs[0], 1, True), record(runs[1], 0, False)]
    assert schedule.remaining(runs, records) == list(runs[1:])
    counts = schedule.attempts(records)
    assert (counts[runs[0].key], counts[runs[1].key], counts[runs[2].key]) == (2, 1, 0)


@pytest.mark.parametrize(("spans", "share"), [
    ([(0.0, 10.0), (0.0, 4.0)], 1.0),
    ([(0.0, 10.0), (5.0, 15.0)], 0.75),
    ([(0.0, 4.0), (6.0, 10.0)], 0.5),
    ([(0.0, 4.0), (None, None)], 0.0),
    ([(0.0, None), (0.0, 4.0)], 0.0),
    ([], 0.0),
])
def test_overlap(spans: list[tuple[float | None, float | None]], share: float) -> None:
    guests = [GuestRun(str(i), b, e, 1.0, 0, "") for i, (b, e) in enumerate(spans)]
    assert schedule.overlap(guests) == pytest.approx(share)
