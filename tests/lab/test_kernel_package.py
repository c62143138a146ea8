# SPDX-License-Identifier: GPL-2.0-only
"""Packages of a kernel: what is refused at once, what the packages say, and what boots."""

import os
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

from lab.build import kernel_package
from lab.build.kernel_package import DATA, Wanted
from lab.core import tools
from lab.core.errors import LabError, UsageError
from tests import recorded
from tests.lab.calls import Call, call

__all__ = ["call"]
STOCK, OURS = "6.12.117+deb13-amd64", "6.12.117-pvsync"
MENU = f"""
menuentry 'Debian' --class os $menuentry_id_option 'gnulinux-simple-ab-12' {{
	linux /boot/vmlinuz-{STOCK} root=UUID=ab-12 ro quiet
}}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-ab-12' {{
	menuentry 'with {STOCK}' $menuentry_id_option 'gnulinux-{STOCK}-advanced-ab-12' {{
	menuentry 'with {OURS}' $menuentry_id_option 'gnulinux-{OURS}-advanced-ab-12' {{
	menuentry 'recovery' $menuentry_id_option 'gnulinux-{OURS}-recovery-ab-12' {{
}}
"""


@pytest.fixture(autouse=True)
def all_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "require", lambda *_, **__: None)


def test_refusals_take_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text"
    text.write_text("no setting\n")
    for wanted, why in (
        (Wanted("rt"), "choose from amd64, cloud-amd64"),
        (Wanted("amd64", sign=(tmp_path / "key", text)), "key cannot be read"),
        (Wanted("amd64", fragments=(text,)), "is no Kconfig setting"),
        (Wanted("amd64", lsmod=text), "names no module"),
        (Wanted("amd64", tree=tmp_path), "not a Linux tree"),
    ):
        with pytest.raises(UsageError, match=why):
            kernel_package.build(wanted, tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 20 << 30))
    with pytest.raises(UsageError, match="20 GiB free and the build takes 26"):
        kernel_package.check(Wanted("amd64"))
    kernel_package.check(Wanted("cloud-amd64"))


def pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A key and its certificate."""
    key, certificate = (folder / f"{name}.{kind}" for kind in ("key", "pem"))
    subprocess.run(["openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                    f"/CN={name}", "-keyout", key, "-out", certificate], check=True,
                   capture_output=True)
    return key, certificate


def test_keys_are_tried_at_once(tmp_path: Path) -> None:
    (key, _), (other, certificate) = pair(tmp_path, "first"), pair(tmp_path, "other")
    locked = tmp_path / "locked"
    subprocess.run(["openssl", "pkey", "-in", other, "-aes128", "-passout", "pass:word", "-out",
                    locked], check=True)
    kernel_package.check(Wanted("cloud-amd64", sign=(other, certificate)))
    for sign, why in (((key, certificate), "key is not the key of the certificate"),
                      ((certificate, other), "pem is no private key"),
                      ((other, key), "key is no certificate"),
                      ((locked, certificate), "locked is no private key without a passphrase")):
        with pytest.raises(UsageError, match=why):
            kernel_package.check(Wanted("cloud-amd64", sign=sign))


def packed(folder: Path, program: str) -> Path:
    """A package as the kernel's build makes it, with an EFI program in assembly for a kernel."""
    boot = folder / "stage/boot"
    boot.mkdir(parents=True)
    source, linked = folder / "a.S", folder / "a.o"
    source.write_text(program)
    subprocess.run(["gcc", "-c", source, "-o", linked], check=True)
    subprocess.run(["ld", "-m", "i386pep", "--subsystem", "10", "--enable-reloc-section", "-e",
                    "_start", linked, "-o", boot / f"vmlinuz-{OURS}"], check=True)
    control = folder / "stage/DEBIAN/control"
    control.parent.mkdir()
    control.write_text(f"Package: linux-image-{OURS}\nVersion: 1\nArchitecture: amd64\n"
                       "Maintainer: a <a@b>\nDescription: kernel\n")
    (control.parent / "md5sums").write_text(f"{'0' * 32}  boot/vmlinuz-{OURS}\n")
    made = folder / f"linux-image-{OURS}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", folder / "stage", made],
                   check=True, capture_output=True)
    return made


def test_a_signed_image_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the certificate that was given, and by no other; without a key it is as it was built."""
    image = packed(tmp_path, "\t.globl _start\n_start:\txor %eax, %eax\n\tret\n")
    given, other = pair(tmp_path, "given"), pair(tmp_path, "other")
    kernels = {}
    for name, sign in (("signed", given), ("plain", None)):
        out = tmp_path / name
        out.mkdir()
        made = kernel_package.finish(image, out, sign)
        subprocess.run(["dpkg-deb", "-R", made, out / "root"], check=True)
        kernels[name] = out / "root/boot" / f"vmlinuz-{OURS}"
        assert "Depends: pvsync-boot\n" in (out / "root/DEBIAN/control").read_text()

    def verifies(file: Path, certificate: Path) -> bool:
        return not subprocess.run(["sbverify", "--cert", certificate, file], check=False,
                                  capture_output=True).returncode
    assert [verifies(kernels["signed"], by[1]) for by in (given, other)] == [True, False]
    assert not verifies(kernels["plain"], given[1])
    built = tmp_path / "stage/boot" / f"vmlinuz-{OURS}"
    assert kernels["plain"].read_bytes() == built.read_bytes()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sbsign").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with pytest.raises(LabError, match="`sbverify --cert` failed"):
        kernel_package.finish(image, tmp_path / "bin", given)
    assert not list(folder.glob("*.deb")), "what is not signed is not handed out"


def test_what_is_missing_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(tools, "find", lambda name: None if name in {"dh_builddeb", "sbsign"}
                        else name)
    with pytest.raises(UsageError, match="debhelper"):
        kernel_package.check(Wanted("amd64"))
    with pytest.raises(UsageError, match=r"debhelper\b.* sbsigntool"):
        kernel_package.check(Wanted("amd64", sign=(Path("key"), Path("certificate"))))


def test_options_without_a_kernel(tmp_path: Path, call: Call) -> None:
    done = call("package", "--out", str(tmp_path), "--lsmod", "x")
    assert "are of --kernel FLAVOUR" in str(done) and [*tmp_path.iterdir()] == []


def test_the_image_needs_what_keeps_it_from_being_the_default() -> None:
    control = "Package: a\nVersion: 1\nDescription: b\n c\n"
    assert "\nDepends: pvsync-boot\nDescription: b" in kernel_package._depending(
        control, "pvsync-boot")
    control = control.replace("Version", "Depends: kmod\nVersion")
    assert "\nDepends: pvsync-boot, kmod\n" in kernel_package._depending(control, "pvsync-boot")


def test_the_package_that_chooses(tmp_path: Path) -> None:
    made = kernel_package.boot(tmp_path)
    listed = subprocess.run(["dpkg-deb", "--contents", made], capture_output=True, text=True,
                            check=True).stdout
    assert "-rwxr-xr-x root/root" in listed and "./usr/sbin/pvsync-boot" in listed
    assert "./etc/default/grub.d/pvsync.cfg" in listed
    about = subprocess.run(["dpkg-deb", "--info", made, "conffiles"], capture_output=True,
                           text=True, check=True).stdout
    assert about == "/etc/default/grub.d/pvsync.cfg\n"
    files = "dpkg-deb --fsys-tarfile pvsync-boot_*.deb | tar -t | grep -v '/$'"
    said = subprocess.run(["sh", "-c", files], cwd=tmp_path, capture_output=True, text=True,
                          check=True).stdout
    recorded.compare(recorded.DEBIAN, "The files of pvsync-boot", [(files, said)])


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root with two kernels and a menu; its GRUB tools note what they are told."""
    for folder in ("boot/grub", "etc", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (STOCK, "6.1.0-9-amd64", OURS):
        (tmp_path / "boot" / f"vmlinuz-{name}").touch()
    (tmp_path / "boot/grub/grub.cfg").write_text(MENU)
    for name in ("grub-reboot", "update-grub", "grub-editenv"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/told\n')
        program.chmod(0o755)
    (tmp_path / "bin/grub-probe").write_text(f'#!/bin/sh\ncat {tmp_path}/"$1"\n')
    (tmp_path / "bin/grub-probe").chmod(0o755)
    (tmp_path / "--target=abstraction").touch()
    (tmp_path / "--target=fs").write_text("ext2\n")
    (tmp_path / "bin/id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "bin/id").chmod(0o755)
    return tmp_path


def run(machine: Path, file: str, after: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One of the scripts as if this folder were the root."""
    text = (DATA / file).read_text()
    for place in ("/boot/", "/etc/pvsync-boot", "/etc/default/grub"):
        text = text.replace(place, f"{machine}{place}")
    return subprocess.run(["sh", "-c", text + after, "pvsync-boot", *arguments], text=True,
                          capture_output=True, check=False,
                          env={"PATH": f"{machine / 'bin'}:{os.environ['PATH']}"})


def default(machine: Path) -> str:
    done = run(machine, "pvsync.cfg", 'echo "$GRUB_TOP_LEVEL"')
    return done.stdout.strip().removeprefix(f"{machine}/boot/vmlinuz-")


def test_what_boots(machine: Path) -> None:
    """The newest other kernel, until told; a kernel that is gone is not waited for."""
    assert default(machine) == STOCK
    assert run(machine, "pvsync-boot", "", "once").returncode == 0
    assert (machine / "told").read_text() == (
        f"grub-reboot gnulinux-advanced-ab-12>gnulinux-{OURS}-advanced-ab-12\n")
    assert default(machine) == STOCK
    said = run(machine, "pvsync-boot", "", "always", OURS).stdout
    assert said == f"From now on {OURS} is booted.\n"
    assert (machine / "told").read_text().endswith("\nupdate-grub \n")
    assert default(machine) == OURS
    assert f"by default: {STOCK}\n" in run(machine, "pvsync-boot", "", "show").stdout, (
        "it is read from the menu, which a fake update-grub leaves alone")
    (machine / "boot" / f"vmlinuz-{OURS}").unlink()
    assert default(machine) == STOCK
    assert "no pvsync kernel is installed" in run(machine, "pvsync-boot", "", "once").stderr
    (machine / "boot" / f"vmlinuz-{OURS}").touch()
    assert run(machine, "pvsync-boot", "", "stock").returncode == 0
    assert default(machine) == STOCK and not (machine / "etc/pvsync-boot").exists()


@pytest.mark.parametrize(("arguments", "why"), [
    ((), "Usage: pvsync-boot once"), (("twice",), "Usage: pvsync-boot once"),
    (("once", "6.1.0-9-amd64"), "has no entry for 6.1.0-9-amd64: run update-grub"),
    (("always", "7.0"), "there is no kernel"),
])
def test_wrong_calls_change_nothing(machine: Path, arguments: tuple[str, ...], why: str) -> None:
    done = run(machine, "pvsync-boot", "", *arguments)
    assert done.returncode and why in done.stderr
    assert not (machine / "told").exists() and not (machine / "etc/pvsync-boot").exists()


@pytest.mark.parametrize(("target", "kind"), [
    ("abstraction", "lvm"), ("abstraction", "diskfilter\nlvm"), ("fs", "btrfs"), ("fs", "zfs")])
def test_once_would_be_always(machine: Path, target: str, kind: str) -> None:
    """Where GRUB cannot forget it: Proxmox' usual disks are LVM."""
    (machine / f"--target={target}").write_text(f"{kind}\n")
    done = run(machine, "pvsync-boot", "", "once")
    assert done.returncode and f"cannot write to {kind[:3]}" in done.stderr
    assert not (machine / "told").exists()
    assert run(machine, "pvsync-boot", "", "always").returncode == 0


def test_a_menu_without_submenu(machine: Path) -> None:
    menu = machine / "boot/grub/grub.cfg"
    menu.write_text("".join(line for line in MENU.splitlines(keepends=True)
                            if not line.startswith("submenu")))
    assert run(machine, "pvsync-boot", "", "once").returncode == 0
    assert (machine / "told").read_text() == f"grub-reboot gnulinux-{OURS}-advanced-ab-12\n"


def test_another_entry_than_the_first(machine: Path) -> None:
    """`always` puts the kernel first; where that is not what is booted it must not say so."""
    (machine / "etc/default").mkdir()
    (machine / "etc/default/grub").write_text("GRUB_DEFAULT=saved\n")
    done = run(machine, "pvsync-boot", "", "always")
    assert done.returncode and "GRUB_DEFAULT is saved" in done.stderr
    assert not (machine / "told").exists() and not (machine / "etc/pvsync-boot").exists()
    said = run(machine, "pvsync-boot", "", "show").stdout
    assert "by default: entry saved of GRUB's menu" in said


def test_a_machine_without_grub(machine: Path) -> None:
    (machine / "boot/grub/grub.cfg").unlink()
    assert "does not boot by GRUB" in run(machine, "pvsync-boot", "", "show").stderr
