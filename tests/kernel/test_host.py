# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync host`: a program in the KVM host, with its files, parameters and status."""

import subprocess
from pathlib import Path

import pytest

from lab.core import paths

pytestmark = pytest.mark.virtual

SCRIPT = """#!/bin/sh
[ -c /dev/kvm ] && cat /sys/module/pvsync/parameters/mark "$1"
head -c 4 "$PVSYNC_DISK"
exit 7
"""
LINES = 13_500
"""93 KB as the port carries them: it takes a third at once, and asyncio may keep the rest."""
LIMIT_S = 900


def test_a_program_in_the_host(tmp_path: Path) -> None:
    script, more, disk = (tmp_path / name for name in ("script", "more", "disk"))
    script.write_text(SCRIPT)
    script.chmod(0o755)
    more.write_text("brought\n")
    disk.write_bytes(b"disk" + bytes(1020))
    done = subprocess.run(
        [paths.ROOT / "pvsync", "host", "--variant", "test", "--set", "mark=exit", "--bring",
         script, "--bring", more, "--disk", disk, "--", "./script", "more"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "exit\nbrought\ndisk"), done


def test_more_output_than_a_port_takes_at_once() -> None:
    """hostd stops its machine only when all that it has said is on its way."""
    done = subprocess.run(
        [paths.ROOT / "pvsync", "host", "--variant", "test", "--backend", "vt", "--",
         "seq", str(LINES)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(line) for line in range(1, LINES + 1)]
