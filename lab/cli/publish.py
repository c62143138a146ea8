# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync publish`: results for the pages of docs/results."""

from pathlib import Path

import click

from lab.cli.params import DIRECTORY
from lab.core import paths
from lab.core.errors import UsageError


@click.command(short_help="Put results into the pages of docs/results.")
@click.argument("directory", type=DIRECTORY, metavar="[DIR]", required=False)
@click.option("--name", help="Of data, picture and blocks; a new one takes the place of the old.")
def publish(directory: Path | None, name: str | None) -> None:
    """Keep the cells of DIR as docs/results/data/NAME.json, and show them.

    NAME.svg and what stands between `<!-- data: NAME -->` and `<!-- end -->` in pages there are
    made from it; without such a page, NAME.md begins one. DIR may also be of `reproduce`, of
    `sensitivity` or of `sweep`. Without DIR all is made again from the data that there are.
    """
    from lab.report import published

    if (directory is None) != (name is None):
        raise UsageError("Give DIR and --name, or neither of them.")
    if directory is None or name is None:
        written = published.render()
    else:
        written = published.publish(directory, name)
    for file in written:
        click.echo(f"Written: {file.relative_to(paths.ROOT)}")
