# SPDX-License-Identifier: GPL-2.0-only
"""Secure Boot: a firmware that has our key starts what `package --kernel --sign` signs, only that.

The firmware is Debian's OVMF with the key that its packages have for tests. An EFI program that
says a word stands for the kernel, in a package as the kernel's build makes it.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.build import kernel_package, userland
from tests.kernel.firmware import said_until
from tests.lab.test_kernel_package import OURS, packed

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]
FIRMWARE = Path("/usr/share/OVMF")
CODE, VARIABLES = FIRMWARE / "OVMF_CODE_4M.secboot.fd", FIRMWARE / "OVMF_VARS_4M.snakeoil.fd"
KEY, CERTIFICATE = (FIRMWARE.with_name("ovmf") / f"PkKek-1-snakeoil.{kind}"
                    for kind in ("key", "pem"))
PASSPHRASE = "snakeoil"
"""Of that key, by the package's documentation."""
WORD = "started"
PROGRAM = f"""\
	.globl _start
_start:
	sub $40, %rsp
	mov 64(%rdx), %rcx	# ConOut
	lea text(%rip), %rdx
	call *8(%rcx)		# OutputString
	add $40, %rsp
	xor %eax, %eax
	ret
text:
	.string16 "{WORD}\\r\\n"
"""
OVER = re.compile(f"{WORD}|No bootable option")
LIMIT_S = 300.0
"""Seconds for a firmware to say either; 15 are usual."""


def emulator() -> list[str]:
    """Debian's own, which has a machine with a firmware that keeps its variables to itself."""
    root = userland.emulator_root()
    libraries = root / "usr/lib/x86_64-linux-gnu"
    return [str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path",
            f"{libraries}:{libraries / 'pulseaudio'}", str(root / "usr/bin/qemu-system-x86_64"),
            "-L", str(root / "usr/share/qemu"), "-L", str(root / "usr/share/seabios")]


def said(kernel: Path, folder: Path) -> str:
    """What a firmware with that key says that finds this on a disk, until it has started it or
    given up."""
    disk = folder / "disk"
    (disk / "EFI/BOOT").mkdir(parents=True)
    shutil.copy(kernel, disk / "EFI/BOOT/BOOTX64.EFI")
    shutil.copy(VARIABLES, folder / "variables")
    return said_until(
        [*emulator(), "-nodefaults", "-machine", "q35,smm=on", "-accel", "tcg", "-cpu", "max",
         "-m", "512", "-display", "none", "-serial", "stdio",
         "-global", "driver=cfi.pflash01,property=secure,value=on",
         "-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={CODE}",
         "-drive", f"if=pflash,format=raw,unit=1,file={folder / 'variables'}",
         "-drive", f"file=fat:rw:{disk},format=raw,if=none,id=disk",
         "-device", "virtio-blk-pci,drive=disk"], OVER, LIMIT_S)


def test_only_what_is_signed_is_started(tmp_path: Path) -> None:
    for file in (CODE, VARIABLES, KEY, CERTIFICATE):
        assert file.exists(), f"{file} is missing: run `make deps`"
    key = tmp_path / "key"
    subprocess.run(["openssl", "pkey", "-in", KEY, "-passin", f"pass:{PASSPHRASE}", "-out", key],
                   check=True)
    deb, found = packed(tmp_path, PROGRAM), {}
    for name, sign in (("signed", (key, CERTIFICATE)), ("plain", None)):
        folder = tmp_path / name
        folder.mkdir()
        made = kernel_package.finish(deb, folder, sign)
        subprocess.run(["dpkg-deb", "-x", made, folder / "root"], check=True)
        found[name] = said(folder / f"root/boot/vmlinuz-{OURS}", folder)
    assert WORD in found["signed"], found
    assert WORD not in found["plain"] and "Access Denied" in found["plain"], found
