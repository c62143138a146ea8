# SPDX-License-Identifier: GPL-2.0-only
"""A monitor that knows pvsync: Debian's QEMU source with lab/qemu/monitor applied.

It chooses what a VM has of pvsync, and saves and restores it. It is small (KVM, microvm and q35
alone), and static, as the KVM host has other libraries than the machine that builds it.
"""

from pathlib import Path

from lab.build import qemu
from lab.build.emulator import FIRMWARE
from lab.core import paths
from lab.core.progress import Progress, Silent

FOLDER = paths.LAB / "qemu/monitor"
CONFIGURE = ("--static", "--disable-tcg")


def prepare(progress: Progress | None = None) -> Path:
    """The program, as `qemu.prepare` has it."""
    recipe = qemu.Recipe("monitor", "lab/qemu/monitor", FOLDER / "overlay", FOLDER / "series",
                         CONFIGURE)
    return qemu.prepare(recipe, progress or Silent())


def command(program: str) -> list[str]:
    """The start of a command line in the KVM host, where the program lies at this path."""
    return [program, *(word for folder in FIRMWARE for word in ("-L", f"/{folder}"))]
