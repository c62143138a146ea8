# SPDX-License-Identifier: GPL-2.0-only
"""Folders for the time that the lab runs.

Each is locked by the lab that made it. The lock ends with the lab, however
that ends, so what a killed lab left is known and goes when the next begins.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "pvsync-run-"


class Scratch:
    """A new folder, `path`, until `close`. Use as a context manager, or close it."""

    def __init__(self) -> None:
        sweep()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            # Another lab may sweep it before it is ours: before it is opened, or locked.
            with contextlib.suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                if _take(self._lock, self.path):
                    break
                os.close(self._lock)

    def close(self) -> None:
        """Remove it with all that is in it; a second time does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep() -> None:
    """Remove the folders of labs that were killed, where this user may."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _take(handle, folder):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _take(handle: int, folder: Path) -> bool:
    """Whether the folder, opened as `handle`, is still there, nobody else's, and now ours."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.stat(folder), os.fstat(handle))
    except (BlockingIOError, FileNotFoundError):
        return False
