# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of critical sections, in the host and in the guest: what a file may know of the others.
"""

import re
from pathlib import Path

import pytest

from lab.core import paths

OVERLAY = paths.ROOT / "kernel/overlay"
SIDES = {
    "arch/x86/kvm/pvsync": (
        ("record", "record.h"), ("section", "section.h"), ("extend", "loan.h"),
        ("share", "share.h"), ("switch", "")),
    "kernel/pvsync": (
        ("ecs_record", "ecs_record.h"), ("ecs_loan", "ecs_loan.h"), ("ecs_count", "ecs_count.h"),
        ("ecs_wait", "ecs_wait.h"), ("ecs_share", "ecs_share.h"), ("ecs", "ecs.h")),
}
"""Sources and headers by folder; each may include the headers of those before it, and its own."""
ROOMS = [(side, at) for side, rooms in SIDES.items() for at in range(len(rooms))]
INCLUDED = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)


def later(folder: Path, side: str, at: int) -> set[str]:
    """Headers of later rooms that this room includes, in its source or its header."""
    source, header = SIDES[side][at]
    files = [folder / f"{source}.c", *([folder / header] if header else [])]
    found = {name for file in files for name in INCLUDED.findall(file.read_text())}
    return found & {name for _, name in SIDES[side][at + 1:]}


@pytest.mark.parametrize(("side", "at"), ROOMS,
                         ids=[f"{side}/{SIDES[side][at][0]}" for side, at in ROOMS])
def test_includes_go_one_way(side: str, at: int) -> None:
    assert not later(OVERLAY / side, side, at)


def test_the_guest_s_files_are_all_in_a_room() -> None:
    folder = OVERLAY / "kernel/pvsync"
    names = {name for source, header in SIDES["kernel/pvsync"] for name in (f"{source}.c", header)}
    assert {path.name for path in folder.glob("ecs*.[ch]")} == names


def test_a_wrong_include_is_seen(tmp_path: Path) -> None:
    (tmp_path / "section.c").write_text('#include "record.h"\n#include "loan.h"\n')
    (tmp_path / "section.h").write_text("")
    assert later(tmp_path, "arch/x86/kvm/pvsync", 1) == {"loan.h"}
