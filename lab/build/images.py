# SPDX-License-Identifier: GPL-2.0-only
"""Everything that a run boots, as plain paths and strings."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lab.core.model import Experiment
from lab.core.progress import Progress


@dataclass(frozen=True)
class GuestFiles:
    """What guests of one kernel variant boot."""

    variant: str
    kernel: Path
    image: Path


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
    """Release string and content hash; of the host's and of `others` too, if there are any."""
    base_version: str
    config_hash: str
    qemu: str
    others: tuple[GuestFiles, ...] = ()
    """For guests with another kernel."""

    @property
    def images(self) -> str:
        """Names of the roots, each the cache entry's, that is a hash of what is in it."""
        roots = (self.host_image, self.guest_image, *(one.image for one in self.others))
        return " ".join(root.parent.name for root in roots)


def prepare(variant: str, tree: Path | None, packages: Iterable[str],
            progress: Progress, host_variant: str = "", others: Iterable[str] = (), *,
            update: bool = False) -> Images:
    """Build what the cache lacks.

    `host_variant` is the host's, unless it is the guests'; `others` are further
    ones of guests. With `update` Debian's mirror is asked for newer packages.
    """
    from lab.build import base, emulator, kernel, userland  # heavy; --dry-run needs none of them

    base.check_tree(tree)  # a wrong one is refused before anything is built
    userland.prepare(packages, progress, update)
    machine = emulator.prepare(progress, update)
    image = kernel.build(variant, tree=tree, progress=progress)
    host = kernel.build(host_variant or variant, tree=tree, progress=progress)
    names = f"{image.release} {image.hash}"
    if host != image:
        names += f", host {host.release} {host.hash}"
    more = []
    for name in others:
        other = kernel.build(name, tree=tree, progress=progress)
        names += f", {name} {other.release} {other.hash}"
        root = userland.guest_image(other, packages, progress)
        more.append(GuestFiles(name, other.bzimage, root))
    return Images(
        host_kernel=host.bzimage, guest_kernel=image.bzimage,
        host_image=userland.host_image(host, progress),
        guest_image=userland.guest_image(image, packages, progress),
        emulator=tuple(machine.command()), kernel=names,
        base_version=image.base_version, config_hash=image.config_hash, qemu=machine.version,
        others=tuple(more))


def of_experiment(experiment: Experiment, tree: Path | None, packages: Iterable[str],
                  progress: Progress) -> Images:
    """`prepare` for all guests of an experiment, and its host."""
    usual, *others = experiment.guest_variants()
    return prepare(usual, tree, packages, progress, experiment.host_variant, others)


PLACEHOLDERS = Images(
    Path("KERNEL"), Path("KERNEL"), Path("HOST-IMAGE"), Path("GUEST-IMAGE"),
    ("qemu-system-x86_64",), "", "", "", "")
"""Stand for files that --dry-run does not build."""


def placeholders(experiment: Experiment) -> Images:
    """The same, for all guests of an experiment."""
    others = (GuestFiles(name, Path(f"KERNEL-{name}"), Path(f"GUEST-IMAGE-{name}"))
              for name in experiment.guest_variants()[1:])
    return replace(PLACEHOLDERS, others=tuple(others))
