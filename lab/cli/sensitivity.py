# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync sensitivity`: an experiment with each number of the machine model scaled."""

import sys
from pathlib import Path
from typing import Any

import click

from lab.cli.options import QUIET, remembered_packages
from lab.cli.params import DIRECTORY, Counts, Names
from lab.core.progress import shown
from lab.plan import config, machine_model
from lab.report import sensitivity


@click.command(short_help="Which ratios rest on which number of the machine model.")
@click.argument("experiment")
@click.option("--machine", default=machine_model.DEFAULT, show_default=True,
              help="The model whose numbers are halved and doubled.")
@click.option("--keys", type=Names(), default=sensitivity.KEYS,
              help=f"Which numbers: {', '.join(machine_model.SCALED)}.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=2, show_default=True,
              help="Interleavings of each.")
@click.option("--schemes", type=Names(), help="Schemes; the first is the baseline.")
@click.option("--workload", "workloads", type=Names(), help="Workloads from the list.")
@click.option("--vms", type=Counts(), help="Numbers of VMs at a time.")
@click.option("--vcpus", type=int, help="vCPUs of each guest.")
@click.option("--pcpus", type=int, help="CPUs of the host.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=None,
              help="Hosts at a time; as many as there are CPUs unless told.")
@click.option("--out", type=DIRECTORY, required=True,
              help="Result directory, a folder for each number; goes on where it is.")
@QUIET
def sensitivity_command(experiment: str, machine: str, keys: tuple[str, ...], seeds: int,
                        jobs: int | None, out: Path, **changes: Any) -> None:
    """Play EXPERIMENT with each number of the model as it is, halved and doubled.

    In virtual time. Says which ratios to the baseline move by more than 10 %, and by more than
    the placebo's.
    """
    from lab.cli.played import play

    chosen = config.experiment(experiment, config.Overrides(boots=seeds, reps=1, **changes))
    wanted, left = sensitivity.playable(machine, keys)
    for why in left:
        click.echo(f"Left out: {why}.", err=True)
    summaries = []
    for number, variant in enumerate(wanted, 1):
        model = variant.model(machine)
        with shown() as progress:
            progress.say(f"{number} of {len(wanted)}: {model}")
            summaries.append((variant, play(chosen, out / variant.folder, model, jobs or 0,
                                            remembered_packages(None), progress)))
    click.echo(sensitivity.write(sensitivity.of(summaries), out), nl=False)
    if not all(summary.valid for _, summary in summaries):
        sys.exit(1)
