# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync package`: Debian packages of operators' tools, and of a kernel."""

from pathlib import Path

import click

from lab.cli.options import QUIET
from lab.cli.params import DIRECTORY
from lab.core.errors import UsageError
from lab.core.progress import shown

FILE = click.Path(path_type=Path)


@click.command(short_help="Debian packages: operators' tools, or a kernel.")
@click.option("--out", type=DIRECTORY, default=".", show_default=True, help="Folder to put it in.")
@click.option("--kernel", "flavour", metavar="FLAVOUR",
              help="A kernel with Debian's configuration of this flavour: amd64 for hosts,"
                   " cloud-amd64 for guests.")
@click.option("--config", "fragments", type=FILE, multiple=True, metavar="FRAGMENT",
              help="Kconfig settings on top; may be repeated.")
@click.option("--lsmod", type=FILE, help="Leave out modules that this output of lsmod lacks.")
@click.option("--sign", type=FILE, nargs=2, metavar="KEY CERT", default=None,
              help="Sign the kernel's image for Secure Boot.")
@click.option("--tree", type=FILE, help="Another Linux, as of `build --tree`.")
@QUIET
def package(out: Path, flavour: str | None, fragments: tuple[Path, ...], lsmod: Path | None,
            sign: tuple[Path, Path] | None, tree: Path | None) -> None:
    """Make pvsync-tools_VERSION_all.deb: set, show, reset, apply, try, doctor, export and top.

    For Debian 12 and later. With --kernel make linux-image, linux-headers and pvsync-boot for
    Debian 13 instead; amd64 takes hours on 2 cores.
    """
    from lab.build import kernel_package
    from lab.build import package as packaging

    if not out.is_dir():
        raise UsageError(f"there is no folder {out}: make it, or name another one with --out")
    if flavour is None:
        if fragments or lsmod or sign or tree:
            raise UsageError("--config, --lsmod, --sign and --tree are of --kernel FLAVOUR")
        click.echo(packaging.build(out))
        return
    wanted = kernel_package.Wanted(flavour, fragments, lsmod, sign, tree)
    with shown() as progress:
        made = kernel_package.build(wanted, out, progress)
    for file in made:
        click.echo(file)
