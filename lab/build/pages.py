# SPDX-License-Identifier: GPL-2.0-only
"""The operators' pages as the package of the tools has them, where the rest of the sources is not.

A link to a page that is not installed becomes its path in the sources, as text; `./pvsync top`
becomes `pvsync top`.
"""

import os
import re
from pathlib import PurePosixPath

from lab.core import paths

PAGES = ("operators.md", "install.md", "boot-parameters.md", "sessions.md", "sessions-debian.md")
"""Of docs/; the first two lead to the others."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
NOTE = ("*Paths such as docs/results/README.md are in the sources of pvsync, version {version}: the"
        " pages in this\nfolder are those for operators.*\n")
TYPED = re.compile(r"(?<![\w/])\./pvsync (?=([a-z]+)\b)")
HEAD = re.compile(r"(?m)^# .*\n")


def installed(page: str, version: str) -> str:
    """The text of one of PAGES as it is installed, with NOTE below its head."""
    here = (paths.LAB / "cli/operators.txt").read_text().split()
    text = TYPED.sub(lambda typed: "pvsync " if typed[1] in here else typed[0],
                     (paths.ROOT / "docs" / page).read_text())
    return HEAD.sub(lambda head: f"{head[0]}\n{NOTE.format(version=version)}",
                    LINK.sub(_link, text), count=1)


def _link(found: re.Match[str]) -> str:
    text, target = found[1], found[2]
    if target in PAGES or ":" in target:
        return found[0]
    path = os.path.normpath(PurePosixPath("docs") / target)
    named = " ".join(text.split()).strip("`") in {path, PurePosixPath(path).name}
    return path if named else f"{text} ({path})"
