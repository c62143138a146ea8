# SPDX-License-Identifier: GPL-2.0-only
"""What of our kernel sources is for readers alone: Linux's Documentation, and MAINTAINERS.

No kernel differs by it, so it counts neither for a kernel's hash nor for the budget of hooks.
"""

import fnmatch
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.core import tools
from lab.core.scratch import Scratch

MAINTAINERS = "MAINTAINERS"
ENTRY = re.compile(r"^PVSYNC\b.*\n((?:\w:\t.*\n)+)", re.MULTILINE)
"""Ours in MAINTAINERS."""
PATTERN = re.compile(r"^F:\t(.+)$", re.MULTILINE)
SELF_TEST = ("scripts/get_maintainer.pl", "--self-test=sections")


def is_document(path: str) -> bool:
    """Whether a file of Linux, by its path there, is for readers alone."""
    return path == MAINTAINERS or path.startswith("Documentation/")


def problems(base: Path, overlay: Iterable[str], rendered: Path) -> list[str]:
    """What is wrong with our entry in MAINTAINERS, one sentence each; [] for a series without one.

    `overlay` are the paths of our new files, and `rendered` has the files that the series changes.
    """
    file = rendered / MAINTAINERS
    if not file.is_file():
        return []
    entry = ENTRY.search(file.read_text())
    if not entry:
        return [f"{MAINTAINERS} has no entry whose name begins with PVSYNC"]
    return [*unmatched(PATTERN.findall(entry[1]), overlay), *_objections(base, file)]


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Files that no F: line names, and F: lines that name none, one sentence each."""
    names, patterns = list(names), list(patterns)
    named = {pattern: {name for name in names if _matches(pattern, name)} for pattern in patterns}
    return [
        *(f"{MAINTAINERS}: no F: line names {name}" for name in names
          if not any(name in found for found in named.values())),
        *(f"{MAINTAINERS}: `F: {pattern}` names no file of ours" for pattern in patterns
          if not named[pattern]),
    ]


def _matches(pattern: str, name: str) -> bool:
    """As MAINTAINERS has it: a folder's pattern ends with a slash, and `*` stays in a folder."""
    if pattern.endswith("/"):
        return name.startswith(pattern)
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def _objections(base: Path, file: Path) -> list[str]:
    """What the base's own test of MAINTAINERS says of our entry."""
    tools.require("perl")
    with Scratch() as scratch:
        for path in base.iterdir():
            if path.name != MAINTAINERS:
                (scratch / path.name).symlink_to(path)
        (scratch / MAINTAINERS).symlink_to(file)
        done = subprocess.run(["perl", *SELF_TEST], cwd=scratch, capture_output=True, text=True,
                              errors="replace", check=False)
    said = (done.stdout + done.stderr).splitlines()
    if done.returncode:
        return [f"{SELF_TEST[0]} fails: {' '.join(said)}"]
    return [line.strip() for line in said if re.search(r"\bPVSYNC\b", line)]
