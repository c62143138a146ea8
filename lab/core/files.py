# SPDX-License-Identifier: GPL-2.0-only
"""Files that are written whole or not at all, and are on the disk afterwards."""

import contextlib
import os
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
