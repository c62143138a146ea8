# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync compare`: result directories beside each other."""

from collections import Counter
from pathlib import Path

import click

from lab.cli.params import DIRECTORY
from lab.core.errors import UsageError


@click.command(short_help="Put result directories beside each other.")
@click.argument("directories", type=DIRECTORY, metavar="DIR DIR...", nargs=-1)
def compare(directories: tuple[Path, ...]) -> None:
    """Compare each DIR with the first: two commits, machines or kernels.

    The verdict, then a table for each workload of the cells in common. Says what else differs;
    refuses what cannot be compared.
    """
    from lab.report import compare as comparer
    from lab.report import table
    from lab.report.summary import load, summarize

    if len(directories) < 2:
        raise UsageError("Give two result directories or more.")
    short = Counter(directory.name for directory in directories)
    found = comparer.compare([
        comparer.Side(one.name if one.name and short[one.name] == 1 else str(one),
                      summarize(load(one))) for one in directories])
    top = [f"Warning: {line}" for line in comparer.warnings(found)]
    for one in found:
        top += comparer.verdicts(one)
    click.echo(table.lines_and_grids(top, comparer.grids(found), comparer.notes(found)), nl=False)
