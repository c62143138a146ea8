# SPDX-License-Identifier: GPL-2.0-only
"""The Linux trees underneath: what kernel/BASE and kernel/bases name, or a tree of theirs.

The version of a tree says which base it is of, and so which series and settings are its own.
"""

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lab.build import debian
from lab.core import content, paths, tools
from lab.core.decode import read_toml
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Silent

BASES = paths.KERNEL / "bases"
"""A folder for each base but the usual one, called after its release."""
USUAL = "6.12"
FILE = "BASE"
ENV_TREE = "PVSYNC_TREE"
RELEASED = re.compile(r"(?:\./)?linux-(?:source-)?(\d+\.\d+)\b")
"""How the folder of a tarball of Linux is called."""
FIRST = 300
"""So many of its members are looked at before it is unpacked."""
LINUX = ("COPYING", "CREDITS", "Documentation", "Kbuild", "arch", "block")
"""Some of these are among them, in any order of names."""
NOT_SOURCE = (".git", ".pc", "debian")
"""What a tree may have beside the sources; never copied."""


@dataclass(frozen=True)
class Budget:
    """Most that the series may change in existing files."""

    files: int
    added: int


@dataclass(frozen=True)
class Base:
    """kernel/BASE, or that of another base."""

    source: str
    """Debian package that gives the tree."""
    tarball: Path
    tested: tuple[str, ...]
    budget: Budget
    suite: str = ""
    """Debian's that has the package, to fetch it where this machine does not have it."""
    settings: tuple[str, ...] = ()
    """Kconfig fragments beside the file, on top of those of every variant."""
    gone: tuple[str, ...] = ()
    """Settings of the fragments that this release does not have."""


@dataclass(frozen=True)
class Source:
    """An unpacked, unchanged tree in the cache."""

    tree: Path
    version: str
    """Of Linux, such as 6.12.117."""
    identity: str
    """Hash of the tarball, or of the folder's file list with sizes and times."""


def read_base(path: Path = paths.KERNEL / "BASE") -> Base:
    """Parse kernel/BASE; UsageError names what is wrong in it."""
    try:
        data: dict[str, Any] = read_toml(path.read_text(encoding="utf-8"))
        return Base(
            source=str(data["source"]),
            tarball=Path(data["tarball"]),
            tested=tuple(map(str, data["tested"])),
            budget=Budget(files=int(data["budget"]["files"]), added=int(data["budget"]["added"])),
            suite=str(data.get("suite", "")),
            settings=tuple(map(str, data.get("settings", ()))),
            gone=tuple(map(str, data.get("gone", ()))),
        )
    except KeyError as error:
        raise UsageError(f"{path} has no entry {error.args[0]!r}") from None
    except (TypeError, ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def names() -> tuple[str, ...]:
    """Releases that there is a base for, the usual one first."""
    others = sorted(path.parent.name for path in BASES.glob(f"*/{FILE}"))
    return (USUAL, *others)


def folder(name: str) -> Path:
    """Where a base has its file and its series; UsageError lists those there are."""
    if name not in names():
        raise UsageError(f"there is no base {name}: choose from {', '.join(names())}")
    return paths.KERNEL if name == USUAL else BASES / name


def of_version(version: str) -> str:
    """The base that a release such as 6.12.117 is of; UsageError when it is of none."""
    name = ".".join(version.split(".")[:2])
    if name not in names():
        raise UsageError(f"it is Linux {version}, but there are series for {_releases()} only")
    return name


def _releases() -> str:
    return " and ".join(f"{name}.y" for name in names())


def version_of(tree: Path) -> str:
    """Version from a tree's top Makefile, such as 6.12.117."""
    try:
        text = (tree / "Makefile").read_text()
    except OSError:
        raise UsageError(f"{tree} is not a Linux tree: it has no Makefile") from None
    parts = []
    for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL"):
        match = re.search(rf"^{name} = (\d+)$", text, re.MULTILINE)
        if not match:
            raise UsageError(f"{tree} is not a Linux tree: its Makefile sets no {name}")
        parts.append(match[1])
    return ".".join(parts)


def known_version(tree: Path) -> str:
    """`version_of` a tree that there is a base for; UsageError when there is none."""
    version = version_of(tree)
    try:
        of_version(version)
    except UsageError as error:
        raise UsageError(f"{tree} cannot be built: {error}") from None
    return version


def check_tree(named: Path | None) -> Path | None:
    """The tree that is named, here or by $PVSYNC_TREE, or a base's folder; fetches nothing.

    UsageError, in a moment, when it is missing or no Linux that there is a base for.
    """
    if named is None and os.environ.get(ENV_TREE):
        named = Path(os.environ[ENV_TREE])
    if named is not None and not (named / FILE).is_file():
        if not named.exists():
            raise UsageError(f"there is no tree {named}: name an unpacked Linux {USUAL}.y folder")
        _check_named(named)
    return named


def chosen_tree(named: Path | None = None) -> Path:
    """What to build: the named tree or that of a base's folder, $PVSYNC_TREE, or the usual base's.

    A tree is a folder or a tarball. Raises UsageError when it is missing.
    """
    named = check_tree(named)
    if named is not None and not (named / FILE).is_file():
        return named.resolve()
    base = read_base() if named is None else read_base(named / FILE)
    if base.tarball.exists():
        return base.tarball
    if base.suite:
        return debian.tarball(base.source, base.suite, base.tarball.name)
    raise UsageError(
        f"{base.tarball} is missing: run `make deps`, or install the Debian package"
        f" {base.source}, or name another tree with --tree"
    )


def source(named: Path | None = None, progress: Progress | None = None) -> Source:
    """The unpacked tree in the cache, made when it is missing (about 10 s).

    Raises UsageError when the tree is missing, is of no base, or has been
    built in; LabError when it cannot be fetched or unpacked.
    """
    progress = progress or Silent()
    where = chosen_tree(named)
    identity = folder_identity(where) if where.is_dir() else content.file_hash(where)

    def unpack(target: Path) -> None:
        with progress.stage(f"unpack {where.name}"):
            _copy_folder(where, target) if where.is_dir() else untar(where, target)
        known_version(target)

    tree = content.entry("base", identity, unpack, progress, keep=2)
    version = known_version(tree)
    file = folder(of_version(version)) / FILE
    if version not in read_base(file).tested:
        progress.say(f"note: Linux {version} is not among the tested: see `tested` in"
                     f" {file.relative_to(paths.ROOT)}")
    return Source(tree, version, identity)


def _check_named(tree: Path) -> None:
    """UsageError when what a user names can be no source, as far as is seen without unpacking."""
    if tree.is_dir():
        _refuse_built(tree)
        known_version(tree)
        return
    try:
        # Of the compressions that tar knows, not all are known to the library.
        usable = ".tar" in tree.suffixes or tarfile.is_tarfile(tree)
    except OSError as error:
        raise UsageError(f"{tree} cannot be read: {error.strerror}") from None
    if not usable:
        raise UsageError(f"{tree} is neither a folder nor a tarball of Linux {USUAL}.y")
    first = _first_names(tree)
    top = {name.partition("/")[2].partition("/")[0] for name in first}
    release = RELEASED.match(first[0]) if first else None
    if release and release[1] not in names():
        raise UsageError(f"{tree} is Linux {release[1]}, but there are series for"
                         f" {_releases()} only")
    if len(first) == FIRST and not top & set(LINUX):
        raise UsageError(f"{tree} is no tarball of Linux: it begins with {first[0]}, {first[1]}")


def _first_names(tarball: Path) -> list[str]:
    """Names of the first members (a moment); none where the library cannot read it."""
    try:
        with tarfile.open(tarball, "r|*") as archive:
            return [member.name for member in islice(archive, FIRST)]
    except (tarfile.TarError, OSError, EOFError, lzma.LZMAError):
        return []


def folder_identity(tree: Path) -> str:
    """Hash of names, sizes and times of all files of a tree (80,000 files: about 1 s)."""
    found = hashlib.sha256()
    for folder, dirs, names in os.walk(tree):
        dirs[:] = sorted(name for name in dirs if not (folder == str(tree) and name in NOT_SOURCE))
        for name in sorted(names):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, tree)
            found.update(f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return found.hexdigest()[: content.HASH_DIGITS]


def _refuse_built(tree: Path) -> None:
    """The kernel's build with O= refuses a tree that was built in: say so before copying it."""
    for mark in (".config", "include/config", "arch/x86/include/generated"):
        if (tree / mark).exists():
            raise UsageError(f"{tree} has been built in ({mark}): run `make mrproper` there first")


def _copy_folder(tree: Path, target: Path) -> None:
    """Copy a tree into an existing empty folder, times included."""

    def skip(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if folder == str(tree) and name in NOT_SOURCE]

    shutil.copytree(tree, target, symlinks=True, ignore=skip, dirs_exist_ok=True)


def untar(tarball: Path, target: Path) -> None:
    """Unpack a tarball without its first path component."""
    if tarball.name.endswith(".xz"):
        tools.require("xz")
    done = subprocess.run(
        ["tar", "--extract", "--strip-components=1", "--no-same-owner", "-f", str(tarball)],
        cwd=target,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise LabError(f"{tarball} could not be unpacked: {lines[0]}")
