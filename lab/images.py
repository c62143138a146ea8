# SPDX-License-Identifier: GPL-2.0-only
"""Everything that a run boots, as plain paths and strings."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.progress import Progress


@dataclass(frozen=True)
class Images:
    """Files and commands on this machine, and what they are."""

    host_kernel: Path
    guest_kernel: Path
    host_image: Path
    guest_image: Path
    emulator: tuple[str, ...]
    """Start of QEMU's command line on this machine."""
    kernel: str
    """Release string and content hash."""
    base_version: str
    config_hash: str
    qemu: str


def prepare(variant: str, tree: Path | None, packages: Iterable[str],
            progress: Progress) -> Images:
    """Build what the cache lacks."""
    from lab import emulator, kernel, userland  # heavy, and not needed for --dry-run

    userland.prepare(packages, progress)
    machine = emulator.prepare(progress)
    image = kernel.build(variant, tree=tree, progress=progress)
    return Images(
        host_kernel=image.bzimage, guest_kernel=image.bzimage,
        host_image=userland.host_image(image, progress),
        guest_image=userland.guest_image(image, packages, progress),
        emulator=tuple(machine.command()), kernel=f"{image.release} {image.hash}",
        base_version=image.base_version, config_hash=image.config_hash, qemu=machine.version)


PLACEHOLDERS = Images(
    Path("KERNEL"), Path("KERNEL"), Path("HOST-IMAGE"), Path("GUEST-IMAGE"),
    ("qemu-system-x86_64",), "", "", "", "")
"""Stand for files that --dry-run does not build."""
