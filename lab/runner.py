# SPDX-License-Identifier: GPL-2.0-only
"""Executes an experiment: boots hosts, makes the runs, repeats the invalid ones.

`runs.jsonl` is the truth: what is planned minus what it has as valid is what
remains, so a killed or interrupted run goes on from any point.
"""

import fcntl
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import psutil

from lab import backend as backends
from lab import guest, images, kconfig, machine, records, schedule, tsc
from lab.control import HostLost, Refused
from lab.errors import UsageError
from lab.images import Images
from lab.machine import HostSpec
from lab.model import Backend, BootRecord, Experiment, Manifest, RunRecord
from lab.parse import guest_figures
from lab.progress import Progress, Stage
from lab.provenance import git_commit, machine_kind
from lab.schedule import PlannedRun
from lab.session import (
    HOST_QEMU,
    HOST_WORK,
    Session,
    guest_files,
    guest_memory,
    guest_name,
)

GUEST_OVERHEAD = 90
"""MiB that a guest's QEMU takes besides the guest's memory."""
HOST_MEMORY = 1024
"""MiB for the host itself."""
GIVE_UP = 2
"""So many planned runs of one cell failed altogether: the rest is not tried."""
DISTRUST = 2
"""So many guests failed in one boot of the host: it is booted again before the next run."""


@dataclass(frozen=True)
class Options:
    """How to run, as the command line says it."""

    backend: str = "auto"
    seed: int = 1
    tree: Path | None = None
    packages: tuple[str, ...] = ()
    resume: bool = False
    command: tuple[str, ...] = ()


def host_memory(experiment: Experiment) -> int:
    """MiB of the host that holds all guests of all schemes.

    Guests are saved to files in half of its memory.
    """
    guests = len(experiment.schemes) * max(experiment.vms)
    more = kconfig.variant(experiment.host_variant or experiment.variant).memory
    saved = max(experiment.vms) if "restore" in experiment.disturb else 0
    return (HOST_MEMORY + more + guests * (guest_memory(experiment) + GUEST_OVERHEAD)
            + 2 * saved * guest_memory(experiment))


def host_spec(experiment: Experiment, backend: Backend, files: Images) -> HostSpec:
    """The host that the experiment needs."""
    return HostSpec(backend, experiment.pcpus, host_memory(experiment), files.host_kernel,
                    files.host_image, files.guest_image, files.guest_kernel, files.emulator,
                    args=tsc.kernel_arguments(backend), others=files.others)


def dry_run(experiment: Experiment, *, backend: str = "auto", seed: int = 1) -> list[str]:
    """What `run` would do, in lines: commands, then the runs in their order."""
    chosen = backends.choose(backend)
    spec = host_spec(experiment, chosen, images.placeholders(experiment))
    run, logs = Path("SOCKETS"), Path("DIR/boots/0")
    local = chosen == "local"
    command = machine.hostd_command(run) if local else machine.host_command(spec, run, logs)
    planned = schedule.plan(experiment, seed)
    lines = [f"Backend: {chosen}; {len(planned)} runs in {experiment.boots} host boots.",
             "", "Host:", shlex.join(command)]
    for scheme in experiment.schemes:
        label = scheme.label or scheme.name
        one = guest.GuestSpec(guest_name(label, 0), experiment.vcpus, guest_memory(experiment),
                              scheme.guest, scheme.cpu)
        known = guest_files(spec)
        argv = guest.guest_command(spec.emulator if local else HOST_QEMU, one,
                                   *known.get(scheme.variant, known[""]), HOST_WORK)
        others = " ".join(scheme.boot_args(1)) or "none"
        parameters = " ".join(f"{k}={v}" for k, v in scheme.host.items())
        lines += ["", f"First guest of {label}:", shlex.join(argv)]
        lines += [f"Boot arguments of the others: {others}"] if scheme.neighbour is not None else []
        lines += [f"Host parameters: {parameters}"] if parameters else []
    lines += ["", "Runs:"]
    lines[0] += " Each vCPU is tied to a pCPU." if experiment.pin else ""
    return lines + [f"{number:4} {one.key}" for number, one in enumerate(planned, 1)]


def run(experiment: Experiment, directory: Path, options: Options, progress: Progress,
        files: Images | None = None) -> bool:
    """Run what remains; true when every run of the plan has become valid.

    KeyboardInterrupt passes through after everything was ended; the directory
    can be resumed then.
    """
    chosen = backends.choose(options.backend)
    _check_cpus(experiment, chosen)
    _check_memory(experiment, chosen)
    files = files or images.of_experiment(experiment, options.tree, options.packages, progress)
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory):
        begun = (directory / records.MANIFEST).exists()
        if begun and not options.resume:
            raise UsageError(f"another run has begun in {directory} meanwhile: name another"
                             " directory")
        if not begun:
            manifest = _manifest(experiment, options, chosen, files)
            records.write_json(directory / records.MANIFEST, manifest)
        spec = host_spec(experiment, chosen, files)
        return Runner(experiment, directory, spec, options.seed, progress).run()


class Runner:
    """The loop over what remains."""

    def __init__(self, experiment: Experiment, directory: Path, spec: HostSpec, seed: int,
                 progress: Progress) -> None:
        self.experiment = experiment
        self.directory = directory
        self.spec = spec
        self.planned = schedule.plan(experiment, seed)
        self.progress = progress
        known = _usable(experiment, directory)
        self.left = schedule.remaining(self.planned, known)
        self.attempts = schedule.attempts(known)
        self.boots = _next_boot(directory)
        self.failed: Counter[tuple[str, str, int]] = Counter()
        self.all_valid = True
        self.session: Session | None = None

    def run(self) -> bool:
        """Everything that remains, boot by boot."""
        done = len(self.planned) - len(self.left)
        with self.progress.stage("runs", total=len(self.planned)) as stage:
            stage.advance(done)
            try:
                for _, group in groupby(self.left, key=lambda one: one.boot):
                    self._boot_group(list(group), stage)
            except BaseException:
                if self.session is not None:
                    self.session.abort()
                raise
        return self.all_valid

    def _boot_group(self, group: list[PlannedRun], stage: Stage) -> None:
        for planned in group:
            self._until_valid(planned, stage)
            stage.advance()
        stage.text("closing the host")
        self._close()

    def _close(self, reason: str = "") -> None:
        """End the session if there is one; `reason` says what was wrong with it.

        One whose end is interrupted stays the session, so that it is aborted.
        """
        if self.session is not None:
            self.session.close(reason)
            self.session = None

    def _until_valid(self, planned: PlannedRun, stage: Stage) -> None:
        """Try a planned run until it is valid or has used its repeats up."""
        cell = (planned.scheme, planned.workload, planned.vms)
        tries = 1 + self.experiment.max_repeats if self.failed[cell] < GIVE_UP else 0
        first = self.attempts[planned.key]
        reason = "the runs of this cell before it failed altogether"
        for attempt in range(first, first + tries):
            stage.text(f"{planned.scheme}, {planned.workload}, {planned.vms} VM"
                       + (f", try {attempt + 1}" if attempt else ""))
            record = self._try(planned, attempt, stage)
            self._record_run(record)
            if record.valid:
                return
            reason = record.reason
            self.progress.say(f"{record.id} is invalid: {reason}")
        if not tries:
            self._record_run(_unmade(self.experiment, planned, first, reason))
        self.failed[cell] += 1
        self.all_valid = False

    def _try(self, planned: PlannedRun, attempt: int, stage: Stage) -> RunRecord:
        try:
            session = self._open(stage)
            record = session.run(planned, attempt)
            if session.dropped >= DISTRUST:
                # An emulated host that was corrupted once goes on losing guests.
                self._close(f"{session.dropped} guests failed in this boot")
            return record
        except HostLost as lost:
            number = self.boots - 1 if self.session is None else self.session.number
            self._close(str(lost))
            record = _unmade(self.experiment, planned, attempt, str(lost))
            return replace(record, boot=number)

    def _open(self, stage: Stage) -> Session:
        """The session, or a new one with all its guests.

        A boot that fails is repeated like a run; raises HostLost after the last.
        """
        for left in range(self.experiment.max_repeats, -1, -1):
            if self.session is not None:
                break
            number, self.boots = self.boots, self.boots + 1
            self.session = Session(self.experiment, self.spec, number, self.directory,
                                   self._record_boot, stage.text)
            try:
                self.session.open()
                self.session.boot_all()
            except (HostLost, Refused) as lost:
                if not left:
                    raise HostLost(str(lost)) from lost
                self._close(str(lost))
        assert self.session is not None
        return self.session

    def _record_run(self, record: RunRecord) -> None:
        records.append(self.directory / records.RUNS, record)

    def _record_boot(self, record: BootRecord) -> None:
        records.append(self.directory / records.BOOTS, record)
        if not record.ok:
            what = f"guest {record.guest}" if record.guest else "the host"
            self.progress.say(f"boot {record.boot}, {what}: {record.reason}")


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


def _next_boot(directory: Path) -> int:
    """The first number that no folder of an earlier boot has."""
    folder = directory / "boots"
    taken = [int(one.name) for one in folder.iterdir() if one.name.isdigit()] \
        if folder.is_dir() else []
    return max(taken, default=-1) + 1


def _check_cpus(experiment: Experiment, backend: Backend) -> None:
    """UsageError when this machine is the host and has another number of CPUs than recorded."""
    there = len(os.sched_getaffinity(0))
    if backend == "local" and experiment.pcpus != there:
        raise UsageError(
            f"With --backend local guests have the {there} CPUs that this lab may use, not"
            f" {experiment.pcpus}: say --pcpus {there}, or give it fewer, as in"
            " `taskset -c 0-3 ./pvsync run ... --pcpus 4`")


def _check_memory(experiment: Experiment, backend: Backend) -> None:
    """UsageError when the guests cannot fit into this machine."""
    wanted = host_memory(experiment)
    there = psutil.virtual_memory().available >> 20
    if wanted > there + 512:
        where = "This machine" if backend == "local" else "The emulated host"
        raise UsageError(
            f"{where} needs {wanted} MiB for all guests and {there} MiB are free: compare fewer"
            " schemes at once (--schemes), or lower --vms or --guest-mem")


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the directory; UsageError when another lab runs in it."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another run writes into {directory}: wait for it,"
                             " or name another directory") from None
        yield


def _manifest(experiment: Experiment, options: Options, backend: Backend,
              files: Images) -> Manifest:
    labels = [scheme.label or scheme.name for scheme in experiment.schemes]
    return Manifest(
        experiment=experiment.name, schemes=experiment.schemes, workloads=experiment.workloads,
        kernel=files.kernel, base_version=files.base_version, config_hash=files.config_hash,
        qemu=files.qemu, machine=machine_kind(), backend=backend, commit=git_commit(),
        command=options.command, created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        vms=experiment.vms, vcpus=experiment.vcpus, pcpus=experiment.pcpus,
        reps=experiment.reps, boots=experiment.boots, baseline=labels[0],
        observe=experiment.observe, window_ms=experiment.window_ms,
        disturb=experiment.disturb, disturb_ms=experiment.disturb_ms, pin=experiment.pin,
        guest_mem=experiment.guest_mem, images=files.images)
