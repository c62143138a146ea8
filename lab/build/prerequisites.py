# SPDX-License-Identifier: GPL-2.0-only
"""Patches that a folder of kernel/rfc stands on, as its cover letter names them.

Mails name such patches by their content, one line `prerequisite-patch-id: ID` each, in the order
they apply. `git format-patch --base` writes these lines, and b4 reads them. The patches are those
of other folders beside it, so a change there is noticed here.
"""

import re
from pathlib import Path

from lab.core import tools
from lab.core.errors import LabError, UsageError

COVER = "0000-"
"""How the cover letter of a folder begins."""
LINE = re.compile(r"^prerequisite-patch-id: ([0-9a-f]{40})$", re.MULTILINE)


def of(folder: Path) -> list[Path]:
    """The patches that come before those of the folder; UsageError names one that nobody has."""
    covers = sorted(folder.glob(f"{COVER}*.patch")) if folder.is_dir() else []
    wanted = [found for cover in covers for found in LINE.findall(cover.read_text())]
    if not wanted:
        return []
    others = [path for path in sorted(folder.parent.glob("*/*.patch"))
              if path.parent != folder and not path.name.startswith(COVER)]
    known = {patch_id(path): path for path in others}
    for name in wanted:
        if name not in known:
            raise UsageError(f"{folder.name} stands on a patch {name} that no folder beside it"
                             " has: `git patch-id --stable` says what each has")
    return [known[name] for name in wanted]


def patch_id(patch: Path) -> str:
    """What git calls a patch by its content, whatever its lines' numbers."""
    found = tools.run(["git", "patch-id", "--stable"], stdin=patch.read_bytes()).decode().split()
    if not found:
        raise LabError(f"{patch} changes nothing")
    return found[0]
