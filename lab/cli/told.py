# SPDX-License-Identifier: GPL-2.0-only
"""Options of commands that look again and again: JSON, CSV, and the file that CSV goes to."""

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, TypeVar

import click

from lab.cli.params import PLACE
from lab.core import files
from lab.core.errors import LabError, UsageError

Command = TypeVar("Command", bound=Callable[..., object])
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
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
def to(file: Path | None) -> Iterator[TextIO]:
    """Where to print: this file, at its end, or standard output."""
    if file is None:
        yield sys.stdout
        return
    try:
        if file.exists():  # to open a device may do something
            _check(file, file.stat())
        descriptor = os.open(file, APPEND, 0o666)
    except OSError as error:
        raise LabError(f"{file} cannot be written ({error.strerror})") from None
    try:
        with os.fdopen(descriptor, "a", encoding="utf-8") as out:
            _check(file, os.fstat(descriptor))
            yield out
    except OSError as error:
        if error.filename is not None:
            raise
        raise LabError(f"{file} cannot be written ({error.strerror})") from None


def is_new(file: Path | None, out: TextIO) -> bool:
    """Whether nothing is in it yet."""
    return file is None or out.tell() == 0


def _check(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise LabError(f"{file} cannot be written (it is {files.kind(status)}): give -L the name"
                       " of a file")


def put(out: TextIO, text: str) -> None:
    """Print at once."""
    out.write(text)
    out.flush()
