# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: the repository's own folders and the cache."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "lab"


def is_checkout() -> bool:
    """Whether all of the sources are here, and not an installed part of them."""
    return (ROOT / "pvsync").is_file()


KERNEL = ROOT / "kernel" if (ROOT / "kernel" / "overlay").is_dir() else LAB / "kernel"
"""A checkout and a sweep's worker have our kernel sources beside the lab; an installation has
them in the package, see pyproject.toml."""


def cache_dir() -> Path:
    """Folder of everything that can be made again; created when missing.

    $PVSYNC_CACHE, else $XDG_CACHE_HOME/pvsync, else ~/.cache/pvsync.
    """
    named = os.environ.get("PVSYNC_CACHE")
    if named:
        path = Path(named)
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pvsync"
    path.mkdir(parents=True, exist_ok=True)
    return path
