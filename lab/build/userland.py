# SPDX-License-Identifier: GPL-2.0-only
"""Debian userlands: the emulator's, which also is the KVM host's root, and the guests'.

Two steps, both cached: a userland by its packages (made by mmdebstrap, about
40 s each), and an image by userland, files of lab/target, kernel modules and
workload programs. The machine's own system and package sources stay untouched.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lab.build import mmdebstrap
from lab.build.kernel import KernelImage
from lab.core import content, paths, tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Silent

RECIPE = "1"
"""Goes into the hashes; change it when the same input is to give another image."""
EMULATOR_PACKAGES = ("kmod", "python3", "qemu-system-x86")
GUEST_PACKAGES = (
    "apache2-bin", "dbench", "iproute2", "kmod", "libc6-dev", "make", "pbzip2", "rt-tests",
    "stress-ng", "sysbench", "tcc", "wrk",
)
EMULATOR = mmdebstrap.Suite(13, "trixie", backports=True)
GUEST = mmdebstrap.Suite(12, "bookworm")
TARGET = paths.LAB / "target"
PROGRAMS = paths.LAB / "workloads" / "src"
PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
CC = ("gcc", "-static", "-O2", "-Wall", "-pthread")
IMAGE = "root.erofs"
INSIDE = "usr/lib/pvsync"
"""Where the lab's own files are in an image."""


def prepare(packages: Iterable[str] = (), progress: Progress | None = None,
            update: bool = False) -> None:
    """Make both userlands, and so find a package's wrong name before a kernel is built.

    With `update` also those that there are, in case that the mirror has other versions now.
    """
    wanted = check_packages((*GUEST_PACKAGES, *packages))
    entry(GUEST, wanted, progress, update)
    entry(EMULATOR, EMULATOR_PACKAGES, progress, update)


def emulator_root(progress: Progress | None = None) -> Path:
    """Root of the userland with QEMU and its firmware (about 50 s to make, 300 MB)."""
    return entry(EMULATOR, EMULATOR_PACKAGES, progress) / "root"


def host_image(
    kernel: KernelImage, progress: Progress | None = None, packages: Iterable[str] = ()
) -> Path:
    """Read-only EROFS image that is the KVM host's root: the emulator's userland.

    `packages` are further ones of Debian 13; errors are those of `guest_image`.
    """
    wanted = check_packages((*EMULATOR_PACKAGES, *packages))
    return _image("host", EMULATOR, wanted, kernel, progress)


def guest_image(
    kernel: KernelImage, packages: Iterable[str] = (), progress: Progress | None = None
) -> Path:
    """Read-only EROFS image that is the guests' root: Debian 12 with the workloads' packages.

    `packages` are further Debian packages. Raises UsageError for a name that
    Debian 12 does not have, LabError when the mirror cannot be reached.
    """
    wanted = check_packages((*GUEST_PACKAGES, *packages))
    return _image("guest", GUEST, wanted, kernel, progress)


def check_packages(names: Iterable[str]) -> tuple[str, ...]:
    """The names once each, sorted; UsageError for one that no package can have."""
    for name in names:
        if not PACKAGE_NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be a Debian package: give names like `redis-server`,"
                " separated by commas"
            )
    return tuple(sorted(set(names)))


def _wish(suite: mmdebstrap.Suite, packages: Sequence[str]) -> str:
    """Hash of what is asked of the mirror; which versions it has is another matter."""
    return (
        content.Hasher()
        .text("recipe", RECIPE, mmdebstrap.RECIPE)
        .text("suite", suite.name, str(suite.backports))
        .text("packages", *packages)
        .text("user", "root" if os.geteuid() == 0 else "user")
        .short()
    )


def entry(suite: mmdebstrap.Suite, packages: Sequence[str], progress: Progress | None,
              update: bool = False) -> Path:
    """Cache entry with root/ (a Debian userland) and packages.json (name -> version).

    Other versions are another entry. The mirror is asked for them when there is no entry yet,
    or with `update`.
    """
    shown = progress or Silent()

    def make(out: Path) -> str:
        # Set-user-id programs are in there: nobody else is to run them.
        out.chmod(0o700)
        root = out / "root"
        root.mkdir()
        root.chmod(0o755)
        mmdebstrap.make(suite, packages, root, shown)
        (root / "etc/hostname").write_text("pvsync\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost pvsync\n")
        versions = installed((root / "var/lib/dpkg/status").read_text(errors="replace"))
        text = json.dumps(versions, indent=1, sort_keys=True) + "\n"
        (out / "packages.json").write_text(text)
        return text

    return content.resolved("userland", _wish(suite, packages), make, progress=shown,
                            lock_name=f"userland-{suite.name}", again=update)


def installed(status: str) -> dict[str, str]:
    """Installed packages and their versions from the text of dpkg's status file."""
    found: dict[str, str] = {}
    for stanza in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return found


def image_with(name: str, suite: mmdebstrap.Suite, packages: Sequence[str],
               files: Mapping[str, Path], progress: Progress | None = None) -> Path:
    """Read-only EROFS image of a userland and more files, by their paths in it.

    Raises LabError when the userland has one of these already, and as `guest_image`.
    """
    userland = entry(suite, check_packages(packages), progress)
    made_of = content.Hasher().text("recipe", RECIPE).file("versions", userland / "packages.json")
    for inside, file in sorted(files.items()):
        made_of.file(inside, file)

    def add(root: Path) -> None:
        for inside, file in files.items():
            if (root / inside).exists():
                raise LabError(f"the userland has /{inside} already: remove its package")
            (root / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / inside)

    return _made(name, userland, made_of.short(), add, progress)


def _image(kind: str, suite: mmdebstrap.Suite, packages: Sequence[str], kernel: KernelImage,
           progress: Progress | None) -> Path:
    """The image in the cache, of a userland with these packages and the lab's own files."""
    userland = entry(suite, packages, progress)
    tools.require("depmod", "gcc")
    digest = (
        content.Hasher()
        .text("recipe", RECIPE, f"userland-{_wish(suite, packages)}", *CC,
              tools.run(["gcc", "--version"]).decode())
        .file("versions", userland / "packages.json")
        .tree("target", TARGET)
        .tree("programs", PROGRAMS)
        .tree("modules", kernel.modules)
        .short()
    )
    return _made(kind, userland, digest, lambda root: add_files(root, kernel), progress)


def _made(kind: str, userland: Path, digest: str, add: Callable[[Path], None],
          progress: Progress | None) -> Path:
    """The image in the cache, of a userland to whose copy `add` adds files."""
    tools.require("mkfs.erofs")
    progress = progress or Silent()

    def make(out: Path) -> None:
        with progress.stage(f"{kind} image") as stage:
            stage.text("files")
            root = out / "root"
            content.link_tree(userland / "root", root)
            add(root)
            stage.text("file system")
            _mkfs(root, out / IMAGE)
            content.remove(root)

    return content.entry(f"image-{kind}", digest, make, progress) / IMAGE


def add_files(root: Path, kernel: KernelImage) -> None:
    """Put the lab's own files, the workload programs and the kernel's modules into a root.

    Only ever adds files, because those that are there are shared.
    """
    inside = root / INSIDE
    if inside.exists():
        raise LabError(f"the userland has /{INSIDE} already: remove its package")
    (inside / "bin").mkdir(parents=True)
    for name in content.files_below(TARGET):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TARGET / name, inside / name)
        (inside / name).chmod(0o755)
    for source in sorted(PROGRAMS.glob("*.c")):
        compile_program(source, inside / "bin" / source.stem)
    modules = root / "usr/lib/modules" / kernel.release
    shutil.copytree(kernel.modules / "lib/modules" / kernel.release, modules)
    tools.run(["depmod", "-b", root, kernel.release])


def compile_program(source: Path, target: Path) -> None:
    """Build one static workload program; LabError repeats the compiler's first error."""
    command = [*CC, "-o", str(target), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line), (lines or ["no message"])[0])
        raise LabError(f"{source.name} does not compile: {first}")


def _mkfs(root: Path, image: Path) -> None:
    """Make the EROFS image, uncompressed, with fixed times and identity."""
    owner = [] if os.geteuid() == 0 else ["--all-root"]
    identity = "-U00000000-0000-4000-8000-000000000000"
    tools.run(["mkfs.erofs", "--quiet", "-T0", "-x-1", identity, *owner, image, root])
