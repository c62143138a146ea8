# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync package`: a Debian package of operators' tools."""

from pathlib import Path

import click

from lab.cli.options import DIRECTORY
from lab.core.errors import UsageError


@click.command(short_help="A Debian package of operators' tools.")
@click.option("--out", type=DIRECTORY, default=".", show_default=True, help="Folder to put it in.")
def package(out: Path) -> None:
    """Make pvsync-tools_VERSION_all.deb: set, show, reset, apply, try, doctor, export and top.

    For Debian 12 and later. No kernel is in it.
    """
    from lab.build import package as packaging

    if not out.is_dir():
        raise UsageError(f"there is no folder {out}")
    click.echo(packaging.build(out))
