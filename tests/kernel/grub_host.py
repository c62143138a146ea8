# SPDX-License-Identifier: GPL-2.0-only
"""An operator's machine: Debian 13 on a disk that its BIOS and GRUB boot, emulated.

QEMU boots it once, as a stick does for an installer, and GRUB goes onto the disk there. What is
typed is typed in that boot. What the BIOS and GRUB boot after it is seen on a copy of the disk, up
to where the kernel says how it was called.
"""

import os
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.build import emulator, userland
from lab.core import content, tools
from lab.core.model import Backend
from lab.core.progress import Progress
from lab.core.scratch import Scratch
from lab.machine.machine import HostSpec, accelerator
from tests.kernel import firmware
from tests.kernel.debian_host import FILES, LAB, STOCK, SUITE, Host

PACKAGES = ("dbus", "e2fsprogs", "grub-pc", "kmod", STOCK, "procps", "python3", "systemd",
            "systemd-sysv", "udev")
MEMORY = 1024
"""MiB."""
START, SIZE = 1 << 20, 2 << 30
"""Bytes before the only partition, where GRUB has its own, and of the partition."""
LONGEST = 500
"""Characters of what is said in place of that."""
SECTOR = 512
DISK = "/dev/vdd"
"""It comes after what every host of the lab has."""
BROUGHT = "root/packages"
"""Where the files are that are brought."""
GRUB = """\
GRUB_TIMEOUT=0
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND=serial
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=ttyS0 earlyprintk=ttyS0 tsc=reliable no_timer_check"
"""
INSTALL = f"grub-install {DISK} && update-grub"


CALLED = re.compile(r"Command line: BOOT_IMAGE=/boot/vmlinuz-(\S+)\s")
"""What a kernel says that GRUB has started."""
LIMIT_S = 900.0
"""Seconds until it does; 20 are usual on an idle machine."""
STEADY = "sync; fsfreeze --freeze /; fsfreeze --unfreeze /"
"""GRUB does not look into the file system's journal, so nothing may be there alone."""


@dataclass(frozen=True)
class Debian:
    """The machine, and its disk."""

    host: Host
    disk: Path

    def boots(self, times: int) -> list[str]:
        """Which kernels GRUB takes at so many boots from here on, which the machine itself never
        sees."""
        self.host.sh(STEADY)
        copy = self.disk.with_name("copy")
        tools.run(["cp", self.disk, copy])
        spec = self.host.spec
        command = [*spec.emulator, "-nodefaults", "-no-user-config", "-display", "none", "-M",
                   "q35", *accelerator(spec.backend), "-m", f"{MEMORY}M", "-serial", "stdio",
                   "-drive", f"file={copy},format=raw,if=none,id=disk,cache=unsafe",
                   "-device", "virtio-blk-pci,drive=disk"]
        said = [firmware.said_until(command, CALLED, LIMIT_S) for _ in range(times)]
        return [found[1] if (found := CALLED.search(one)) else one[-LONGEST:] for one in said]


def root(folder: Path, progress: Progress) -> Path:
    """Debian's files and the lab's hand in it, in `folder`."""
    made = userland.entry(SUITE, userland.check_packages(PACKAGES), progress) / "root"
    tools.run(["cp", "--archive", "--reflink=auto", made, folder])
    inside = folder / LAB
    for name in content.files_below(userland.TARGET):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes((userland.TARGET / name).read_bytes())
    units = folder / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    (units / "lab-hostd.service").write_text((FILES / "lab-hostd.service").read_text())
    (units / "multi-user.target.wants/lab-hostd.service").symlink_to("../lab-hostd.service")
    (folder / "etc/dpkg/dpkg.cfg.d/99mmdebstrap").unlink(missing_ok=True)
    (folder / "etc/fstab").write_text("LABEL=root / ext4 defaults 0 1\n")
    settings = folder / "etc/default/grub.d/lab.cfg"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(GRUB)
    return folder


def disk(files: Path, out: Path) -> None:
    """Make a disk with one partition, which has these files."""
    with out.open("wb") as made:
        entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff",
                            START // SECTOR, SIZE // SECTOR)
        made.write(entry.rjust(446 + len(entry), b"\0").ljust(SECTOR - 2, b"\0") + b"\x55\xaa")
        os.truncate(out, START + SIZE)
    tools.run(["mkfs.ext4", "-q", "-F", "-L", "root", "-E", f"offset={START}", "-d", files, out,
               f"{SIZE >> 10}k"])


@contextmanager
def up(bring: list[Path], backend: Backend, progress: Progress, logs: Path) -> Iterator[Debian]:
    """Such a machine, with GRUB on its disk and these files in /root/packages."""
    with Scratch() as scratch:
        files, own = root(scratch / "root", progress), scratch / "disk"
        (files / BROUGHT).mkdir()
        for file in bring:
            shutil.copy(file, files / BROUGHT)
        (kernel,) = (files / "boot").glob("vmlinuz-*")
        (inside,) = (files / "boot").glob("initrd.img-*")
        initial = scratch / "initial"
        shutil.move(inside, initial)
        inside.touch()  # GRUB takes long to load it, and no kernel gets that far
        disk(files, own)
        spec = HostSpec(
            backend, 2, MEMORY, kernel, initial, initial, initial,
            tuple(emulator.prepare(progress).command()),
            args=(f"root={DISK}1", "rootfstype=ext4", "rw", "init=/sbin/init"),
            extra=("-initrd", str(initial),
                   "-drive", f"id=own,file={own},format=raw,if=none,cache=unsafe,file.locking=off",
                   "-device", "virtio-blk-pci,drive=own"))
        made = Host(spec, logs, progress, brought=False)
        try:
            made.boot()
            made.sh(INSTALL, timeout=LIMIT_S)
            yield Debian(made, own)
        finally:
            if made.machine is not None:
                made.machine.stop(polite=False)
