# SPDX-License-Identifier: GPL-2.0-only
"""An operator's host: Debian 13 with systemd, libvirt and tuned, emulated.

Its kernel is the lab's with pvsync, without AppArmor, or Debian's own or a packaged one, with it.
Its root is read-only and in the cache. Memory on top of it takes what is written, and a disk keeps
that from boot to boot. The lab's hostd runs there as a service, and what an operator types goes
through it.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from lab.build import emulator, kernel, mmdebstrap, package, userland
from lab.core import content, tools
from lab.core.model import Backend
from lab.core.progress import Plain, Progress
from lab.core.scratch import Scratch
from lab.machine.machine import HostSpec, Machine
from lab.run import host as jobs

FILES = Path(__file__).parent / "debian"
SUITE = mmdebstrap.Suite(13, "trixie")
PACKAGES = (
    "apparmor", "dbus", "e2fsprogs", "iproute2", "kmod", "libvirt-clients",
    "libvirt-daemon-system", "procps", "prometheus-node-exporter", "python3", "qemu-system-x86",
    "systemd", "systemd-sysv", "tuned", "udev",
)
STOCK = "linux-image-cloud-amd64"
"""The package of Debian's kernel for machines that are virtual."""
LAB = "usr/lib/lab"
"""Where the lab's own files are in there, out of the way of pvsync's package."""
ARGUMENTS = ("init=/usr/lib/lab/init", "systemd.machine_id=0123456789abcdef0123456789abcdef")
PATIENT = ("systemd.mask=tuned.service", "udev.event_timeout=900")
"""For a kernel with many modules, which takes minutes to load KVM there, and tuned's limit."""
FIRST = ("virtio_pci", "virtio_blk", "erofs")
"""Modules without which such a host does not find its root."""
SESSION = "session.txt"
"""Among the logs: what was typed, and what it said."""
MEMORY = 3072
"""MiB."""
DISK = 4 << 30
"""Bytes of all that it may have written when it goes down; the file is sparse."""
ENVIRONMENT = "DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8"
BOOT_S = 400.0
"""Seconds for a boot: 60 were seen, with two CPUs for the emulator."""
COMMAND_S = 300.0
"""Seconds that a command may take, unless told."""


@dataclass
class Host:
    """A Debian host that runs, or that is about to boot again."""

    spec: HostSpec
    logs: Path
    progress: Progress
    brought: bool = True
    """Whether its first disk of its own has files for /run/files."""
    boots: int = 0
    machine: Machine | None = None

    def boot(self) -> None:
        """Start it, and wait until systemd has started all that it is to start."""
        self.boots += 1
        with self.progress.stage(f"boot {self.boots} of Debian {SUITE.version}"):
            self.machine = Machine(self.spec, self.logs / f"boot{self.boots}")
            self.machine.start(BOOT_S)
            if self.sh("systemctl is-system-running --wait", None, BOOT_S) != "running":
                self.sh("systemctl --failed; journalctl -b -q -p warning")
            if self.brought:
                jobs.mount(self.machine.control, jobs.device(self.spec, 0), jobs.FILES)

    def sh(self, command: str, status: int | None = 0, timeout: float = COMMAND_S) -> str:
        """Type a command; what it says. AssertionError for another status, None takes any."""
        assert self.machine is not None, "it is not up"
        ended, said = self.machine.control.run("sh", "-c", f"export {ENVIRONMENT}; {command}",
                                                timeout=timeout)
        self._note(command, ended, said)
        assert status is None or ended == status, f"{command}: {ended}: {said}"
        return said.rstrip("\n")

    def _note(self, command: str, status: int, said: str) -> None:
        """Add to the session's file."""
        with (self.logs / SESSION).open("a") as file:
            ended = f"[status {status}]\n" if status else ""
            file.write(f"# {command}\n{said}{'' if said.endswith(chr(10)) or not said else chr(10)}"
                       f"{ended}")

    def reboot(self) -> None:
        """As an operator does it, and up again."""
        self.sh("systemctl --no-block reboot")
        self.down()
        self.boot()

    def down(self) -> None:
        """Wait until it is off; end what does not go by itself."""
        if self.machine is not None:
            if self.machine.proc is not None:
                try:
                    self.machine.proc.wait(BOOT_S)
                finally:
                    self.machine.stop(polite=False)
            self.machine = None


def image(progress: Progress, packages: Sequence[str] = PACKAGES,
          more: Mapping[str, Path] = MappingProxyType({})) -> Path:
    """Its root, in the cache; `more` are files by their paths in it."""
    inside = {f"{LAB}/{name}": userland.TARGET / name
              for name in content.files_below(userland.TARGET)}
    inside |= {f"{LAB}/{file.name}": file for file in FILES.iterdir()}
    return userland.image_with("debian", SUITE, packages, inside | dict(more), progress)


@dataclass(frozen=True)
class Booted:
    """What such a host is booted from."""

    root: Path
    bzimage: Path
    initial: Path | None = None
    """The initial file system of a kernel whose drivers are modules."""


Choice = Callable[[Path, Progress], Booted]
"""What makes that, with room in a folder that goes with the host."""


def of_lab(_folder: Path, progress: Progress) -> Booted:
    """One with the lab's kernel."""
    return Booted(image(progress), kernel.build("lab", progress=progress).bzimage)


def stock(folder: Path, progress: Progress) -> Booted:
    """One with Debian's kernel."""
    packages = (*PACKAGES, STOCK)
    root = image(progress, packages)
    # The image has what this has, and more.
    user = userland.entry(SUITE, userland.check_packages(packages), progress) / "root"
    (bzimage,) = (user / "boot").glob("vmlinuz-*")
    release = bzimage.name.removeprefix("vmlinuz-")
    return Booted(root, bzimage, initial(folder, user, release))


def initial(folder: Path, root: Path, release: str) -> Path:
    """Make an initial file system in `folder`, with the modules of `root` that a host needs first.

    Debian's own knows nothing of erofs.
    """
    place = folder / "initial"
    (place / "modules").mkdir(parents=True)
    (place / "root").mkdir()
    listed = tools.run(["modprobe", "-d", root, "-S", release, "--show-depends", "-a", *FIRST])
    names = [Path(line.split()[1]) for line in listed.decode().splitlines()
             if line.startswith("insmod")]
    for number, name in enumerate(dict.fromkeys(names)):
        unpacked = tools.run(["xz", "--decompress", "--stdout", name])
        (place / f"modules/{number:02}.ko").write_bytes(unpacked)
    shutil.copy("/bin/busybox", place)
    shutil.copy(FILES / "initial", place / "init")
    return archive(place, folder / "initial.cpio")


def archive(place: Path, out: Path) -> Path:
    """Make an initial file system of what is in a folder."""
    files = [file.relative_to(place) for file in sorted(place.rglob("*"))]
    out.write_bytes(tools.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=place,
                              stdin="\n".join(map(str, files)).encode()))
    return out


@contextmanager
def up(bring: Sequence[Path], backend: Backend, progress: Progress, logs: Path,
       choice: Choice = of_lab) -> Iterator[Host]:
    """A host after its first boot, with these files in /run/files."""
    with Scratch() as scratch:
        chosen = choice(scratch, progress)
        extra = ("-initrd", str(chosen.initial)) if chosen.initial else ()
        arguments = (*ARGUMENTS, *(PATIENT if chosen.initial else ()))
        found = jobs.Files(tuple(emulator.prepare(progress).command()), chosen.bzimage, chosen.root)
        disk = scratch / "disk"
        disk.touch()
        os.truncate(disk, DISK)
        job = jobs.Job((), backend=backend, memory=MEMORY, args=arguments)
        spec = jobs.spec(job, found, [jobs.pack(bring, scratch)])
        spec = replace(spec, extra=(*spec.extra, *extra,
            "-drive", f"id=own,file={disk},format=raw,if=none,cache=unsafe",
            "-device", "virtio-blk-pci,drive=own"))
        made = Host(spec, logs, progress)
        try:
            made.boot()
            yield made
        finally:
            if made.machine is not None:
                made.machine.stop(polite=False)


@contextmanager
def with_tools(tmp_path_factory: pytest.TempPathFactory, played_by: Backend,
               pytestconfig: pytest.Config, choice: Choice = of_lab) -> Iterator[Host]:
    """A host after its first boot, with the tools' package in /run/files, for a module of tests."""
    folder = tmp_path_factory.mktemp("debian")
    captured = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert captured is not None
    with captured.global_and_fixture_disabled():
        print(f"\nwhat is typed and said: {folder}/{SESSION}", flush=True)
        with up([package.build(folder)], played_by, Plain(), folder, choice) as made:
            yield made
