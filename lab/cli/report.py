# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync report`: the table of a result directory, and its page."""

import sys
from pathlib import Path

import click
from rich.console import Console

from lab.cli.options import DIRECTORY


@click.command()
@click.argument("directory", type=DIRECTORY, metavar="DIR")
def report(directory: Path) -> None:
    """Table, summary.json and report.html of DIR, from its raw logs."""
    show(directory)


def show(directory: Path, page: bool = True) -> None:
    """Make the report of a result directory, print its table; exit status 1 if a run is invalid."""
    from lab.report import report as reporter
    from lab.report import table

    summary = reporter.make(directory, page)
    console = Console(highlight=False)
    if not console.is_terminal or console.width < table.least_width(summary):
        click.echo(table.as_text(summary), nl=False)
    else:
        for part in table.render(summary):
            console.print(part)
    if page:
        click.echo(f"Report: {directory / reporter.PAGE}")
    if not summary.valid:
        sys.exit(1)
