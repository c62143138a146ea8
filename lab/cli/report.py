# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync report`: the table of a result directory, and its page."""

import sys
from pathlib import Path

import click
from rich.console import Console

from lab.cli.params import DIRECTORY
from lab.core.errors import UsageError

PDF_WIDTH = 7.0
"""Inches."""


class Inches(click.ParamType[float]):
    """A width such as 3.3in."""

    name = "width"
    most = 40.0

    def convert(self, value: object, param: click.Parameter | None,
                ctx: click.Context | None) -> float:
        try:
            inches = float(str(value).removesuffix("in"))
        except ValueError:
            inches = 0.0
        if not 1 <= inches <= self.most:
            self.fail(f"{value} is no width: give inches from 1 to {self.most:g}, such as 3.3in",
                      param, ctx)
        return inches


@click.command()
@click.argument("directory", type=DIRECTORY, metavar="DIR")
@click.option("--format", "form", type=click.Choice(["text", "json", "csv", "markdown"]),
              default="text", show_default=True,
              help="What to print: tables, summary.json, a row for each cell, or Markdown.")
@click.option("--pdf", is_flag=True, help="Also draw the plots as plots/*.pdf.")
@click.option("--width", type=Inches(), metavar="INCHES",
              help="Of the PDFs: 3.3in is a column of a paper, unless told 7in.")
def report(directory: Path, form: str, pdf: bool, width: float | None) -> None:
    """Table, summary.json and report.html of DIR, from its raw logs.

    With another --format than text it prints that alone, and writes neither of them.
    """
    from lab.report import report as reporter

    if width is not None and not pdf:
        raise UsageError("--width is of --pdf: give it, too.")
    written = reporter.pdfs(directory, width or PDF_WIDTH) if pdf else []
    if form != "text":
        if not _print(directory, form):
            sys.exit(1)
        return
    for file in written:
        click.echo(f"Plot: {file}")
    show(directory)


def _print(directory: Path, form: str) -> bool:
    """Print the results in that form; whether they are valid."""
    from lab.report import csv_text, markdown
    from lab.report.summary import as_json, load, summarize

    forms = {"json": as_json, "csv": csv_text.text, "markdown": markdown.document}
    summary = summarize(load(directory))
    click.echo(forms[form](summary), nl=False)
    return summary.valid


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
