# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync series`: the kernel sources as overlay and patches."""

from contextlib import suppress
from pathlib import Path

import click

from lab.build import base, documents, gitseries, rfc, series, trial
from lab.cli.options import tree_options
from lab.core import paths
from lab.core.errors import LabError, UsageError
from lab.core.progress import shown
from lab.core.scratch import Scratch


def default_git_tree() -> Path:
    """Where `series import` puts its tree."""
    return paths.cache_dir() / "series-tree"


@click.group("series")
def group() -> None:
    """Apply, import, export, count and check the kernel sources."""


@group.command("apply")
@click.argument("tree", type=click.Path(path_type=Path))
def apply_command(tree: Path) -> None:
    """Apply the overlay and the patches to the clean Linux tree TREE.

    Where hunks do not apply, it says of each what becomes of it, and leaves the tree as it is.
    """
    version = base.version_of(tree)
    patches = _series_for(tree, version)
    result = series.apply(tree, series=patches)
    click.echo(result.log(), nl=False)
    click.echo(
        f"{tree} (Linux {version}): {len(result.overlay)} new file(s), {len(result.patches)}"
        f" patch(es), {len(result.offsets)} hunk(s) with an offset"
    )


def _series_for(tree: Path, version: str) -> Path:
    """The series for a tree; LabError, with a line for each hunk, when it does not apply."""
    known = [series.of_version(f"{name}.0") for name in base.names()]
    with suppress(UsageError):
        known = [series.of_version(version)]
    patches, hunks = trial.best(tree, known)
    bad = trial.bad(hunks)
    if not bad:
        return patches
    for hunk in bad:
        click.echo(hunk)
    failed = sum(hunk.fails for hunk in bad)
    raise LabError(
        f"{tree} (Linux {version}): of {len(hunks)} hunks of {patches}, {failed} do not apply"
        f" and {len(bad) - failed} with less context only; the tree is as it was"
    )


@group.command("import")
@click.option("--to", "to", type=click.Path(path_type=Path), help="Folder of the git tree.")
@tree_options
def import_command(to: Path | None, tree: Path | None) -> None:
    """Make a git tree of the base, the overlay and one commit for each patch."""
    with shown() as progress:
        source = base.source(tree, progress)
        made = gitseries.import_series(
            source.tree,
            to or default_git_tree(),
            series=series.of_version(source.version),
            progress=progress,
        )
    click.echo(f"{made}: edit and commit there, then `./pvsync series export`")


@group.command("export")
@click.option("--from", "origin", type=click.Path(path_type=Path), help="Folder of the git tree.")
def export_command(origin: Path | None) -> None:
    """Write the git tree's commits to the series of its base."""
    tree = (origin or default_git_tree()).absolute()
    result = gitseries.export_series(tree, series=series.of_version(base.version_of(tree)))
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
        f" {count.hunks} hunk(s), {count.documented} line(s) for readers"
    )


@group.command("count")
def count_command() -> None:
    """Say how much the patches touch, and what each base allows."""
    for name in base.names():
        patches = series.of_version(f"{name}.0")
        for path in series.patch_files(patches):
            for change in series.parse_patch(path).files:
                click.echo(f"{path.name}: {change.path}: +{change.added} -{change.removed}")
        budget = base.read_base(base.folder(name) / base.FILE).budget
        click.echo(f"Linux {name}: {describe(series.count(patches), budget)}")


@group.command("check")
@tree_options
def check_command(tree: Path | None) -> None:
    """Fail when the series is over budget, moves, or would not export as it is.

    Also if MAINTAINERS does not name each of our files, or checkpatch objects to a page. On a usual
    base also when a folder of kernel/rfc is no whole series, does not apply, or checkpatch objects.
    """
    with shown() as progress:
        source = base.source(tree, progress)
    limits = base.read_base(base.folder(base.of_version(source.version)) / base.FILE)
    patches = series.of_version(source.version)
    count = series.count(patches)
    problems = count.over(limits.budget)
    with Scratch() as scratch:
        result = series.render(source.tree, series.OVERLAY, patches, scratch)
        problems += documents.problems(source.tree, result.overlay, scratch)
    problems += rfc.objections(source.tree, patches)
    for offset in result.offsets:
        click.echo(f"offset: {offset}")
    if not result.offsets:
        # Moved hunks come out with new line numbers, rightly.
        for name in gitseries.round_trip(source.tree, patches):
            problems.append(f"{name} is not what `./pvsync series export` would write")
    elif source.version in limits.tested:
        problems.append(f"{len(result.offsets)} hunk(s) moved on Linux {source.version}: export")
    usual = base.of_version(source.version) == base.USUAL and source.version in limits.tested
    mails = [rfc.check(source.tree, folder) for folder in rfc.folders()] if usual else []
    problems += [problem for mail in mails for problem in mail.problems]
    if problems:
        raise LabError("; ".join(problems))
    click.echo(f"Linux {source.version}: {describe(count, limits.budget)}")
    for mail in mails:
        click.echo(f"rfc/{mail.name}: {mail.patches} patch(es), which apply and are clean")
