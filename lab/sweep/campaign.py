# SPDX-License-Identifier: GPL-2.0-only
"""A sweep as a whole: what there is to boot, which runs remain, and having them made."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client

from lab.build import images
from lab.core.model import Experiment
from lab.core.progress import Progress
from lab.machine.provenance import git_commit
from lab.plan import config
from lab.plan.sweeps import Sweep
from lab.run import runner
from lab.sweep import artifacts, cluster, collect, execute, grid, worker
from lab.sweep.model import Build, Run, Unit
from lab.sweep.store import Row, Store


@dataclass(frozen=True)
class Prepared:
    """What units boot, on this machine."""

    build: Build
    artifacts: tuple[artifacts.Artifact, ...]
    told: dict[str, Any]
    files: images.Images | None = None


def whole(sweep: Sweep) -> Experiment:
    """All that the sweep may boot, as one experiment: for its images and its memory."""
    loads = (*sweep.workloads, *(sweep.search.held_out if sweep.search else ()))
    return Experiment(
        name=sweep.name, about=sweep.about,
        schemes=tuple(one.scheme for one in grid.settings(sweep)),
        workloads=tuple(grid.workloads(loads, sweep.name)), vms=sweep.vms,
        vcpus=max(sweep.vcpus), pcpus=max(sweep.pcpus), reps=1, boots=1,
        guest_mem=sweep.guest_mem, variant=sweep.variant, host_variant=sweep.host_variant)


def prepare(sweep: Sweep, packages: Sequence[str], progress: Progress) -> Prepared:
    """Build what the cache lacks, and name it by its content."""
    experiment = whole(sweep)
    wanted = (*packages, *config.guest_packages(experiment))
    files = images.of_experiment(experiment, None, wanted, progress)
    with progress.stage("hashing what workers need"):
        found, told = artifacts.of(files)
    return Prepared(Build(files.kernel, files.images, files.qemu), tuple(found), told, files)


def memory(sweep: Sweep) -> int:
    """MiB of a unit's host and emulator."""
    one = grid.settings(sweep)[:1]
    single = Experiment(**{**whole(sweep).__dict__, "schemes": tuple(s.scheme for s in one)})
    return runner.host_memory(single) + runner.BESIDE


@dataclass
class Campaign:
    """Has runs made, each once."""

    sweep: Sweep
    prepared: Prepared
    store: Store
    client: Client
    progress: Progress
    retries: int = 2
    again: bool = False
    """Whether runs that failed before are made once more, once."""
    play: Callable[[dict[str, Any]], dict[str, Any]] = worker.play
    _failed: set[str] = field(init=False)
    """Keys of runs that failed before this command and were not made once more yet."""

    def __post_init__(self) -> None:
        self._failed = self.store.made() - self.store.made(self.again)

    def make(self, runs: Sequence[Run], name: str = "runs") -> list[Row]:
        """The rows of these runs, those that were not made before made now."""
        units = grid.units(runs, self.store.made() - self._failed, self.sweep.per_boot)
        commit = git_commit()

        def keep(unit: Unit, answer: dict[str, Any]) -> None:
            add(unit, collect.rows(unit, answer, commit))

        def fail(unit: Unit, reason: str) -> None:
            add(unit, collect.failed(unit, reason, commit))

        def add(unit: Unit, rows: Sequence[Row]) -> None:
            self.store.add(unit.key, rows)
            self._failed.difference_update(run.key for run in unit.runs)

        job = execute.Job(self.client, self.play, self._task, keep, fail, self.progress,
                          self.prepared.artifacts, self.retries, lambda: cost(self.store, left()),
                          lambda: cluster.renew(self.client))

        def left() -> int:
            return sum(run.key in self._failed or run.key not in self.store.rows for run in runs)

        with self.progress.stage(name, total=len(runs)) as stage:
            stage.before(len(runs) - sum(len(unit.runs) for unit in units))
            job.make(units, stage)
        return collect.chosen(runs, self.store.rows)

    def _task(self, unit: Unit) -> dict[str, Any]:
        first = unit.runs[0]
        return {"unit": unit.key, "experiment": asdict(grid.experiment(self.sweep, unit)),
                "seed": first.boot_seed, "snapshot": bool(first.of_boot),
                "machine": first.machine, "files": self.prepared.told,
                "artifacts": [asdict(one) for one in self.prepared.artifacts]}


def cost(store: Store, left: int) -> str:
    """What it has cost and, by the mean of the runs so far, what the rest will."""
    text = f"{store.core_hours():.2f} core-hours"
    paid = [row.core_s for row in store.rows.values() if row.core_s]
    if left and paid:
        text += f", about {left * sum(paid) / len(paid) / 3600:.2f} more"
    return text


def default_directory(sweep: Sweep) -> Path:
    """Where a sweep's rows are unless told."""
    return Path("results") / f"sweep-{sweep.name}"
