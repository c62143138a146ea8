# SPDX-License-Identifier: GPL-2.0-only
"""A kernel in QEMU's emulator without a KVM host: boots in seconds, and has no host to talk to."""

import base64
import gzip
import subprocess
from pathlib import Path

from lab.build import images
from lab.core.progress import Silent
from lab.machine import tsc
from lab.machine.guest import BOOT_ARGS
from lab.machine.machine import accelerator

LIMIT_S = 120
"""For a boot to where it finds no root; 2 were seen."""
LONGEST_LINE = 2047
"""Bytes of a kernel's command line."""
MOUNTS = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /run; mount -t debugfs debugfs /sys/kernel/debug
"""
END = "\necho script ended; sync; echo b >/proc/sysrq-trigger; sleep 60\n"


def boot(*parameters: str) -> str:
    """What a kernel with two CPUs says that has no root, and so comes to its end by itself."""
    files = images.prepare("test", None, (), Silent())
    arguments = [one for one in BOOT_ARGS if not one.startswith(("loglevel=", "root="))]
    said = _run(files, 2, [*arguments, *parameters], [], LIMIT_S)
    assert "Unable to mount root fs" in said
    return said


def run(script: str, *parameters: str, cpus: int, limit_s: float, host: bool = False) -> str:
    """What a shell script prints that is the only process of a guest's root, or of a host's.

    A host has KVM, on a processor with SVM.
    """
    files = images.prepare("test", None, (), Silent())
    without = ("loglevel=", "init=", *(("initcall_blacklist=",) if host else ()))
    arguments = [one for one in BOOT_ARGS if not one.startswith(without)]
    words = [*arguments, *tsc.kernel_arguments("tcg"), "loglevel=1", *parameters, init(script)]
    assert len(" ".join(words)) <= LONGEST_LINE
    said = _run(files, cpus, words, disk(files.host_image if host else files.guest_image), limit_s)
    assert "script ended" in said, said
    return said


def init(script: str) -> str:
    """The script as arguments of a kernel: in letters, as quotes and lines have a meaning there."""
    text = MOUNTS + script + END
    packed = gzip.compress(text.encode(), mtime=0)
    while len(packed) % 3:  # else base64 ends in equals signs, which have one, too
        text += " "
        packed = gzip.compress(text.encode(), mtime=0)
    return f'init=/bin/sh -- -c "echo {base64.b64encode(packed).decode()}|base64 -d|gzip -d|sh"'


def disk(image: Path) -> list[str]:
    """QEMU's arguments for a root."""
    return ["-drive", f"id=root,file={image},format=raw,if=none,readonly=on",
            "-device", "virtio-blk-pci,drive=root"]


def _run(files: images.Images, cpus: int, arguments: list[str], more: list[str],
         limit_s: float) -> str:
    done = subprocess.run(
        [*files.emulator, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
         "-M", "q35", *accelerator("tcg"), "-smp", str(cpus), "-m", "512M", "-serial", "stdio",
         "-kernel", str(files.guest_kernel), "-append", " ".join(arguments), *more],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        timeout=limit_s, check=True)
    print(done.stdout)
    return done.stdout
