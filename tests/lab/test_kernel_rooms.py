# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of critical sections and of TLB shootdown, in the host and in the guest.

Each room may know of those before it only.
"""

import re
from pathlib import Path

import pytest

from lab.core import paths

OVERLAY = paths.ROOT / "kernel/overlay"
HOST, GUEST = "arch/x86/kvm/pvsync", "kernel/pvsync"
SIDES = {
    HOST: (
        ("tlb_flush", "tlb_flush.h"), ("tlb_settle", "tlb_settle.h"), ("tlb", "tlb.h"),
        ("record", "record.h"), ("section", "section.h"), ("extend", "loan.h"),
        ("share", "share.h"), ("switch", "")),
    GUEST: (
        ("tlb_mechanism", "tlb_mechanism.h"), ("tlb_stat", "tlb_stat.h"), ("tlb_ask", "tlb_ask.h"),
        ("tlb_user", "tlb_user.h"), ("tlb_kernel", "tlb_kernel.h"), ("tlb", ""),
        ("ecs_record", "ecs_record.h"), ("ecs_loan", "ecs_loan.h"), ("ecs_count", "ecs_count.h"),
        ("ecs_wait", "ecs_wait.h"), ("ecs_share", "ecs_share.h"), ("ecs", "ecs.h")),
}
"""Sources and headers by folder; each may include the headers of those before it, and its own.

Neither side's shootdown knows of critical sections: its rooms come first.
"""
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


@pytest.mark.parametrize(("side", "prefix"), [(HOST, "tlb"), (GUEST, "tlb"), (GUEST, "ecs")])
def test_files_of_a_mechanism_are_all_in_a_room(side: str, prefix: str) -> None:
    names = {name for source, header in SIDES[side] for name in (f"{source}.c", header)}
    found = {path.name for path in (OVERLAY / side).glob(f"{prefix}*.[ch]")}
    assert found
    assert found == {name for name in names if name.startswith(prefix)}


def test_a_wrong_include_is_seen(tmp_path: Path) -> None:
    (tmp_path / "section.c").write_text('#include "record.h"\n#include "loan.h"\n')
    (tmp_path / "section.h").write_text("")
    assert later(tmp_path, HOST, SIDES[HOST].index(("section", "section.h"))) == {"loan.h"}
