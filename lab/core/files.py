# SPDX-License-Identifier: GPL-2.0-only
"""Files that are written whole or not at all, and are on the disk afterwards; locks on files; and
text of files that somebody names."""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
         stat.S_IFLNK: "a symlink", stat.S_IFREG: "a file"}
"""Any other is a device."""


NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
"""O_EXCL follows no link."""


class UnfitError(Exception):
    """A file that is not read; the message says what it is, as in "it is a pipe"."""


@contextlib.contextmanager
def named(file: Path) -> Iterator[None]:
    """Errors of the system get the file's name, which those of writing to it do not have."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(file)
        raise


def write(file: Path, data: bytes) -> None:
    """Write a file and have it on the disk before returning: a record will speak of it."""
    with named(file), file.open("wb") as out:
        _out(out, data)


def _out(out: BinaryIO, data: bytes) -> None:
    out.write(data)
    out.flush()
    os.fsync(out.fileno())


@contextlib.contextmanager
def prepared(file: Path, content: str | bytes, mode: int | None = None) -> Iterator[None]:
    """Have a file on the disk beside the old one, which it replaces at the end of the block.

    An error in the block, or a full disk before it, leaves the old one. `mode` is of the new
    one, whatever the process's own is. What is in the place of the new one is not written to: in a
    folder of others it may be a link.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.unlink(missing_ok=True)
        with named(file), open(os.open(new, NEW, 0o666 if mode is None else 0o600), "wb") as out:
            _out(out, content.encode() if isinstance(content, str) else content)
            if mode is not None:
                os.fchmod(out.fileno(), mode)
        yield
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def replace(file: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    with prepared(file, content):
        pass


def lock(descriptor: int, looks: int, pause_s: float) -> bool:
    """Take an open file's lock for us alone: look so often, so many seconds apart.

    False if another one had it at each look. The lock goes when the last descriptor of the open
    file is closed, also one that a child has. OSError where locks cannot be had.
    """
    for look in range(looks):
        if look:
            time.sleep(pause_s)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def text(file: Path, most: int, *, ours: bool = False) -> str:
    """The text of a regular file of so many bytes at most; nothing is waited for.

    `ours` refuses a symlink, and a file that others than root and this process's user can write.
    UnfitError for what is refused, OSError as of open().
    """
    _regular(file.lstat() if ours else file.stat())  # to open a device may do something
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                         | (os.O_NOFOLLOW if ours else 0))
    with os.fdopen(descriptor, "rb") as found:
        status = os.fstat(descriptor)
        _regular(status)
        if ours:
            check_ours(status)
        data = found.read(most + 1)
    if len(data) > most:
        raise UnfitError(f"it is larger than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnfitError("it is no text") from None


def check_ours(status: os.stat_result) -> None:
    """UnfitError for what others than root and this process's user can write."""
    if status.st_uid not in {0, os.geteuid()} or status.st_mode & 0o022:
        raise UnfitError("others than root can write it")


def kind(status: os.stat_result) -> str:
    """What it is, such as "a directory"."""
    return KINDS.get(stat.S_IFMT(status.st_mode), "a device")


def _regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnfitError(f"it is {kind(status)}")
