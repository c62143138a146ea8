# SPDX-License-Identifier: GPL-2.0-only
"""Whether runs can go on, or be played again, in a directory that another command began."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from lab.build import images
from lab.build.images import Images
from lab.core.errors import UsageError
from lab.core.model import Experiment
from lab.core.progress import Progress
from lab.core.words import many
from lab.machine import backend as backends
from lab.machine import provenance
from lab.plan import machine_model, schedule
from lab.run import parse


def check(directory: Path, experiment: Experiment, backend: str = "auto",
          machine: str = machine_model.DEFAULT, snapshot: bool = False) -> None:
    """UsageError unless the directory is whole and was begun with this very experiment.

    Other numbers of boots, or seeds, will do: what a boot makes does not depend on the others.
    """
    begun = parse.manifest(directory)
    made = 1 + max((schedule.planned(run).boot for run in parse.runs(directory).records),
                   default=-1)
    parse.boots(directory)
    chosen = backends.choose(backend)
    wanted = {
        "experiment": experiment.name,
        "schemes": experiment.schemes,
        "workloads": experiment.workloads,
        "vms": experiment.vms,
        "vcpus": experiment.vcpus,
        "pcpus": experiment.pcpus,
        "reps": experiment.reps,
        "observe": experiment.observe,
        "window_ms": experiment.window_ms,
        "disturb": experiment.disturb,
        "disturb_ms": experiment.disturb_ms,
        "pin": experiment.pin,
        "guest_mem": experiment.guest_mem,
        "backend": chosen,
        "snapshot": snapshot,
        "machine": machine if chosen == "vt" else provenance.machine_kind(),
    }
    different = [key for key, value in wanted.items() if getattr(begun, key) != value]
    if different:
        raise UsageError(
            f"{directory} was begun with other {', '.join(different)}: resume it with the"
            f" command it was begun with ({shlex.join(begun.command)})."
        )
    if experiment.boots < made:
        raise UsageError(f"{directory} has runs of {many(made, 'boot')} or seeds: ask for no fewer")


def same_files(directory: Path, experiment: Experiment, tree: Path | None,
               packages: Iterable[str], progress: Progress,
               advice: str = "start a new directory, for the two must not be mixed") -> Images:
    """The images to go on with; UsageError when they are not those it was begun with."""
    begun = parse.manifest(directory)
    if begun.commit != (commit := provenance.git_commit()):
        progress.say(f"Begun at commit {begun.commit}, going on at {commit}: the kernel and the"
                     " images are checked to be the same, the lab itself is not.")
    files = images.of_experiment(experiment, tree, packages, progress)
    pairs = (("kernel", begun.kernel, files.kernel), ("QEMU", begun.qemu, files.qemu),
             ("images", begun.images, files.images))
    for what, then, now in pairs:
        if then != now:
            raise UsageError(
                f"{directory} was begun with {what} {then} and this is {now}: {advice}")
    return files


def line(arguments: list[str], directory: Path) -> str:
    """The command that goes on: the same, with --resume in place of --out."""
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in ("--out", "--resume"):
            skip = True
        elif not argument.startswith(("--out=", "--resume=")):
            kept.append(argument)
    return shlex.join(["./pvsync", *kept, "--resume", str(directory)])
