# SPDX-License-Identifier: GPL-2.0-only
"""Options of commands that look again and again: JSON, CSV, and the file that CSV goes to."""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import click

from lab.cli.params import PLACE
from lab.core import files
from lab.core.errors import LabError, UsageError

Command = TypeVar("Command", bound=Callable[..., object])
Put = Callable[[str], None]
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FULL = (errno.ENOSPC, errno.EDQUOT)
OPTIONS = (
    click.option("--once", is_flag=True, help="One look, and stop."),
    click.option("--json", "as_json", is_flag=True, help="A line of JSON for each look."),
    click.option("--csv", "as_csv", is_flag=True, help="A line for each VM and look."),
    click.option("-L", "--log-to-file", "file", type=PLACE,
                 help="Append CSV to this file, for ever."))


def options(command: Command) -> Command:
    """Give a command OPTIONS."""
    for one in reversed(OPTIONS):
        command = one(command)
    return command


def check(as_json: bool, as_csv: bool, file: Path | None) -> None:
    """UsageError for what excludes each other."""
    if as_json and (as_csv or file):
        raise UsageError("give --json or --csv, not both; -L is CSV")


@contextlib.contextmanager
def to(file: Path | None, head: str = "") -> Iterator[Put]:
    """What prints at once: at the end of this file, or to standard output.

    `head` comes first, in a file that has nothing yet. The file is looked for by its name each
    time, so one that was moved or removed meanwhile is begun anew. What cannot be written whole is
    not in the file at all.
    """
    if file is None:
        _print(head)
        yield _print
    else:
        def append(text: str) -> None:
            _append(file, head, text)
        append("")
        yield append


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _append(file: Path, head: str, text: str) -> None:
    try:
        if file.exists():  # to open a device may do something
            _check(file, file.stat())
        descriptor = os.open(file, APPEND, 0o666)
        try:
            status = os.fstat(descriptor)
            _check(file, status)
            _whole(descriptor, (text if status.st_size else head + text).encode(), status.st_size)
        finally:
            os.close(descriptor)
    except OSError as error:
        what = "make room there, or " if error.errno in FULL else ""
        raise LabError(f"{file} cannot be written ({error.strerror}): {what}give -L the name of"
                       " another file") from None


def _whole(descriptor: int, data: bytes, size: int) -> None:
    """Write all of it, or leave the file as long as it was."""
    try:
        while data:
            data = data[os.write(descriptor, data):]
    except BaseException:
        os.ftruncate(descriptor, size)
        raise


def _check(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise LabError(f"{file} cannot be written (it is {files.kind(status)}): give -L the name"
                       " of a file")
