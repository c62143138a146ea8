# SPDX-License-Identifier: GPL-2.0-only
"""Executes an experiment: boots hosts, makes the runs, repeats the invalid ones.

`runs.jsonl` is the truth: what is planned minus what it has as valid is what
remains, so a killed or interrupted run goes on from any point.
"""

import fcntl
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from lab.build import images
from lab.build.images import Images
from lab.core.errors import UsageError
from lab.core.model import Backend, Experiment, Manifest
from lab.core.progress import Progress, duration
from lab.core.words import many
from lab.machine import backend as backends
from lab.machine import guest, machine, tsc
from lab.machine.machine import HostSpec
from lab.machine.provenance import git_commit, machine_kind
from lab.plan import in_force, kconfig, machine_model, schedule
from lab.plan.schedule import PlannedRun
from lab.run import durations, parse, records
from lab.run.fleet import HOST_QEMU, HOST_WORK, guest_files, guest_memory, guest_spec
from lab.run.rounds import Runner

GUEST_OVERHEAD = 90
"""MiB that a guest's QEMU takes besides the guest's memory."""
HOST_MEMORY = 1024
"""MiB for the host itself."""
BESIDE = 1200
"""MiB that the emulator takes besides the host's memory: translated code, for the most part."""


@dataclass(frozen=True)
class Options:
    """How to run, as the command line says it."""

    backend: str = "auto"
    seed: int = 1
    tree: Path | None = None
    packages: tuple[str, ...] = ()
    resume: bool = False
    command: tuple[str, ...] = ()
    machine: str = machine_model.DEFAULT
    """The model of the machine, in virtual time."""
    jobs: int = 0
    """Hosts at a time, in virtual time; 0 for as many as this lab has CPUs."""
    snapshot: bool = False
    """Hosts go on from one boot that was saved, in virtual time."""
    trace: bool = False
    """The emulator traces each run, in virtual time."""


def host_memory(experiment: Experiment) -> int:
    """MiB of the host that holds all guests of all schemes.

    Guests are saved to files in half of its memory.
    """
    owners = {experiment.owner(scheme.label or scheme.name) for scheme in experiment.schemes}
    guests = len(owners) * max(experiment.vms)
    more = kconfig.variant(experiment.host_variant or experiment.variant).memory
    saved = max(experiment.vms) if "restore" in experiment.disturb else 0
    return (HOST_MEMORY + more + guests * (guest_memory(experiment) + GUEST_OVERHEAD)
            + 2 * saved * guest_memory(experiment))


def host_spec(experiment: Experiment, backend: Backend, files: Images,
              model: str = machine_model.DEFAULT, seed: int = 0) -> HostSpec:
    """The host that the experiment needs; `model` and `seed` are of virtual time."""
    return HostSpec(backend, experiment.pcpus, host_memory(experiment), files.host_kernel,
                    files.host_image, files.guest_image, files.guest_kernel, files.emulator,
                    args=tsc.kernel_arguments(backend), others=files.others,
                    model=machine_model.load(model) if backend == "vt" else None, seed=seed)


def jobs_at_once(experiment: Experiment, backend: Backend, wanted: int) -> int:
    """Hosts that run side by side: one in real time, where nothing may run beside it.

    As many as there are CPUs in virtual time, unless told, and as memory has room for.
    """
    if backend != "vt":
        return 1
    cpus = wanted or len(os.sched_getaffinity(0))
    room = (psutil.virtual_memory().available >> 20) // (host_memory(experiment) + BESIDE)
    return max(1, min(cpus, room, experiment.boots))


def check(experiment: Experiment, backend: str, snapshot: bool = False,
          trace: bool = False) -> None:
    """UsageError, as of `run`, for what this machine cannot play."""
    chosen = backends.choose(backend)
    for option, given in (("--snapshot", snapshot), ("--trace", trace)):
        if given and chosen != "vt":
            raise UsageError(f"{option} is of virtual time: say --backend vt, or leave it out")
    _check_cpus(experiment, chosen)
    _check_memory(experiment, chosen)


def dry_run(experiment: Experiment, *, backend: str = "auto", seed: int = 1,
            model: str = machine_model.DEFAULT, jobs: int = 0) -> list[str]:
    """What `run` would do, in lines: what it takes, commands, then the runs in their order."""
    chosen = backends.choose(backend)
    spec = host_spec(experiment, chosen, images.placeholders(experiment), model, seed)
    run, logs = Path("SOCKETS"), Path("DIR/boots/0")
    local = chosen == "local"
    command = machine.hostd_command(run) if local else machine.host_command(spec, run, logs)
    planned = schedule.plan(experiment, seed)
    lines = [f"Backend: {chosen}; {many(len(planned), 'run')} in"
             f" {many(experiment.boots, 'host boot')}.",
             *_takes(experiment, chosen, planned, model, jobs), "", "Host:", shlex.join(command)]
    for scheme in experiment.schemes:
        label = scheme.label or scheme.name
        one = guest_spec(experiment, scheme, label, 0, chosen)
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


def _takes(experiment: Experiment, backend: Backend, planned: Sequence[PlannedRun], model: str,
           jobs: int) -> list[str]:
    """Memory and time."""
    lanes = jobs_at_once(experiment, backend, jobs)
    there = psutil.virtual_memory().available >> 20
    each = host_memory(experiment) + (0 if backend == "local" else BESIDE)
    beside = f", {lanes} side by side" if lanes > 1 else ""
    spent = durations.Durations(experiment, backend, model if backend == "vt" else "",
                                durations.kept())
    seconds = spent.expected(planned, jobs=lanes)
    latest = max(workload.timeout_s for workload in experiment.workloads)
    time_s = (f"about {duration(seconds)}, as boots and runs here took before"
              if seconds is not None else "not known, as no such boot and run was made here yet;"
              f" a run ends after {duration(latest)} of the host's time at the latest")
    return [f"Memory: {each} MiB a host at most{beside}; {there} MiB are free.",
            f"Time: {time_s}. What has to be built comes on top."]


def run(experiment: Experiment, directory: Path, options: Options, progress: Progress,
        files: Images | None = None) -> bool:
    """Run what remains; true when every run of the plan has become valid.

    KeyboardInterrupt passes through after everything was ended; the directory
    can be resumed then.
    """
    check(experiment, options.backend, options.snapshot, options.trace)
    chosen = backends.choose(options.backend)
    files = files or images.of_experiment(experiment, options.tree, options.packages, progress)
    directory.mkdir(parents=True, exist_ok=True)
    with alone(directory):
        begun = (directory / records.MANIFEST).exists()
        if begun and not options.resume:
            raise UsageError(f"another run has begun in {directory} meanwhile: name another"
                             " directory")
        if not begun:
            manifest = _manifest(experiment, options, chosen, files)
            records.write_json(directory / records.MANIFEST, manifest)
        elif (old := parse.manifest(directory)).boots != experiment.boots:
            new = replace(old, boots=experiment.boots, command=options.command)
            records.write_json(directory / records.MANIFEST, new)
        spec = host_spec(experiment, chosen, files, options.machine, options.seed)
        return Runner(experiment, directory, spec, options.seed, progress,
                      jobs_at_once(experiment, chosen, options.jobs), options.snapshot,
                      directory / records.TRACES if options.trace else None).run()


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
def alone(directory: Path) -> Iterator[None]:
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
        qemu=files.qemu, backend=backend, commit=git_commit(),
        machine=options.machine if backend == "vt" else machine_kind(),
        command=options.command, created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        vms=experiment.vms, vcpus=experiment.vcpus, pcpus=experiment.pcpus,
        reps=experiment.reps, boots=experiment.boots, baseline=labels[0],
        observe=experiment.observe, window_ms=experiment.window_ms,
        disturb=experiment.disturb, disturb_ms=experiment.disturb_ms, pin=experiment.pin,
        guest_mem=experiment.guest_mem, images=files.images,
        variant=experiment.variant, host_variant=experiment.host_variant, share=experiment.share,
        unproven=in_force.unproven(experiment), snapshot=options.snapshot)
