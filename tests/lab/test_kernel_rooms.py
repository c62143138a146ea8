# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of the host's critical sections: what a file may know of the others."""

import re
from pathlib import Path

import pytest

from lab.core import paths

KVM = paths.ROOT / "kernel/overlay/arch/x86/kvm/pvsync"
ROOMS = (("record", "record.h"), ("section", "section.h"), ("extend", "loan.h"),
         ("share", "share.h"), ("switch", ""))
"""Source and header; each may include the headers of those before it, and its own."""
INCLUDED = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)


def later(folder: Path, at: int) -> set[str]:
    """Headers of later rooms that this room includes, in its source or its header."""
    source, header = ROOMS[at]
    files = [folder / f"{source}.c", *([folder / header] if header else [])]
    found = {name for file in files for name in INCLUDED.findall(file.read_text())}
    return found & {name for _, name in ROOMS[at + 1:]}


@pytest.mark.parametrize("at", range(len(ROOMS)), ids=[source for source, _ in ROOMS])
def test_includes_go_one_way(at: int) -> None:
    assert not later(KVM, at)


def test_a_wrong_include_is_seen(tmp_path: Path) -> None:
    (tmp_path / "section.c").write_text('#include "record.h"\n#include "loan.h"\n')
    (tmp_path / "section.h").write_text("")
    assert later(tmp_path, 1) == {"loan.h"}
