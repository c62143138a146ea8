# SPDX-License-Identifier: GPL-2.0-only
"""Plays one unit of a sweep here once more, and keeps its result directory.

A worker keeps rows alone. What a run that failed has said, and a replay of it, need the rest.
"""

from pathlib import Path

from lab.core.errors import UsageError
from lab.core.progress import Progress
from lab.plan.sweeps import Sweep
from lab.run import runner
from lab.sweep import campaign, grid
from lab.sweep.model import Build, Unit


def find(sweep: Sweep, build: Build, key: str) -> Unit:
    """The unit of that key, or of the only key that begins so; UsageError without one."""
    units = grid.units(grid.runs(sweep, build), (), sweep.per_boot)
    there = [unit for unit in units if unit.key.startswith(key)]
    if len(there) != 1:
        why = (f"{len(there)} units of {sweep.name} begin with {key}: give more of the key"
               if there else
               f"{sweep.name} has no unit {key}. Keys are of kernel, images, emulator and runs:"
               " check out the commit of its rows. A unit that was made in parts is none")
        raise UsageError(why)
    return there[0]


def play(sweep: Sweep, key: str, directory: Path, packages: tuple[str, ...],
         command: tuple[str, ...], progress: Progress) -> bool:
    """Make the unit's runs; whether all are valid. `command` is kept in their manifest."""
    prepared = campaign.prepare(sweep, packages, progress)
    unit = find(sweep, prepared.build, key)
    first = unit.runs[0]
    options = runner.Options(backend="vt", seed=first.boot_seed, machine=first.machine, jobs=1,
                             snapshot=bool(first.of_boot), command=command,
                             packages=packages)
    return runner.run(grid.experiment(sweep, unit), directory, options, progress, prepared.files)
