# SPDX-License-Identifier: GPL-2.0-only
"""The emulator: Debian's QEMU source with lab/qemu applied, which makes nested guests survive.

Why the packaged one does not do, and what the patches cure, is in
docs/results/nested-lab.md. Firmware comes from Debian's packages, out of the
userland that also is the KVM host's root.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.build import base, debian, mmdebstrap, series, userland
from lab.build.kernel import compiler_version
from lab.build.logged import Log
from lab.core import content, paths, tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Silent, Stage

RECIPE = "1"
"""Goes into the hash; change it when the same input is to give another emulator."""
SUITE = mmdebstrap.Suite(13, "trixie")
"""Debian release whose QEMU source is built."""
PACKAGE = "qemu"
OVERLAY = paths.LAB / "qemu/overlay"
SERIES = paths.LAB / "qemu/series"
ENV_QEMU = "PVSYNC_QEMU"
"""Names another qemu-system-x86_64 to play the host."""
PROGRAM = "qemu-system-x86_64"
NEEDED = (
    "apt-get", "gcc", "ninja", "patch", "pkg-config", "xz",
    "/usr/include/glib-2.0/glib.h", "/usr/include/libfdt.h", "/usr/include/zlib.h",
)
LIBRARIES = ("glib-2.0", "zlib")
"""Of this machine; those that pkg-config knows of what is linked to."""
CONFIGURE = (
    "--target-list=x86_64-softmmu", "--enable-system", "--disable-user", "--enable-tcg",
    "--enable-kvm", "--enable-fdt",
    "--without-default-features", "--without-default-devices", "--with-devices-x86_64=pvsync",
    "--disable-docs", "--disable-tools", "--disable-guest-agent", "--disable-debug-info",
    "--disable-install-blobs",
)
FIRMWARE = ("usr/share/qemu", "usr/share/seabios")
STEP = re.compile(r"\[(\d+)/(\d+)\] \S+ (?:C object )?(\S+)")


@dataclass(frozen=True)
class Emulator:
    """A qemu-system-x86_64 and the firmware for it."""

    program: Path
    firmware: tuple[Path, ...]
    version: str
    """Such as 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1, lab/qemu a1b2c3d4e5f6)."""

    def command(self) -> list[str]:
        """The start of a command line."""
        folders = [word for folder in self.firmware for word in ("-L", str(folder))]
        return [str(self.program), *folders]


def prepare(progress: Progress | None = None, update: bool = False) -> Emulator:
    """The emulator, built when the cache lacks it (about 3 minutes, 40 MB fetched).

    With `update` the mirror is asked for its source, and what is newer there is built.

    Raises UsageError when a package is missing or $PVSYNC_QEMU names no
    program, LabError when the source cannot be fetched, patched or built.
    """
    progress = progress or Silent()
    named = os.environ.get(ENV_QEMU)
    if named and not os.access(named, os.X_OK):
        raise UsageError(f"${ENV_QEMU} names {named}, which is no program: correct or unset it")
    program = Path(named) if named else _built(progress, update) / PROGRAM
    said = tools.run([program, "--version"]).decode().splitlines()[0]
    root = userland.emulator_root(progress)
    return Emulator(
        program,
        tuple(root / folder for folder in FIRMWARE),
        said.removeprefix("QEMU emulator version "),
    )


def _built(progress: Progress, update: bool) -> Path:
    """The cache entry with our build; another version of the source is another entry."""
    tools.require(*NEEDED)
    ours = (
        content.Hasher()
        .text("recipe", RECIPE, SUITE.name, *CONFIGURE)
        .tree("overlay", OVERLAY)
        .tree("series", SERIES)
        .short()
    )
    libraries = tools.run(["pkg-config", "--modversion", *LIBRARIES]).decode()
    wish = content.Hasher().text("ours", ours).text("here", compiler_version(), libraries).short()

    def find(out: Path) -> str:
        work = out / "work"
        work.mkdir()
        with progress.stage("source of the emulator"):
            return version_of(fetch(work))

    def make(out: Path) -> None:
        work = out / "work"
        with progress.stage("emulator") as stage:
            stage.text("unpack")
            tree = work / "qemu"
            tree.mkdir()
            base.untar(next(work.glob("*.orig.tar.xz")), tree)
            series.apply(tree, OVERLAY, SERIES)
            stage.text("configure")
            version = version_of(next(work.glob("*.dsc")))
            _compile(tree, f"Debian {version}, lab/qemu {ours}", stage)
        (tree / "build" / PROGRAM).rename(out / PROGRAM)
        content.remove(work)

    return content.resolved("emulator", wish, find, make, progress, keep=2, again=update)


def version_of(dsc: Path) -> str:
    """Package version from the text of a .dsc file, such as 1:10.0.13+ds-0+deb13u1."""
    match = re.search(r"^Version: (\S+)$", dsc.read_text(), re.MULTILINE)
    if not match:
        raise LabError(f"{dsc.name} names no version: the mirror sent something else")
    return match[1]


def fetch(folder: Path) -> Path:
    """Fetch QEMU's source package of `SUITE`, signatures checked, beside the machine's own apt.

    Returns the .dsc file; the .orig.tar.xz lies beside it.
    """
    apt = debian.apt(folder, "deb-src", SUITE.name)
    try:
        tools.run([*apt, "update"], cwd=folder)
        tools.run([*apt, "source", "--download-only", "--only-source", PACKAGE], cwd=folder)
        return next(folder.glob("*.dsc"))
    except (LabError, StopIteration) as error:
        raise LabError(
            f"the source of {PACKAGE} could not be fetched from {debian.mirror()} ({error}): check"
            f" the network, or name another mirror in ${mmdebstrap.ENV_MIRROR}"
        ) from None


def _compile(tree: Path, version: str, stage: Stage) -> None:
    """Configure and build in tree/build; LabError has the log's telling lines."""
    build = tree / "build"
    build.mkdir()
    log = Log(paths.cache_dir() / "emulator.log", "the emulator")

    def see(line: str) -> None:
        if match := STEP.match(line):
            stage.total(int(match[2]))
            stage.advance()
            stage.text(Path(match[3]).name)

    configure = ("../configure", f"--python={sys.executable}", f"--with-pkgversion={version}")
    for command in ((*configure, *CONFIGURE), ("ninja", PROGRAM)):
        log.run(command, command[0], see, cwd=build)
