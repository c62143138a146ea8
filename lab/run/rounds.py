# SPDX-License-Identifier: GPL-2.0-only
"""What remains of an experiment, host boot by host boot, several of them at a time.

A `Runner` has the plan and the records; a `Lane` has one host after the other. In real
time there is one lane, as nothing may run beside a measurement. In virtual time the boots
are independent of each other and of the machine, so there is a lane for each CPU.
"""

import contextlib
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from lab.core.model import BootRecord, Experiment, RunRecord
from lab.core.progress import Progress, Stage
from lab.core.words import many
from lab.machine.control import HostLost, Refused
from lab.machine.machine import HostSpec
from lab.machine.vmcb import Block
from lab.plan import schedule
from lab.plan.schedule import PlannedRun
from lab.run import records, snapshot, tracing
from lab.run.durations import Durations, kept
from lab.run.parse import guest_figures
from lab.run.session import Session

GIVE_UP = 2
"""So many planned runs of one cell failed altogether: the rest is not tried."""
DISTRUST = 2
"""So many guests failed in one boot of the host: it is booted again before the next run."""
SEEDS = 1_000_000
"""Apart are the seeds of two boots of one command, so that those of two commands differ."""
POLL_S = 0.2
"""Between two looks whether the user has stopped the lab."""


class Runner:
    """The plan, the records, and the lanes."""

    def __init__(self, experiment: Experiment, directory: Path, spec: HostSpec, seed: int,
                 progress: Progress, jobs: int = 1, snapshot: bool = False,
                 traces: Path | None = None) -> None:
        self.experiment = experiment
        self.directory = directory
        self.spec = spec
        self.jobs = jobs
        self.snapshot = snapshot
        """Hosts go on from one that was booted once, see `lab.run.snapshot`."""
        self.traces = traces
        """Has a folder with the trace of each run, in virtual time; None for no traces."""
        self.planned = schedule.plan(experiment, seed)
        self.progress = progress
        known = _usable(experiment, directory)
        self.left = schedule.remaining(self.planned, known)
        self.attempts = schedule.attempts(known)
        self.failed: Counter[tuple[str, str, int]] = Counter()
        self.all_valid = True
        self.stopped = False
        """The user has stopped the lab: no lane begins anything."""
        self.durations = Durations(experiment, spec.backend,
                                   spec.model.name if spec.model else "", kept())
        self._up: set[int] = set()
        """Boots of the plan that have come up."""
        self._taken = _taken_boots(directory)
        self._lock = threading.Lock()
        self._lanes: set[Lane] = set()

    def run(self) -> bool:
        """Everything that remains; true when every run of the plan has become valid."""
        groups = [list(group) for _, group in groupby(self.left, key=lambda one: one.boot)]
        with self.progress.stage("runs", total=len(self.planned)) as stage:
            stage.before(len(self.planned) - len(self.left))
            self.tell_left(stage)
            try:
                if self.snapshot and groups:
                    self.spec = snapshot.start_from(self.experiment, self.spec,
                                                    self.spec.seed * SEEDS, stage.text,
                                                    self.progress)
                if self.jobs > 1 and len(groups) > 1:
                    self._side_by_side(groups, stage)
                else:
                    for group in groups:
                        self._lane(group, stage)
            except BaseException:
                self._abort()
                raise
            finally:
                self.durations.keep()
        return self.all_valid

    def _side_by_side(self, groups: list[list[PlannedRun]], stage: Stage) -> None:
        """The same by as many threads as there are jobs; the first failure stops all."""
        with ThreadPoolExecutor(self.jobs) as pool:
            pending: set[Future[None]] = {pool.submit(self._lane, group, stage)
                                          for group in groups}
            try:
                while pending:  # in short waits, so that Ctrl-C gets through
                    done, pending = wait(pending, POLL_S, FIRST_EXCEPTION)
                    for future in done:
                        future.result()
            except BaseException:
                for future in pending:
                    future.cancel()
                self._abort()
                raise

    def _lane(self, group: list[PlannedRun], stage: Stage) -> None:
        if self.stopped:
            return
        lane = Lane(self, stage, group[0].boot)
        self._lanes.add(lane)
        lane.run(group)
        self._lanes.discard(lane)

    def _abort(self) -> None:
        with self._lock:
            self.stopped = True
        for lane in list(self._lanes):
            lane.abort()

    # What lanes ask for, from several threads

    def boot_number(self, wanted: int) -> int:
        """The number of the next host: that of the plan, or the next one that is free."""
        with self._lock:
            number = wanted
            while number in self._taken:
                number += 1
            self._taken.add(number)
            return number

    def tell_left(self, stage: Stage, up: int | None = None, done: PlannedRun | None = None,
                  ) -> None:
        """Say how long all takes from now on; `up` is a boot that came up, `done` a run."""
        with self._lock:
            if up is not None:
                self._up.add(up)
            if done is not None:
                self.left.remove(done)
            seconds = self.durations.expected(self.left, self._up, self.jobs)
        stage.left(seconds)

    def record_run(self, record: RunRecord) -> None:
        """Keep what became of a try, unless the user's stop is what became of it."""
        with self._lock:
            if self.stopped:
                return
            records.append(self.directory / records.RUNS, record)

    def record_boot(self, record: BootRecord) -> None:
        """Keep how a boot went, and say so when it failed."""
        with self._lock:
            if self.stopped:
                return
            records.append(self.directory / records.BOOTS, record)
        if not record.ok:
            what = f"guest {record.guest}" if record.guest else "the host"
            self.progress.say(f"boot {record.boot}, {what}: {record.reason}")


class Lane:
    """One host after the other, for the runs of one boot of the plan."""

    def __init__(self, runner: Runner, stage: Stage, boot: int) -> None:
        self.runner = runner
        self.experiment = runner.experiment
        self.stage = stage
        self.boot = boot
        self.hosts = 0
        """Booted so far."""
        self.number = boot
        """Of the last one."""
        self.seed: int | None = None
        """Of the last one, in virtual time."""
        self.snapshot: int | None = None
        """Seed of the boot that it went on from."""
        self.session: Session | None = None
        self.traced: dict[Path, list[Block]] = {}
        """Of the session."""

    def run(self, group: list[PlannedRun]) -> None:
        """Every run of the group, then the end of its host."""
        for planned in group:
            if self.runner.stopped:
                break
            self._until_valid(planned)
            self.runner.tell_left(self.stage, done=planned)
            self.stage.advance()
        self.stage.text("closing the host")
        self._close()

    def abort(self) -> None:
        """End the host at once, without a record.

        The lane's own thread may be closing the same files; what was wrong before is what counts.
        """
        if self.session is not None:
            with contextlib.suppress(OSError):
                self.session.abort()

    def _close(self, reason: str = "") -> None:
        """End the session if there is one; `reason` says what was wrong with it.

        One whose end is interrupted stays the session, so that it is aborted.
        """
        if self.session is not None:
            if self.traced and not reason:
                tracing.name(self.session, self.traced)
            self.traced = {}
            self.session.close(reason)
            self.session = None

    def _until_valid(self, planned: PlannedRun) -> None:
        """Try a planned run until it is valid or has used its repeats up."""
        runner, cell = self.runner, (planned.scheme, planned.workload, planned.vms)
        tries = 1 + self.experiment.max_repeats if runner.failed[cell] < GIVE_UP else 0
        first = runner.attempts[planned.key]
        reason = "the runs of this cell before it failed altogether"
        for attempt in range(first, first + tries):
            self.stage.text(f"{planned.scheme}, {planned.workload}, {planned.vms} VM"
                            + (f", try {attempt + 1}" if attempt else ""))
            record = self._try(planned, attempt)
            runner.record_run(record)
            if record.valid or runner.stopped:
                return
            reason = record.reason
            runner.progress.say(f"{record.id} is invalid: {reason}")
        if not tries:
            runner.record_run(_unmade(self.experiment, planned, first, reason))
        runner.failed[cell] += 1
        runner.all_valid = False

    def _try(self, planned: PlannedRun, attempt: int) -> RunRecord:
        runner = self.runner
        try:
            session = self._open()
            began = time.monotonic()
            record = self._make(session, planned, attempt)
            if record.valid:
                runner.durations.ran(planned, time.monotonic() - began)
            if session.dropped >= DISTRUST:
                # An emulated host that was corrupted once goes on losing guests.
                self._close(f"{many(session.dropped, 'guest')} failed in this boot")
            return record
        except HostLost as lost:
            self._close(str(lost))
            record = _unmade(self.experiment, planned, attempt, str(lost))
            return replace(record, boot=self.number, seed=self.seed, snapshot=self.snapshot)

    def _make(self, session: Session, planned: PlannedRun, attempt: int) -> RunRecord:
        """The run, with a trace where they are wanted."""
        if self.runner.traces is None:
            return session.run(planned, attempt)
        folder = self.runner.traces / planned.run_id(attempt)
        record, self.traced[folder] = tracing.run(session, planned, attempt, folder)
        return record

    def _open(self) -> Session:
        """The session, or a new one with all its guests.

        A boot that fails is repeated like a run; raises HostLost after the last.
        """
        for left in range(self.experiment.max_repeats, -1, -1):
            if self.session is not None:
                break
            if self.runner.stopped:
                raise HostLost("the lab was stopped")
            self.number = self.runner.boot_number(self.boot)
            spec = replace(self.runner.spec, seed=self._seed())
            self.seed = spec.seed if spec.backend == "vt" else None
            self.snapshot = spec.saved.seed if spec.saved else None
            self.hosts += 1
            self.session = Session(self.experiment, spec, self.number, self.runner.directory,
                                   self.runner.record_boot, self.stage.text)
            began = time.monotonic()
            try:
                self.session.open()
                self.session.boot_all()
                if not spec.saved:
                    self.runner.durations.booted(time.monotonic() - began)
                self.runner.tell_left(self.stage, up=self.boot)
            except (HostLost, Refused) as lost:
                if not left:
                    raise HostLost(str(lost)) from lost
                self._close(str(lost))
        assert self.session is not None
        return self.session

    def _seed(self) -> int:
        """Another one for each boot of the plan, and for each host that takes a lost one's place.

        A boot that fails with its seed would fail with it again.
        """
        return self.runner.spec.seed * SEEDS + self.boot * 1000 + self.hosts


def _usable(experiment: Experiment, directory: Path) -> list[RunRecord]:
    """The runs so far; one whose outputs were lost or hold no figure is not valid."""
    workloads = {workload.name: workload for workload in experiment.workloads}
    known = records.runs(directory)
    return [replace(run, valid=bool(run.valid and run.workload in workloads
                                    and guest_figures(directory, run, workloads[run.workload])[0]))
            for run in known]


def _unmade(experiment: Experiment, planned: PlannedRun, attempt: int, reason: str) -> RunRecord:
    return RunRecord(
        id=planned.run_id(attempt), boot=planned.boot, rep=planned.rep, attempt=attempt,
        scheme=planned.scheme, workload=planned.workload, vms=planned.vms,
        vcpus=experiment.vcpus, pcpus=experiment.pcpus, valid=False, reason=reason,
        guests=(), overlap=0.0)


def _taken_boots(directory: Path) -> set[int]:
    """The numbers that folders of earlier boots have."""
    folder = directory / "boots"
    if not folder.is_dir():
        return set()
    return {int(one.name) for one in folder.iterdir() if one.name.isdigit()}
