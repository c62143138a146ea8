# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync build`: all that a run boots."""

from pathlib import Path

import click

from lab.cli.options import kernel_options, remembered_packages
from lab.core.progress import shown


@click.command()
@click.option("--update", is_flag=True,
              help="Take the versions that Debian's mirror has now, not those in the cache.")
@kernel_options
def build(tree: Path | None, guest_packages: tuple[str, ...] | None, update: bool) -> None:
    """Kernel, emulator and images, unless the cache has them."""
    from lab.build import images

    packages = remembered_packages(guest_packages)
    with shown() as progress:
        files = images.prepare("lab", tree, packages, progress, update=update)
    click.echo(f"Ready: kernel {files.kernel}, QEMU {files.qemu}.")
