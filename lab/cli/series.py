# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync series`: the kernel sources as overlay and patches."""

from pathlib import Path

import click

from lab.build import base, gitseries, series
from lab.core import paths
from lab.core.errors import LabError
from lab.core.progress import shown
from lab.core.scratch import Scratch

TREE = click.option(
    "--tree",
    type=click.Path(path_type=Path),
    help="Another Linux 6.12.y: an unpacked folder or a tarball.",
)


def default_git_tree() -> Path:
    """Where `series import` puts its tree."""
    return paths.cache_dir() / "series-tree"


@click.group("series")
def group() -> None:
    """Apply, import, export, count and check the kernel sources."""


@group.command("apply")
@click.argument("tree", type=click.Path(path_type=Path))
def apply_command(tree: Path) -> None:
    """Apply the overlay and the patches to the clean Linux tree TREE."""
    version = base.version_of(tree)
    result = series.apply(tree)
    click.echo(result.log(), nl=False)
    click.echo(
        f"{tree} (Linux {version}): {len(result.overlay)} new file(s), {len(result.patches)}"
        f" patch(es), {len(result.offsets)} hunk(s) with an offset"
    )


@group.command("import")
@click.option("--to", "to", type=click.Path(path_type=Path), help="Folder of the git tree.")
@TREE
def import_command(to: Path | None, tree: Path | None) -> None:
    """Make a git tree of the base, the overlay and one commit for each patch."""
    with shown() as progress:
        source = base.source(tree, progress)
        made = gitseries.import_series(source.tree, to or default_git_tree(), progress=progress)
    click.echo(f"{made}: edit and commit there, then `./pvsync series export`")


@group.command("export")
@click.option("--from", "origin", type=click.Path(path_type=Path), help="Folder of the git tree.")
def export_command(origin: Path | None) -> None:
    """Write the git tree's commits to kernel/series."""
    result = gitseries.export_series((origin or default_git_tree()).absolute())
    for verb, names in (("wrote", result.written), ("removed", result.removed)):
        for name in names:
            click.echo(f"{verb} {name}")
    total = len(result.written) + len(result.unchanged)
    click.echo(f"{total} patch(es), {len(result.unchanged)} unchanged")


def describe(count: series.Count, budget: base.Budget) -> str:
    """One line with the size of the series and its budget."""
    return (
        f"{count.patches} patch(es): {count.files} of {budget.files} existing files touched,"
        f" {count.added} of {budget.added} lines added, {count.removed} removed,"
        f" {count.hunks} hunk(s)"
    )


@group.command("count")
def count_command() -> None:
    """Say how much the patches touch, and what kernel/BASE allows."""
    for path in series.patch_files():
        for change in series.parse_patch(path).files:
            click.echo(f"{path.name}: {change.path}: +{change.added} -{change.removed}")
    click.echo(describe(series.count(), base.read_base().budget))


@group.command("check")
@TREE
def check_command(tree: Path | None) -> None:
    """Fail when the series is over budget, moves, or would not export as it is."""
    limits = base.read_base()
    count = series.count()
    problems = count.over(limits.budget)
    with shown() as progress:
        source = base.source(tree, progress)
    with Scratch() as scratch:
        result = series.render(source.tree, series.OVERLAY, series.SERIES, scratch)
    for offset in result.offsets:
        click.echo(f"offset: {offset}")
    if not result.offsets:
        # Moved hunks come out with new line numbers, rightly.
        for name in gitseries.round_trip(source.tree):
            problems.append(f"{name} is not what `./pvsync series export` would write")
    elif source.version in limits.tested:
        problems.append(f"{len(result.offsets)} hunk(s) moved on Linux {source.version}: export")
    if problems:
        raise LabError("; ".join(problems))
    click.echo(f"Linux {source.version}: {describe(count, limits.budget)}")
