# SPDX-License-Identifier: GPL-2.0-only
"""An operator's host: Debian 13 with systemd, libvirt and tuned, on a pvsync kernel, emulated.

Its root is read-only and in the cache. Memory on top of it takes what is written, and a disk keeps
that from boot to boot. The lab's hostd runs there as a service, and what an operator types goes
through it. AppArmor is not in the lab's kernel.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lab.build import emulator, kernel, mmdebstrap, userland
from lab.core import content
from lab.core.model import Backend
from lab.core.progress import Progress
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
LAB = "usr/lib/lab"
"""Where the lab's own files are in there, out of the way of pvsync's package."""
ARGUMENTS = ("init=/usr/lib/lab/init", "systemd.machine_id=0123456789abcdef0123456789abcdef")
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


def image(progress: Progress) -> Path:
    """Its root, in the cache."""
    inside = {f"{LAB}/{name}": userland.TARGET / name
              for name in content.files_below(userland.TARGET)}
    inside |= {f"{LAB}/{file.name}": file for file in FILES.iterdir()}
    return userland.image_with("debian", SUITE, PACKAGES, inside, progress)


@contextmanager
def up(bring: Sequence[Path], backend: Backend, progress: Progress,
       logs: Path) -> Iterator[Host]:
    """A host after its first boot, with these files in /run/files."""
    built = kernel.build("lab", progress=progress)
    found = jobs.Files(tuple(emulator.prepare(progress).command()), built.bzimage,
                       image(progress))
    with Scratch() as scratch:
        disk = scratch / "disk"
        disk.touch()
        os.truncate(disk, DISK)
        job = jobs.Job((), backend=backend, memory=MEMORY, args=ARGUMENTS)
        spec = jobs.spec(job, found, [jobs.pack(bring, scratch)])
        spec = replace(spec, extra=(*spec.extra,
            "-drive", f"id=own,file={disk},format=raw,if=none,cache=unsafe",
            "-device", "virtio-blk-pci,drive=own"))
        made = Host(spec, logs, progress)
        try:
            made.boot()
            yield made
        finally:
            if made.machine is not None:
                made.machine.stop(polite=False)
