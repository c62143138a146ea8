# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync build`: all that a run boots."""

from pathlib import Path

import click

from lab.cli.options import kernel_options, remembered_packages
from lab.core.progress import shown


@click.command()
@kernel_options
def build(tree: Path | None, guest_packages: tuple[str, ...] | None) -> None:
    """Kernel, emulator and images, unless the cache has them."""
    from lab.build import images

    packages = remembered_packages(guest_packages)
    with shown() as progress:
        files = images.prepare("lab", tree, packages, progress)
    click.echo(f"Ready: kernel {files.kernel}, QEMU {files.qemu}.")
