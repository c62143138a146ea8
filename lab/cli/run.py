# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync run`: an experiment, from the list or from a file, and its report."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from lab.build import base
from lab.build.userland import check_packages
from lab.cli.options import BACKENDS, kernel_options, remembered_packages
from lab.cli.params import (
    DIRECTORY,
    Counts,
    Disturbances,
    Names,
    Observing,
    Seconds,
    experiments,
)
from lab.cli.report import show
from lab.core.errors import UsageError
from lab.core.files import named
from lab.core.model import Disturbance, Experiment
from lab.core.progress import Progress, shown
from lab.plan import config, machine_model
from lab.run import resuming

if TYPE_CHECKING:
    from lab.build.images import Images
    from lab.run.runner import Options

MOST_SEED = 1_000_000_000
OBSERVED = ["locks", "tlb", "ecs", "all"]


@click.command(cls=Observing)
@click.argument("experiment", shell_complete=experiments)
@click.option("--schemes", type=Names(config.schemes), help="Schemes; the first is the baseline.")
@click.option("--vms", type=Counts(), help="Numbers of VMs at a time.")
@click.option("--vcpus", type=int, help="vCPUs of each guest.")
@click.option("--pcpus", type=int, help="CPUs of the host; with --backend local what it has.")
@click.option("--reps", type=int, help="Valid runs a cell in one host boot.")
@click.option("--boots", type=int, help="Host boots.")
@click.option("--max-repeats", type=int,
              help="How often an invalid run is repeated; 3 times unless told.")
@click.option("--guest-mem", type=int, help="MiB of each guest.")
@click.option("--workload", "workloads", type=Names(config.workloads),
              help="Workloads from the list.")
@click.option("--cmd", help="Any command in the guests; its elapsed time is the figure.")
@click.option("--timeout", type=Seconds(), help="Seconds that one run may take.")
@click.option("--observe", type=click.Choice(OBSERVED), metavar=f"[={'|'.join(OBSERVED)}]",
              help="Keep the kernels' counters around every run; what guests count besides.")
@click.option("--no-observe", is_flag=True, help="Keep none.")
@click.option("--variant", help="Kernel of host and guests, of kernel/configs/variants.toml; a"
              " scheme's own comes first.")
@click.option("--host-variant", help="The host's, if it is to be another one, such as stock.")
@click.option("--window-ms", type=int, help="How often to note the VMs' CPU time; 0 is never.")
@click.option("--disturb", type=Disturbances(),
              help="What is done to guests while they are measured:"
              f" {', '.join(get_args(Disturbance))}.")
@click.option("--disturb-ms", type=int, help="When they are killed or restored at the latest.")
@click.option("--pin/--no-pin", default=None, help="Tie vCPU i of each guest to pCPU i.")
@click.option("--backend", type=BACKENDS, default="auto", show_default=True,
              help="What plays the KVM host.")
@click.option("--machine", default=machine_model.DEFAULT, show_default=True,
              help="What things cost in virtual time: a model of lab/machines.")
@click.option("--seeds", type=click.IntRange(1, 10_000),
              help="Interleavings in virtual time, in place of --boots and --reps.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=None,
              help="Hosts at a time in virtual time; as many as there are CPUs unless told.")
@click.option("--snapshot", is_flag=True,
              help="Boot host and guests once in virtual time, save them, and have the host of"
              " each seed go on from there.")
@click.option("--trace", is_flag=True,
              help="Have the emulator trace each run in virtual time, which costs guests nothing:"
              " the report says what vCPUs waited for, timelines show it.")
@click.option("--seed", type=click.IntRange(0, MOST_SEED), default=1, show_default=True,
              help="Of the order of the runs; in virtual time of all that is random.")
@click.option("--out", type=DIRECTORY, help="Result directory; results/NAME-TIME by default.")
@click.option("--resume", type=DIRECTORY, help="Continue in this result directory.")
@click.option("--dry-run", is_flag=True, help="Print what would run, and stop.")
@click.option("--page/--no-page", default=True,
              help="Write report.html with its plots, or the table and summary.json only.")
@kernel_options
def run(  # noqa: PLR0913, PLR0917 (options of a command)
    experiment: str,
    backend: str,
    seed: int,
    out: Path | None,
    resume: Path | None,
    dry_run: bool,
    tree: Path | None,
    guest_packages: tuple[str, ...] | None,
    machine: str,
    seeds: int | None,
    jobs: int | None,
    snapshot: bool,
    trace: bool,
    **changes: Any,
) -> None:
    """Run EXPERIMENT (a name from the list, or a .toml file) and report."""
    from lab.run import runner

    page = changes.pop("page")
    chosen = config.experiment(experiment, _overrides(**_by_seeds(seeds, backend, changes)))
    machine_model.load(machine)
    if resume and out:
        raise UsageError("Give --out for a new directory or --resume for an old one, not both.")
    if resume:
        resuming.check(resume, chosen, backend, machine, snapshot)
    directory = resume or out or _new_directory(chosen.name)
    if not resume:
        _check_new(directory)
    if dry_run:
        check_packages(guest_packages or ())
        base.check_tree(tree)
        runner.check(chosen, backend, snapshot, trace)
        for line in runner.dry_run(chosen, backend=backend, seed=seed, model=machine,
                                   jobs=jobs or 0):
            click.echo(line)
        return
    options = runner.Options(
        backend=backend,
        seed=seed,
        tree=tree,
        packages=(*remembered_packages(guest_packages), *config.guest_packages(chosen)),
        resume=resume is not None,
        command=("./pvsync", *sys.argv[1:]),
        machine=machine,
        jobs=jobs or 0,
        snapshot=snapshot,
        trace=trace,
    )
    try:
        with named(directory), shown() as progress:
            files = (resuming.same_files(resume, chosen, tree, options.packages, progress)
                     if resume else None)
            if trace:
                _run_traced(chosen, directory, options, progress, files, page)
            else:
                runner.run(chosen, directory, options, progress, files)
    except BaseException as stopped:
        if not isinstance(stopped, UsageError) and (directory / "manifest.json").exists():
            stopped.add_note(f"Continue with: {resuming.line(sys.argv[1:], directory)}")
        raise
    show(directory, page)


def _run_traced(chosen: Experiment, directory: Path, options: "Options", progress: Progress,
                files: "Images | None", page: bool) -> None:
    """Run, and make of the traces what the report needs."""
    from lab.build import images
    from lab.report import traced
    from lab.run import runner

    runner.check(chosen, options.backend, options.snapshot, options.trace)
    files = files or images.of_experiment(chosen, options.tree, options.packages, progress)
    runner.run(chosen, directory, options, progress, files)
    for file in traced.make_all(directory, files, progress, page):
        progress.say(f"Timeline: {file}")


def _by_seeds(seeds: int | None, backend: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The changes; each seed is a boot of its own with one run a cell."""
    if seeds is None:
        return changes
    if backend not in ("auto", "vt"):
        raise UsageError("--seeds is of virtual time: say --backend vt, or --boots and --reps.")
    if changes["boots"] is not None or changes["reps"] is not None:
        raise UsageError("Give --seeds, or --boots and --reps, not both.")
    return {**changes, "boots": seeds, "reps": 1}


def _overrides(
    cmd: str | None, timeout: float | None, observe: Any, no_observe: bool, **changes: Any
) -> config.Overrides:
    if cmd is not None and changes["workloads"] is not None:
        raise UsageError("Give --workload or --cmd, not both.")
    if cmd is not None and cmd.startswith("-"):
        raise UsageError(f"--cmd needs a command: {cmd} is an option, or has to be quoted with"
                         " the command that it belongs to, such as --cmd 'make -j2'")
    if observe and no_observe:
        raise UsageError("Give --observe or --no-observe, not both.")
    return config.Overrides(command=cmd, timeout_s=timeout,
                            observe=False if no_observe else observe, **changes)


def _check_new(directory: Path) -> None:
    """UsageError unless a run can begin there; said before anything is built for it."""
    if _in_use(directory):
        begun = (directory / "manifest.json").exists()
        again = f"continue there with --resume {directory}, or " if begun else ""
        raise UsageError(f"{directory} exists and is not empty: {again}name another.")
    above = directory
    while not above.exists():
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{directory} cannot be made: {above} is no directory that can be written"
                         " to; name another with --out.")


def _in_use(directory: Path) -> bool:
    if not directory.exists():
        return False
    return not directory.is_dir() or any(one.name != ".lock" for one in directory.iterdir())


def _new_directory(name: str) -> Path:
    return Path("results") / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
