# SPDX-License-Identifier: GPL-2.0-only
"""What a session would take, from what boots and runs took."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.plan import config, schedule
from lab.run import durations
from lab.run.durations import Durations

PLAN = replace(config.experiment("smoke"), vms=(1, 2), boots=2, reps=1)
RUNS = schedule.plan(PLAN, 1)
FIRST = [run for run in RUNS if run.boot == 0]


def test_a_boot_is_no_run() -> None:
    spent = Durations(PLAN, "tcg", "", {})
    assert spent.expected(RUNS) is None
    spent.booted(100)
    assert spent.expected(RUNS) is None, "no run was made"
    for run in FIRST:
        spent.ran(run, 10.0 * run.vms)
    second = [run for run in RUNS if run.boot == 1]
    assert spent.expected(second, up={0}) == 100 + sum(10 * run.vms for run in second)
    assert spent.expected(second, up={0, 1}) == sum(10 * run.vms for run in second)
    assert spent.expected(RUNS, jobs=8) == pytest.approx((200 + sum(10 * r.vms for r in RUNS)) / 2)
    assert spent.expected([]) == 0


def test_another_run_stands_in() -> None:
    more = Durations(replace(PLAN, vms=(9,)), "vt", "zen4", {})
    more.booted(600)
    spent = Durations(PLAN, "vt", "zen4", more.means())
    spent.booted(1)
    assert spent.expected(RUNS) is None, "a boot of more guests is no run either"
    one, two = (next(run for run in RUNS if run.vms == vms) for vms in (1, 2))
    spent.ran(one, 7)
    assert spent.expected([two]) == 8


def test_means_are_kept_for_the_same_kind(own_cache: Path) -> None:
    first = Durations(PLAN, "vt", "zen4", durations.kept())
    first.booted(50)
    first.ran(RUNS[0], 4)
    first.ran(RUNS[0], 6)
    first.keep()
    known = durations.kept()
    assert Durations(PLAN, "vt", "zen4", known).expected(RUNS[:1]) == 55
    for other in (Durations(PLAN, "tcg", "", known), Durations(PLAN, "vt", "other", known),
                  Durations(replace(PLAN, vcpus=64), "vt", "zen4", known)):
        assert other.expected(RUNS[:1]) is None
    assert len(known) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "b", "c": -1, "d": NaN, "e": Infinity}'])
def test_what_is_damaged_is_not_known(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    assert durations.kept(tmp_path / "x") == {}
    assert durations.kept(tmp_path / "missing") == {}
