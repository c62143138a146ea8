# SPDX-License-Identifier: GPL-2.0-only
"""From files to records: workload outputs, and what the runner wrote.

Nothing here runs, measures or averages anything; the same files give the same
records. A line that is cut short (the machine went down while it was written)
is left out with a warning, also when a resumed run went on after it; anything
else that is not as the runner writes it is an error that names file and line.
"""

import json
import math
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from lab.decode import DecodeError, decode
from lab.errors import UsageError
from lab.model import BootRecord, Manifest, RunRecord, Workload

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """What one guest's output says: a value in the workload's unit, or why not."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True)
class Lines(Generic[T]):
    """The records of a .jsonl file, and what had to be left out of it."""

    records: tuple[T, ...]
    warnings: tuple[str, ...] = ()


def figure(workload: Workload, output: str, elapsed: float | None) -> Figure:
    """The figure of one command: the last match of the pattern, or its seconds.

    A figure is finite and above zero: none of the workloads can take no time
    or do nothing, so a zero is a clock or a program that failed.
    """
    if not workload.pattern:
        if elapsed is None:
            return Figure(None, "the command's elapsed time is missing")
        return _positive(elapsed, "the command's elapsed time")
    found = deque(re.finditer(workload.pattern, output), maxlen=1)
    if not found:
        return Figure(None, f"no {workload.metric} in the output ({_tail(output)})")
    text = found[0].group("value")
    try:
        value = float(text)
    except (TypeError, ValueError):
        return Figure(None, f"{workload.metric} '{text}' is no number")
    return _positive(value, workload.metric)


def read_text(path: Path) -> str:
    """A log as text, whatever bytes a dying guest left in it.

    NUL bytes and invalid UTF-8 become U+FFFD, line ends become newlines.
    """
    text = path.read_bytes().decode("utf-8", errors="replace").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def manifest(directory: Path) -> Manifest:
    """What the result directory was made with; UsageError when it is none."""
    if not directory.is_dir():
        raise UsageError(f"There is no directory {directory}.")
    path = directory / "manifest.json"
    if not path.is_file():
        raise UsageError(f"{directory} is no result directory: it has no manifest.json.")
    try:
        return decode(Manifest, json.loads(read_text(path)), strict=False)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no valid JSON: {error}.") from None
    except DecodeError as error:
        raise UsageError(f"{path} is no manifest: {error}.") from None


def runs(directory: Path) -> Lines[RunRecord]:
    """runs.jsonl in order; none when the file is not there yet."""
    return _lines(RunRecord, directory / "runs.jsonl")


def boots(directory: Path) -> Lines[BootRecord]:
    """boots.jsonl in order; none when the file is not there yet."""
    return _lines(BootRecord, directory / "boots.jsonl")


def _lines(kind: type[T], path: Path) -> Lines[T]:
    if not path.exists():
        return Lines(())
    records, warnings = [], []
    lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        record = _record(kind, line, path, number)
        if record is None:
            warnings.append(f"{path.name}, line {number}, was cut short and is left out")
        else:
            records.append(record)
    return Lines(tuple(records), tuple(warnings))


def _record(kind: type[T], line: str, path: Path, number: int) -> T | None:
    """None for the beginning of a record, or the NULs of a block never written."""
    try:
        return decode(kind, json.loads(line), strict=False)
    except json.JSONDecodeError as error:
        if line.startswith('{"') or (line and not line.strip("\0")):
            return None
        raise UsageError(f"{path}, line {number}, is no valid JSON: {error.msg}.") from None
    except DecodeError as error:
        raise UsageError(f"{path}, line {number}, is no {kind.__name__}: {error}.") from None


def _positive(value: float, what: str) -> Figure:
    if not math.isfinite(value) or value <= 0:
        return Figure(None, f"{what} is {value:g}, which cannot be")
    return Figure(value)


def _tail(output: str) -> str:
    """The last printable words, to say in one line what stood there instead."""
    words = "".join(c if c.isprintable() else " " for c in output).split()
    if not words:
        return "it is empty"
    text = " ".join(words)
    return f"it ends: {text[-80:]}" if len(text) > 80 else f"it is: {text}"
