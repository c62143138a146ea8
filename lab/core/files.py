# SPDX-License-Identifier: GPL-2.0-only
"""Files that are written whole or not at all, and are on the disk afterwards; locks on files."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path


def write(file: Path, data: bytes) -> None:
    """Write a file and have it on the disk before returning: a record will speak of it."""
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


@contextlib.contextmanager
def prepared(file: Path, content: str | bytes, mode: int | None = None) -> Iterator[None]:
    """Have a file on the disk beside the old one, which it replaces at the end of the block.

    An error in the block, or a full disk before it, leaves the old one. `mode` is of the new
    one, whatever the process's own is.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write(new, content.encode() if isinstance(content, str) else content)
        if mode is not None:
            new.chmod(mode)
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
