# SPDX-License-Identifier: GPL-2.0-only
"""Programs made of Debian's QEMU source and changes of ours, each an entry of the cache."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.build import base, debian, mmdebstrap, series
from lab.build.kernel import compiler_version
from lab.build.logged import Log
from lab.core import content, paths, tools
from lab.core.errors import LabError
from lab.core.progress import Progress, Stage

RECIPE = "1"
"""Goes into the hash; change it when the same input is to give another program."""
SUITE = mmdebstrap.Suite(13, "trixie")
"""Debian release whose QEMU source is built."""
PACKAGE = "qemu"
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
"""Of every program; what comes after these overrules them."""
STEP = re.compile(r"\[(\d+)/(\d+)\] \S+ (?:C object )?(\S+)")


@dataclass(frozen=True)
class Recipe:
    """What makes one of the programs."""

    kind: str
    """Of its entries in the cache, of its log, and what messages call it."""
    origin: str
    """The folder of its changes, for people who ask the program for its version."""
    overlay: Path
    series: Path
    configure: tuple[str, ...] = ()
    """Besides `CONFIGURE`."""


def prepare(recipe: Recipe, progress: Progress, update: bool = False) -> Path:
    """The program, built when the cache lacks it (about 3 minutes, 40 MB fetched).

    Another version of the source is another entry. With `update` the mirror is asked for its
    source, and what is newer there is built.

    Raises UsageError when a package is missing, LabError when the source cannot be fetched,
    patched or built.
    """
    tools.require(*NEEDED)
    ours = (
        content.Hasher()
        .text("recipe", RECIPE, SUITE.name, *CONFIGURE, *recipe.configure)
        .tree("overlay", recipe.overlay)
        .tree("series", recipe.series)
        .short()
    )
    libraries = tools.run(["pkg-config", "--modversion", *LIBRARIES]).decode()
    wish = content.Hasher().text("ours", ours).text("here", compiler_version(), libraries).short()

    def find(out: Path) -> str:
        work = out / "work"
        work.mkdir()
        with progress.stage(f"source of the {recipe.kind}"):
            return version_of(fetch(work))

    def make(out: Path) -> None:
        work = out / "work"
        with progress.stage(recipe.kind) as stage:
            stage.text("unpack")
            tree = work / "qemu"
            tree.mkdir()
            base.untar(next(work.glob("*.orig.tar.xz")), tree)
            series.apply(tree, recipe.overlay, recipe.series)
            stage.text("configure")
            version = version_of(next(work.glob("*.dsc")))
            _compile(tree, recipe, f"Debian {version}, {recipe.origin} {ours}", stage)
        (tree / "build" / PROGRAM).rename(out / PROGRAM)
        content.remove(work)

    return content.resolved(recipe.kind, wish, find, make, progress, keep=2,
                            again=update) / PROGRAM


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


def _compile(tree: Path, recipe: Recipe, version: str, stage: Stage) -> None:
    """Configure and build in tree/build; LabError has the log's telling lines."""
    build = tree / "build"
    build.mkdir()
    log = Log(paths.cache_dir() / f"{recipe.kind}.log", f"the {recipe.kind}")

    def see(line: str) -> None:
        if match := STEP.match(line):
            stage.total(int(match[2]))
            stage.advance()
            stage.text(Path(match[3]).name)

    configure = ("../configure", f"--python={sys.executable}", f"--with-pkgversion={version}")
    for command in ((*configure, *CONFIGURE, *recipe.configure), ("ninja", PROGRAM)):
        log.run(command, command[0], see, cwd=build)
