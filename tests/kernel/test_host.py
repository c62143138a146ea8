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
