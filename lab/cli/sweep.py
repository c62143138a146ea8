# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync sweep`: thousands of configurations in virtual time, on a cluster."""

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from lab.cli.options import remembered_packages
from lab.cli.params import DIRECTORY
from lab.core.errors import UsageError
from lab.core.progress import shown
from lab.core.words import many
from lab.plan.sweeps import Sweep


@click.command(short_help="Many configurations in virtual time, on a cluster; the best settings.")
@click.argument("file", type=DIRECTORY)
@click.option("--out", type=DIRECTORY,
              help="Directory of the rows; results/sweep-NAME by default. Goes on where it is.")
@click.option("--workers", type=click.IntRange(1, 100_000), default=None,
              help="Workers to start; on this machine as many as cores and memory have room for.")
@click.option("--scheduler", help="Address of a Dask scheduler that runs, as tcp://HOST:8786.")
@click.option("--cluster", help="A cluster class by name, as dask_jobqueue.SLURMCluster; [cluster]"
              " of FILE has its options.")
@click.option("--retries", type=click.IntRange(0, 100), default=2, show_default=True,
              help="How often a boot that fails is made again.")
@click.option("--again", is_flag=True, help="Make runs that failed before once more.")
@click.option("--unit", metavar="KEY", help="Play the unit of a row here once more, and keep its"
              " result directory in --out, for report and replay.")
@click.option("--dry-run", is_flag=True, help="Say what would be made, and stop.")
@click.option("--report", is_flag=True, help="Write the page of what was made, and stop.")
def sweep(  # noqa: PLR0913, PLR0917 (options of a command)
    file: Path, out: Path | None, workers: int | None, scheduler: str | None,
    cluster: str | None, retries: int, again: bool, unit: str | None, dry_run: bool,
    report: bool,
) -> None:
    """Make the runs of FILE, a sweep such as those of lab/sweeps, and keep a row of each.

    The same command goes on with what is left.
    """
    from lab.run import runner
    from lab.sweep import campaign, grid, keep, page, search
    from lab.sweep.cluster import connect, find
    from lab.sweep.model import Build
    from lab.sweep.store import Store

    if scheduler and cluster:
        raise UsageError("Give --scheduler or --cluster, not both.")
    if scheduler and workers:
        raise UsageError("Workers of a scheduler are not started here: leave --workers out.")
    plan = grid.load(file)
    directory = out or campaign.default_directory(plan)
    if dry_run:
        runs = grid.runs(plan, Build("", "", ""))
        units = grid.units(runs, (), plan.per_boot)
        click.echo(f"{plan.name}: {many(len(runs), 'run')} in {many(len(units), 'boot')} of"
                   f" hosts of {campaign.memory(plan)} MiB"
                   + (f", then {plan.search.trials} trials." if plan.search else "."))
        for one in grid.settings(plan):
            click.echo(f"  {one.label}")
        return
    if report:
        click.echo(page.make(plan, directory, file))
        return
    if unit:
        _unit(plan, unit, out)
        return
    if cluster:
        find(cluster)  # a wrong one is told before anything is built
    directory.mkdir(parents=True, exist_ok=True)
    with runner.alone(directory), shown() as progress, ExitStack() as stack:
        store = Store(directory, alone=True)
        prepared = campaign.prepare(plan, remembered_packages(None), progress)
        with progress.stage("connecting to workers"):
            client = stack.enter_context(connect(
                scheduler or "", cluster or "", plan.cluster, workers or 0, campaign.memory(plan)))
        made = campaign.Campaign(plan, prepared, store, client, progress, retries, again)
        rows = made.make(grid.runs(plan, prepared.build))
        if plan.search:
            rows += search.run(made, directory)
        stack.close()
        keep.write(keep.of(plan, directory, file), directory)
    rows = list({row.key: row for row in rows}.values())  # a search asks for some more than once
    click.echo(f"{many(len(rows), 'run')}, {store.core_hours():.2f} core-hours in {directory};"
               f" the page: ./pvsync sweep {file} --out {directory} --report")
    if not all(row.valid for row in rows):
        for reason in sorted({row.reason for row in rows if not row.valid}):
            count = sum(row.reason == reason for row in rows if not row.valid)
            verb = "is" if count == 1 else "are"
            click.echo(f"{many(count, 'run')} {verb} not valid: {reason}", err=True)
        sys.exit(1)


def _unit(plan: Sweep, key: str, out: Path | None) -> None:
    """Play a unit once more; status 1 where a run of it failed, as one did before."""
    from lab.run import records
    from lab.sweep import again

    directory = out or Path("results") / f"sweep-{plan.name}-unit-{key}"
    if (directory / records.MANIFEST).exists():
        raise UsageError(f"{directory} has results: name another directory with --out")
    with shown() as progress:
        good = again.play(plan, key, directory, remembered_packages(None),
                          ("./pvsync", *sys.argv[1:]), progress)
    click.echo(f"All runs of the unit are valid, in {directory}." if good else
               f"Runs of the unit failed: ./pvsync report {directory} says which and why.")
    sys.exit(0 if good else 1)
