# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync package --kernel`: Debian packages of a pvsync kernel for machines of one's own.

Debian's own configuration of the base's release, our settings on top, and the kernel's own
`make bindeb-pkg`. Beside the image and its headers comes pvsync-boot, without which a kernel
with a newer name would be what the machine boots by default.
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.build import base, debian, kernel, make, package, series
from lab.core import content, paths, tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Silent
from lab.core.scratch import Scratch
from lab.plan import kconfig

FLAVOURS = {"amd64": 26, "cloud-amd64": 9}
"""Debian's configurations that are offered, and GiB that a build of each takes."""
SUITE = "trixie"
"""Debian's that has the configuration of a base that names no suite."""
FRAGMENT = "package"
"""Of kernel/configs: what all packages have on top of Debian's configuration."""
PACKAGES = {"dpkg-buildpackage": "dpkg-dev", "dh_builddeb": "debhelper", "rsync": "rsync",
            "cpio": "cpio", "openssl": "openssl", "/usr/include/openssl/opensslv.h": "libssl-dev"}
"""What shows them -> Debian packages that other builds do not need."""
SIGNING = {"sbsign": "sbsigntool", "sbverify": "sbsigntool"}
LSMOD = re.compile(r"(?m)^[A-Za-z0-9_]+\s+\d+\s")
DATA = package.DATA
BOOT = "pvsync-boot"
BOOT_CONTROL = """\
Package: {name}
Version: {version}
Architecture: all
Section: admin
Priority: optional
Maintainer: {maintainer}
Description: keeps pvsync kernels from being booted by default until told to
 GRUB boots the newest kernel that is not of pvsync, until pvsync-boot says
 otherwise: once for a try, or from now on.
"""


@dataclass(frozen=True)
class Wanted:
    """What the kernel is to be."""

    flavour: str
    """Of FLAVOURS."""
    fragments: tuple[Path, ...] = ()
    """Kconfig fragments on top."""
    lsmod: Path | None = None
    """What `lsmod` said on a machine: of Debian's modules only these are built."""
    sign: tuple[Path, Path] | None = None
    """Key and certificate, PEM, for Secure Boot."""
    tree: Path | None = None
    """As of `./pvsync build --tree`."""


def check(wanted: Wanted) -> None:
    """UsageError, in a moment, when something is missing that the build needs."""
    also = PACKAGES | (SIGNING if wanted.sign else {})
    tools.require(*kernel.NEEDED, *also, also=also)
    if wanted.flavour not in FLAVOURS:
        raise UsageError(f"Debian has no flavour {wanted.flavour} that is known here: choose from"
                         f" {', '.join(FLAVOURS)}")
    for file in (*wanted.fragments, *(wanted.sign or ()), *filter(None, [wanted.lsmod])):
        if not os.access(file, os.R_OK) or not file.is_file():
            raise UsageError(f"{file} cannot be read: name a file that exists")
    kconfig.merge(wanted.fragments)
    if wanted.sign:
        _check_keys(*wanted.sign)
    if wanted.lsmod and not LSMOD.search(wanted.lsmod.read_text(errors="replace")):
        raise UsageError(f"{wanted.lsmod} names no module: give it what `lsmod` prints")
    base.check_tree(wanted.tree)
    need = FLAVOURS["cloud-amd64" if wanted.lsmod else wanted.flavour]
    cache = paths.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free >> 30
    if free < need:
        raise UsageError(f"{cache} has {free} GiB free and the build takes {need}: make room, or"
                         " set PVSYNC_CACHE to a folder that has it")


def _check_keys(key: Path, certificate: Path) -> None:
    """UsageError unless sbsign can sign with them: hours later it would be too late."""
    public = []
    for file, what, command in (
            (key, "private key without a passphrase", ("pkey", "-passin", "pass:", "-pubout")),
            (certificate, "certificate", ("x509", "-noout", "-pubkey"))):
        try:
            public.append(tools.run(["openssl", *command, "-in", file]))
        except LabError:
            raise UsageError(f"{file} is no {what} in PEM form: --sign takes KEY CERT") from None
    if public[0] != public[1]:
        raise UsageError(f"{key} is not the key of the certificate {certificate}: name a pair")


def build(wanted: Wanted, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Make the packages in `folder`: image, headers and pvsync-boot.

    UsageError as `check`; LabError when Debian's configuration cannot be had, when a setting
    does not hold, or when make fails, with its log.
    """
    progress = progress or Silent()
    check(wanted)
    source = base.source(wanted.tree, progress)
    ours = [kconfig.CONFIGS / f"{name}.config" for name in ("pvsync", FRAGMENT)]
    settings = kernel.settings([*ours, *wanted.fragments], source.version)
    work = paths.cache_dir() / f"work-{source.identity}"
    work.mkdir(exist_ok=True)
    with content.lock("kernel-package", progress):
        tree = work / "src-package"
        kernel.sync_tree(source.tree, tree, series.OVERLAY, series.of_version(source.version),
                         progress)
        place = work / f"package-{wanted.flavour}"
        place.mkdir(exist_ok=True)
        with make.guarded(place / "obj"):
            run = make.Make(tree, place / "obj", place / "build.log", kernel.LOCALVERSION,
                            f"kernel {wanted.flavour}")
            _configure(wanted, source.version, settings, place / "obj", run)
            made = _debs(run, place, source.version, progress)
        return [finish(made["image"], folder, wanted.sign),
                Path(shutil.copy(made["headers"], folder)), boot(folder)]


def _configure(wanted: Wanted, version: str, settings: Mapping[str, kconfig.Setting],
               objects: Path, run: make.Make) -> None:
    """Debian's configuration and ours on top; every setting of ours has to hold."""
    release = base.of_version(version)
    suite = base.read_base(base.folder(release) / base.FILE).suite or SUITE
    packed = debian.tarball(f"linux-config-{release}", suite,
                            f"linux-config-{release}/config.amd64_none_{wanted.flavour}.xz")
    config = objects / ".config"
    text = tools.run(["xz", "--decompress", "--stdout", str(packed)]).decode()
    if not any(map(_assigned, text.splitlines())):
        raise LabError(f"{packed} is no configuration of a kernel: remove it and try again")
    kept = [line for line in text.splitlines() if _assigned(line) not in settings]
    config.write_text("\n".join(kept) + "\n" + kconfig.allconfig(settings))
    if wanted.lsmod:
        run.targets("localmodconfig", variables={"LSMOD": str(wanted.lsmod.resolve())})
        config.write_text(config.read_text() + kconfig.allconfig(settings))
    run.targets("olddefconfig")
    kconfig.check(config.read_text(), settings, version)


def _assigned(line: str) -> str:
    """The name that a line of a .config gives a value; empty for other lines."""
    match = kconfig.SETTING.fullmatch(line) or kconfig.UNSET.fullmatch(line)
    return match[1] if match else ""


def _debs(run: make.Make, place: Path, version: str, progress: Progress) -> dict[str, Path]:
    """The packages that the kernel's own build makes, by what they hold."""
    for old in place.glob("*.deb"):
        old.unlink()
    known = place / "lines"
    total = int(known.read_text()) if known.exists() else None
    lines = run.targets("bzImage", "modules", progress=progress, total=total)
    if lines > kernel.FRESH_LINES:
        known.write_text(str(lines))
    run.targets("bindeb-pkg", progress=progress, variables={
        "KDEB_PKGVERSION": f"{version}-1", "DEB_BUILD_OPTIONS": "terse"})
    made = {kind: [file for file in place.glob(f"linux-{kind}-*.deb") if "-dbg_" not in file.name]
            for kind in ("image", "headers")}
    for kind, files in made.items():
        if len(files) != 1:
            raise LabError(f"make bindeb-pkg made {len(files)} packages of {kind}, not one: see"
                           f" {place / 'build.log'}")
    return {kind: files[0] for kind, files in made.items()}


def finish(deb: Path, folder: Path, sign: tuple[Path, Path] | None) -> Path:
    """The image's package, which needs pvsync-boot; its kernel signed if that is wanted."""
    out = folder / deb.name
    with Scratch() as place:
        root = place / "root"
        tools.run(["dpkg-deb", "--raw-extract", str(deb), str(root)])
        control = root / "DEBIAN/control"
        control.write_text(_depending(control.read_text(), BOOT))
        if sign:
            for image in (root / "boot").glob("vmlinuz-*"):
                tools.run(["sbsign", "--key", str(sign[0]), "--cert", str(sign[1]), "--output",
                           str(image), str(image)])
                tools.run(["sbverify", "--cert", str(sign[1]), str(image)])
            sums = root / "DEBIAN/md5sums"
            sums.unlink(missing_ok=True)  # one of them is no longer so
        tools.run(["dpkg-deb", "--root-owner-group", "--build", str(root), str(out)])
    return out


def _depending(control: str, name: str) -> str:
    """The control file of a package that depends on one more."""
    if "\nDepends: " in control:
        return control.replace("\nDepends: ", f"\nDepends: {name}, ", 1)
    return control.replace("\nDescription:", f"\nDepends: {name}\nDescription:", 1)


def boot(folder: Path) -> Path:
    """Make pvsync-boot's package."""
    version = package.version()
    out = folder / f"{BOOT}_{version}_all.deb"
    with Scratch() as place:
        stage = place / "root"
        package.put(stage / "usr/sbin/pvsync-boot", (DATA / "pvsync-boot").read_text(), 0o755)
        package.put(stage / "etc/default/grub.d/pvsync.cfg", (DATA / "pvsync.cfg").read_text())
        package.put(stage / "DEBIAN/control", BOOT_CONTROL.format(
            name=BOOT, version=version, maintainer=package.maintainer()))
        package.put(stage / "DEBIAN/conffiles", "/etc/default/grub.d/pvsync.cfg\n")
        package.put(stage / "DEBIAN/postrm", (DATA / "pvsync-boot.postrm").read_text(), 0o755)
        package.pack(stage, out)
    return out
