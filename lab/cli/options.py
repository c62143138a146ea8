# SPDX-License-Identifier: GPL-2.0-only
"""Options that several commands have, and what they mean."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lab.cli.params import Names
from lab.core import paths

F = TypeVar("F", bound=Callable[..., Any])
PACKAGES_FILE = "guest-packages.txt"
LIST_WIDTH = 160
"""Of listings that go to a pipe or a file."""
DIRECTORY = click.Path(path_type=Path)
BACKENDS = click.Choice(["auto", "vt", "tcg", "kvm", "local"])


def kernel_options(command: F) -> F:
    """Options of everything that needs a kernel and images."""
    for option in (
        click.option("--tree", type=DIRECTORY, envvar="PVSYNC_TREE",
                     help="Another Linux 6.12.y: a folder or a tarball."),
        click.option("--guest-packages", type=Names(),
                     help="Debian packages to have in the guests; remembered."),
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
