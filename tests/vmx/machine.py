# SPDX-License-Identifier: GPL-2.0-only
"""A machine with VMX for a KVM host: Bochs, which boots a kernel and a few files from a CD.

QEMU's emulator has SVM alone. Bochs has VMX, with EPT, VPID and pause-loop exits, but no
virtio, and makes about 30 million instructions a second: enough for small machines.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import time
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.build import userland
from lab.build.kernel import KernelImage
from lab.core import tools
from lab.core.progress import Silent
from lab.machine import console

HERE = Path(__file__).parent
ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
LOADER = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
QEMU = "usr/bin/qemu-system-x86_64-microvm"
FIRMWARE = ("usr/share/seabios/bios-microvm.bin", "usr/share/qemu/linuxboot_dma.bin")
ENDED = re.compile(r"(?m)^\[[ \d.]+\] said: ended: (\d+)$")
"""The last line of a console, with the status of its script; not those of its guests."""
DIE_AT_ONCE = ("setpriv", "--pdeathsig", "KILL")
"""Before a command that the kernel ends with us, as SIGTERM only stops Bochs in its debugger."""
QUIET = "console=ttyS0 quiet panic=-1 oops=panic printk.devkmsg=on"
MENU = """\
SERIAL 0 115200
DEFAULT linux
PROMPT 0
LABEL linux
  KERNEL /bzImage
  INITRD /files
  APPEND {}
"""


class MachineError(Exception):
    """The machine did not get to the end of its script; says what it said last."""


def add_init(root: Path, script: str, programs: tuple[str, ...]) -> None:
    """Files that every small system has: its first process, a shell, `programs` of the lab."""
    (root / "bin").mkdir(parents=True)
    shutil.copy(HERE / "init", root / "init")
    shutil.copy("/bin/busybox", root / "bin/busybox")
    (root / "script").write_text(script)
    for name in programs:
        userland.compile_program(userland.PROGRAMS / f"{name}.c", root / "bin" / name)


def add_qemu(root: Path) -> None:
    """Debian 13's QEMU for microvm, with its libraries and firmware."""
    source = userland.emulator_root(Silent())
    libraries = source / "usr/lib/x86_64-linux-gnu"
    linker = "lib64/ld-linux-x86-64.so.2"
    listed = tools.run([source / linker, "--library-path", libraries, "--list", source / QEMU])
    wanted = [source / QEMU, source / linker]
    wanted += [Path(word) for word in listed.decode().split() if word.startswith(str(libraries))]
    for path in wanted:
        target = root / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (root / "firmware").mkdir()
    for name in FIRMWARE:
        shutil.copy(source / name, root / "firmware")


def pack(root: Path, target: Path) -> None:
    """Write a compressed initial RAM file system."""
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, check=True,
                             input=names.encode(), capture_output=True).stdout
    subprocess.run(["zstd", "-q", "-3", "-o", target], input=archive, check=True)


def make_disc(kernel: KernelImage, root: Path, folder: Path, arguments: str) -> Path:
    """CD image that boots this kernel with the files of `root`; `arguments` are its own."""
    (folder / "disc/isolinux").mkdir(parents=True)
    shutil.copy(kernel.bzimage, folder / "disc/bzImage")
    pack(root, folder / "disc/files")
    for path in (ISOLINUX, LOADER):
        shutil.copy(path, folder / "disc/isolinux")
    (folder / "disc/isolinux/isolinux.cfg").write_text(MENU.format(f"{QUIET} {arguments}"))
    tools.run(["xorriso", "-as", "mkisofs", "-quiet", "-o", folder / "disc.iso",
               "-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot",
               "-boot-load-size", "4", "-boot-info-table", folder / "disc"])
    return folder / "disc.iso"


@contextmanager
def _bochs(folder: Path, replaced: Mapping[str, str]) -> Iterator[int]:
    """Bochs in the background; the terminal that it shows its screen on, to be read."""
    text = (HERE / "bochsrc").read_text()
    for name, value in replaced.items():
        text = text.replace(name, value)
    (folder / "bochsrc").write_text(text)
    (folder / "continue").write_text("c\n")     # Debian's stops in its debugger first
    screen, inside = pty.openpty()
    process = subprocess.Popen(
        [*DIE_AT_ONCE, "bochs", "-q", "-f", folder / "bochsrc", "-rc", folder / "continue"],
        stdin=inside, stdout=inside, stderr=inside, env={**os.environ, "TERM": "vt100"})
    try:
        os.close(inside)
        yield screen
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def run(disc: Path, folder: Path, timeout: float) -> str:
    """Boot it; what the console said when the script of the first process had ended.

    MachineError when that is not within `timeout` seconds.
    """
    end = time.monotonic() + timeout
    said = b""
    reader, inside = pty.openpty()
    tty.setraw(inside)
    try:
        replaced = {"@CONSOLE@": os.ttyname(inside), "@DISC@": str(disc)}
        with _bochs(folder, replaced) as screen:
            while not ENDED.search(console.clean(said)):
                ready, _, _ = select.select([reader, screen], [], [], 1)
                for terminal in ready:
                    data = _read(terminal)
                    said += data if terminal == reader else b""
                    if not data:
                        raise MachineError(f"Bochs ended early: {console.clean(said)[-2000:]}")
                if time.monotonic() > end:
                    raise MachineError(f"not within {timeout:.0f} s: {console.clean(said)[-2000:]}")
    finally:
        os.close(reader)
        os.close(inside)
        (folder / "console.log").write_bytes(said)
    return console.clean(said)


def _read(terminal: int) -> bytes:
    """Empty at the end of it, which Linux tells as an error."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
