# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: the repository's own folders and the cache."""

import os
import pwd
from pathlib import Path

from lab.core.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "lab"
PAGES = Path("/usr/share/doc/pvsync-tools")
"""Where the Debian package has the operators' pages."""


def is_checkout() -> bool:
    """Whether all of the sources are here, and not an installed part of them."""
    return (ROOT / "pvsync").is_file()


def page(name: str) -> str:
    """Where a reader finds a page of docs/: in a checkout, from the package, or in the sources."""
    packaged = PAGES / name
    return str(packaged) if not is_checkout() and packaged.is_file() else f"docs/{name}"


KERNEL = ROOT / "kernel" if (ROOT / "kernel" / "overlay").is_dir() else LAB / "kernel"
"""A checkout and a sweep's worker have our kernel sources beside the lab; an installation has
them in the package, see pyproject.toml."""


def cache_dir() -> Path:
    """Folder of everything that can be made again; created when missing.

    $PVSYNC_CACHE, else $XDG_CACHE_HOME/pvsync, else ~/.cache/pvsync. Without HOME, as services of
    systemd are, ~ is the user's home; UsageError when there is none.
    """
    named = os.environ.get("PVSYNC_CACHE")
    if named:
        path = Path(named)
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "pvsync"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _home() -> Path:
    home = os.environ.get("HOME")
    if not home:
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = ""
    if not home:
        raise UsageError("there is no place for the cache: set HOME or PVSYNC_CACHE")
    return Path(home)
