# SPDX-License-Identifier: GPL-2.0-only
"""The emulator: Debian's QEMU source with lab/qemu applied, which makes nested guests survive.

Why the packaged one does not do, and what the patches cure, is in
docs/results/nested-lab.md. Firmware comes from Debian's packages, out of the
userland that also is the KVM host's root.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from lab.build import qemu, userland
from lab.core import paths, tools
from lab.core.errors import UsageError
from lab.core.progress import Progress, Silent

OVERLAY = paths.LAB / "qemu/overlay"
SERIES = paths.LAB / "qemu/series"
ENV_QEMU = "PVSYNC_QEMU"
"""Names another qemu-system-x86_64 to play the host."""
FIRMWARE = ("usr/share/qemu", "usr/share/seabios")
"""Folders in that userland."""


@dataclass(frozen=True)
class Emulator:
    """A qemu-system-x86_64 and the firmware for it."""

    program: Path
    firmware: tuple[Path, ...]
    version: str
    """Such as 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1, lab/qemu a1b2c3d4e5f6)."""

    def command(self) -> list[str]:
        """The start of a command line."""
        folders = [word for folder in self.firmware for word in ("-L", str(folder))]
        return [str(self.program), *folders]


def prepare(progress: Progress | None = None, update: bool = False) -> Emulator:
    """The emulator, as `qemu.prepare` has it.

    Raises what that raises, and UsageError when $PVSYNC_QEMU names no program.
    """
    progress = progress or Silent()
    named = os.environ.get(ENV_QEMU)
    if named and not os.access(named, os.X_OK):
        raise UsageError(f"${ENV_QEMU} names {named}, which is no program: correct or unset it")
    recipe = qemu.Recipe("emulator", "lab/qemu", OVERLAY, SERIES)
    program = Path(named) if named else qemu.prepare(recipe, progress, update)
    said = tools.run([program, "--version"]).decode().splitlines()[0]
    root = userland.emulator_root(progress)
    return Emulator(
        program,
        tuple(root / folder for folder in FIRMWARE),
        said.removeprefix("QEMU emulator version "),
    )
