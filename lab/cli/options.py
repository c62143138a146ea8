# SPDX-License-Identifier: GPL-2.0-only
"""Options that several commands have, and what they mean."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lab.build import base
from lab.cli.params import DIRECTORY, Names
from lab.core import paths
from lab.core.errors import UsageError
from lab.core.progress import silence

F = TypeVar("F", bound=Callable[..., Any])
PACKAGES_FILE = "guest-packages.txt"
BASE = "pvsync.base"
"""Where a command keeps the folder of the base that was chosen."""
BACKENDS = click.Choice(["auto", "vt", "tcg", "kvm", "local"])

QUIET = click.option("-q", "--quiet", is_flag=True, expose_value=False,
                     callback=lambda ctx, _, wanted: silence(wanted),
                     help="Show no progress, only results and errors.")


def tree_options(command: F) -> F:
    """--tree, and --base, which names one of the trees that there are series for.

    The command gets `tree` alone: a base is the folder of its file there.
    """
    for option in (
        click.option("--tree", type=DIRECTORY, envvar="PVSYNC_TREE", callback=_tree,
                     help="Another Linux of a base: a folder or a tarball."),
        click.option("--base", is_eager=True, expose_value=False, callback=_base, metavar="RELEASE",
                     help=f"Another Linux: {' or '.join(base.names())}; {base.USUAL} unless told."),
    ):
        command = option(command)
    return command


def _base(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    context.meta[BASE] = base.folder(name) if name else None


def _tree(context: click.Context, parameter: click.Parameter, tree: Path | None) -> Path | None:
    chosen: Path | None = context.meta.get(BASE)
    if chosen and tree:
        raise UsageError(f"Give --base, or --tree or ${base.ENV_TREE}, not both.")
    return chosen or tree


def kernel_options(command: F) -> F:
    """Options of everything that needs a kernel and images."""
    for option in (
        tree_options,
        click.option("--guest-packages", type=Names(),
                     help="Debian packages to have in the guests; remembered."),
        QUIET,
    ):
        command = option(command)
    return command


def remembered_packages(given: tuple[str, ...] | None) -> tuple[str, ...]:
    """Extra guest packages: those given now, or the last that were given."""
    from lab.build.userland import check_packages
    from lab.run import records

    file = paths.cache_dir() / PACKAGES_FILE
    if given is not None:
        given = check_packages(given)
        records.replace(file, "\n".join(given))
    return tuple(file.read_text().split()) if file.exists() else ()
