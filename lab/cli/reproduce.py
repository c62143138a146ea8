# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync reproduce`: the papers' tables and figures, ours beside theirs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli.options import QUIET, remembered_packages
from lab.cli.params import DIRECTORY
from lab.core import paths
from lab.core.errors import UsageError
from lab.core.model import Experiment
from lab.core.progress import shown
from lab.plan import machine_model, papers

if TYPE_CHECKING:
    from lab.report.summary import Summary


@click.command(short_help="The papers' tables and figures, ours beside theirs.")
@click.argument("names", nargs=-1, metavar="[PAPER]...")
@click.option("--quick", is_flag=True, help="Short loads, few seeds: at most half an hour a paper.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=None,
              help="Interleavings of each, in place of the paper file's own number.")
@click.option("--machine", default=machine_model.DEFAULT, show_default=True,
              help="What things cost in virtual time: a model of lab/machines.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=None,
              help="Hosts at a time; as many as there are CPUs unless told.")
@click.option("--out", type=DIRECTORY, default=paths.ROOT / "results" / "papers",
              help="Where results and pages go; goes on where it is.  [default: results/papers]")
@click.option("--row", "wanted", multiple=True, metavar="NAME",
              help="Only this row, as table-1 or figures-1-and-7-a; may be repeated. The page keeps"
                   " what it has of others.")
@QUIET
def reproduce(names: tuple[str, ...], quick: bool, seeds: int | None, machine: str,
              jobs: int | None, out: Path, wanted: tuple[str, ...]) -> None:
    """Play what PAPERs claim, all of them unless named, in virtual time.

    Each gets a page, OUT/PAPER.md: the paper's numbers beside ours, confirmed or contradicted.
    """
    from lab.report import paper_page
    from lab.run import records

    valid = True
    if wanted and len(names) != 1:
        raise UsageError("--row needs one paper, whose row it is.")
    for paper in [papers.load(name) for name in names or papers.names()]:
        folder = out / (f"{paper.name}-quick" if quick else paper.name)
        had = folder / paper_page.FILE
        earlier = paper_page.read(had) if wanted and had.exists() else None
        plans = {row.name: row.plan(quick, seeds or 0) for row in paper.rows}
        rows = _played(paper, papers.pick_rows(paper, wanted), plans, folder, machine, jobs or 0)
        kept = paper_page.of(paper, rows, quick, ("./pvsync", *sys.argv[1:]))
        if earlier:
            kept = paper_page.joined(earlier, kept, paper)
        paper_page.keep(kept, folder)
        text = paper_page.page(kept)
        page = folder.with_suffix(".md")
        records.replace(page, text)
        click.echo(text)
        click.echo(f"Page: {page}")
        valid &= all(summary.valid for _row, summary in rows)
    if not valid:
        sys.exit(1)


def _played(paper: papers.Paper, wanted: list[papers.Row], plans: dict[str, Experiment],
            folder: Path, machine: str, jobs: int) -> list[tuple[papers.Row, "Summary"]]:
    """Rows with their results; rows of one experiment share those of the paper's first such one."""
    from lab.cli.played import play

    rows: list[tuple[papers.Row, Summary]] = []
    made: dict[str, Summary] = {}
    with shown() as progress:
        for row in wanted:
            plan = plans[row.name]
            place = next(one.folder for one in paper.rows if plans[one.name] == plan)
            if place not in made:
                progress.say(f"{paper.name}, {row.name}: {plan.name}")
                made[place] = play(plan, folder / place, machine, jobs,
                                   remembered_packages(None), progress)
            rows.append((row, made[place]))
    return rows
