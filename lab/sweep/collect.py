# SPDX-License-Identifier: GPL-2.0-only
"""From what workers answer to rows of the store."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lab.core import stats
from lab.sweep.grid import short
from lab.sweep.model import Run, Unit
from lab.sweep.store import Row

NOT_MADE = "the run was not made"


def rows(unit: Unit, answer: Mapping[str, Any], commit: str) -> list[Row]:
    """A row for each run of the unit, also for one that the answer says nothing of."""
    labels = list(dict.fromkeys(run.setting.label for run in unit.runs))
    of = {(one["scheme"], one["workload"], one["vms"], one["boot"]): one
          for one in answer["runs"]}
    boots = {seed: boot for boot, seed in enumerate(unit.seeds)}
    nothing = {"valid": False, "reason": NOT_MADE, "figures": [], "seed": None, "tries": 0}
    count = len(unit.runs)
    return [_row(run, unit.key,
                 of.get((short(labels.index(run.setting.label)), run.workload.name, run.vms,
                         boots[run.seed]), nothing),
                 answer["core_s"] / count, answer["wall_s"] / count, answer["worker"], commit)
            for run in unit.runs]


def failed(unit: Unit, reason: str, commit: str) -> list[Row]:
    """A row for each run of a unit that failed for good."""
    nothing = {"valid": False, "reason": reason, "figures": [], "seed": None, "tries": 0}
    return [_row(run, unit.key, nothing, 0.0, 0.0, "", commit) for run in unit.runs]


def _row(run: Run, unit: str, outcome: Mapping[str, Any], core_s: float,
         wall_s: float, worker: str, commit: str) -> Row:
    figures = tuple(outcome["figures"])
    return Row(
        key=run.key, unit=unit, scheme=run.setting.scheme.name, setting=run.setting.label,
        names=tuple(name for name, _ in run.setting.values),
        values=tuple(value for _, value in run.setting.values), machine=run.machine,
        vcpus=run.vcpus, pcpus=run.pcpus, vms=run.vms, workload=run.workload.name,
        seed=run.seed, metric=run.workload.metric, measured_in=run.workload.unit,
        better=run.workload.better, valid=outcome["valid"], reason=outcome["reason"],
        figure=stats.mean(figures, run.workload.better), figures=figures,
        host_seed=outcome["seed"], tries=outcome["tries"], core_s=core_s, wall_s=wall_s,
        worker=worker, made=time.time(), kernel=run.build.kernel, images=run.build.images,
        emulator=run.build.emulator, commit=commit)


def chosen(runs: Iterable[Run], made: Mapping[str, Row]) -> list[Row]:
    """The rows of these runs, of those that were made.

    Keys leave names out, so a run may have been made under others. Rows carry those asked for.
    """
    return [_named(made[run.key], run) for run in runs if run.key in made]


def _named(row: Row, run: Run) -> Row:
    return replace(
        row, scheme=run.setting.scheme.name, setting=run.setting.label,
        names=tuple(name for name, _ in run.setting.values),
        values=tuple(value for _, value in run.setting.values),
        workload=run.workload.name, machine=run.machine)
