# SPDX-License-Identifier: GPL-2.0-only
"""The cache: entries that are named by the content they were made from.

An entry is a folder `<kind>-<hash12>`. It is made under `tmp/` and renamed
when it is complete, so that a killed build leaves nothing half-done under an
entry's name. One lock file per kind keeps two labs from making the same thing.

What comes of a wish may be for others to say, such as a mirror that has packages. The name of
such an entry is of the wish and of what came of it, and a link `<kind>-<hash12>.current`, named by
the wish alone, leads to it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.core import paths
from lab.core.errors import LabError
from lab.core.progress import Progress, Silent

HASH_DIGITS = 12
KEEP = 6
"""Entries of one kind that `prune` always keeps."""
KEEP_S = 24 * 3600.0
"""Seconds since its last use for which `prune` keeps an entry."""
LOCK_POLL_S = 0.2
CURRENT = ".current"
"""Ends the names of links from wishes to entries."""


class Hasher:
    """Collects named parts into one hash; the names keep parts from running together."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def blob(self, name: str, data: bytes) -> "Hasher":
        """Add a blob."""
        self._sum.update(f"{len(name)}:{name}:{len(data)}:".encode())
        self._sum.update(data)
        return self

    def text(self, name: str, *values: str) -> "Hasher":
        """Add a list of strings; their order counts."""
        for value in (str(len(values)), *values):
            self.blob(name, value.encode())
        return self

    def file(self, name: str, path: Path) -> "Hasher":
        """Add a file's content and whether it may be executed."""
        mode = "x" if os.access(path, os.X_OK) else "-"
        return self.text(name, mode).blob(name, path.read_bytes())

    def tree(self, name: str, root: Path, but: Callable[[str], bool] | None = None) -> "Hasher":
        """Add every file below a folder, with its path; a missing folder counts as empty.

        `but` says of a path whether it is left out.
        """
        for path in files_below(root):
            if but is None or not but(path):
                self.file(f"{name}/{path}", root / path)
        return self

    def short(self) -> str:
        """The hash as it stands in an entry's name."""
        return self._sum.hexdigest()[:HASH_DIGITS]


def files_below(root: Path, *, ignore: Iterable[str] = ("__pycache__",)) -> list[str]:
    """Paths of all files below a folder, relative to it, sorted; [] when it is missing."""
    skip = set(ignore)
    found: list[str] = []
    for folder, dirs, names in os.walk(root):
        dirs[:] = [name for name in dirs if name not in skip]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def file_hash(path: Path) -> str:
    """Hash of one file, read in pieces (for large ones)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:HASH_DIGITS]


@contextmanager
def lock(name: str, progress: Progress | None = None) -> Iterator[None]:
    """Hold the cache's lock of this name; says so once when another lab has it."""
    path = paths.cache_dir() / f"{name}.lock"
    with path.open("a") as file:
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    (progress or Silent()).say(f"{name}: waiting for another build")
                    waiting = True
                time.sleep(LOCK_POLL_S)
        yield


def use(path: Path) -> Path:
    """Mark an entry as just used, so that `prune` keeps it."""
    os.utime(path)
    return path


def lookup(kind: str, digest: str) -> Path | None:
    """The entry, marked as just used, or None."""
    path = paths.cache_dir() / f"{kind}-{digest}"
    return use(path) if path.is_dir() else None


def entry(
    kind: str,
    digest: str,
    make: Callable[[Path], None],
    progress: Progress | None = None,
    lock_name: str = "",
    keep: int = KEEP,
    age: float = KEEP_S,
) -> Path:
    """The cache entry of this kind and hash; `make` fills a new folder when it is missing.

    `make` gets an empty folder. Whatever it raises is passed on, and the
    folder is removed. `lock_name` shares one lock between kinds; `keep` is
    the number of entries that are kept however old they are, and others are for
    `age` seconds since they were last used.
    """
    found = lookup(kind, digest)
    if found:
        return found
    with lock(lock_name or kind, progress):
        return lookup(kind, digest) or _make_entry(kind, digest, make, keep, age)


def resolved(
    kind: str,
    wish: str,
    find: Callable[[Path], str],
    make: Callable[[Path], None] = lambda out: None,
    progress: Progress | None = None,
    *,
    lock_name: str = "",
    keep: int = KEEP,
    again: bool = False,
) -> Path:
    """The entry that a wish, a hash, led to when `find` was last asked.

    `find` begins to fill a new folder and says what comes of the wish, such as versions of
    packages; `make` does the rest, unless there is an entry of just that. `find` is asked when
    no entry is known, or `again`. What they raise is passed on, and all stays as it was.
    """
    link = paths.cache_dir() / f"{kind}-{wish}{CURRENT}"
    found = None if again else _followed(link)
    if found:
        return found
    with lock(lock_name or kind, progress):
        found = None if again else _followed(link)
        return found or _resolve(link, kind, find, make, keep)


def _followed(link: Path) -> Path | None:
    """The entry that a link leads to, marked as just used, or None."""
    if not link.is_dir():
        return None
    return use(link.with_name(os.readlink(link)))


def _resolve(link: Path, kind: str, find: Callable[[Path], str], make: Callable[[Path], None],
             keep: int) -> Path:
    """Have the entry found or made, and the link lead to it; the caller holds the kind's lock."""
    with _folder(link.name) as temporary:
        digest = Hasher().text("wish", link.name).text("found", find(temporary)).short()
        final = lookup(kind, digest)
        if not final:
            final = link.with_name(f"{kind}-{digest}")
            make(temporary)
            temporary.rename(final)
        fresh = temporary.with_name(f"new-{link.name}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(final.name)
        fresh.replace(link)
    prune(kind, keep)
    return final


def _make_entry(kind: str, digest: str, make: Callable[[Path], None], keep: int,
                age: float) -> Path:
    """Fill a temporary folder and rename it; the caller holds the kind's lock."""
    final = paths.cache_dir() / f"{kind}-{digest}"
    with _folder(final.name) as temporary:
        make(temporary)
        temporary.rename(final)
    prune(kind, keep, age)
    return final


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """A new folder under tmp/, which is gone afterwards unless it was renamed."""
    temporary = paths.cache_dir() / "tmp" / name
    remove(temporary)  # left by a killed build: we hold the lock, nobody else is at it
    temporary.mkdir(parents=True)
    try:
        yield temporary
    except OSError as error:
        raise LabError(f"{name} could not be made: {error}") from error
    finally:
        remove(temporary)


def prune(kind: str, keep: int = KEEP, age: float = KEEP_S) -> list[Path]:
    """Remove entries of a kind that are neither recent nor among the last `keep` used."""
    entries = [
        path
        for path in paths.cache_dir().glob(f"{kind}-{'?' * HASH_DIGITS}")
        if path.is_dir() and path.name.removeprefix(f"{kind}-").isalnum()
    ]
    entries.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    oldest = time.time() - age
    gone = [path for path in entries[keep:] if path.stat().st_mtime < oldest]
    for path in gone:
        doomed = paths.cache_dir() / "tmp" / f"old-{path.name}"
        doomed.parent.mkdir(exist_ok=True)
        remove(doomed)
        path.rename(doomed)  # out of sight at once: never a half-removed entry
        remove(doomed)
    for link in paths.cache_dir().glob(f"{kind}-{'?' * HASH_DIGITS}{CURRENT}"):
        if not link.exists():  # its entry is gone
            link.unlink(missing_ok=True)
    return gone


def remove(path: Path) -> None:
    """Remove a folder and all in it, read-only folders included; missing is fine."""
    if not path.exists():
        return

    def writable(function: Callable[[str], object], name: str, _error: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        function(name)

    shutil.rmtree(path, onerror=writable)


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder with owners and times, its files as hard links where that works.

    `target` must not exist. It is a folder of its own, even where `source` is a link to one. Files
    of either tree must then be replaced, never written to.
    """
    for flags in ("-al", "-a"):
        done = subprocess.run(
            ["cp", flags, "--", str(source.resolve()), str(target)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.returncode:
            return
        remove(target)
    lines = done.stderr.strip().splitlines() or ["no message"]
    raise LabError(f"{source} could not be copied: {lines[0]}")
