# SPDX-License-Identifier: GPL-2.0-only
"""From files to records: workload outputs, and what the runner wrote.

Nothing here runs, measures or averages anything; the same files give the same records. A line that
is cut short (the machine went down while it was written) is left out with a warning, also when a
resumed run went on after it. Anything else that is not as the runner writes it is an error that
names file and line.
"""

import json
import math
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from lab.core.decode import DecodeError, decode, read_json
from lab.core.errors import UsageError
from lab.core.model import BootRecord, Manifest, RunRecord, Workload
from lab.core.words import many
from lab.plan import config

T = TypeVar("T")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


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

    Only whole lines count: of a line that was cut, the number may be as well.
    A figure is finite and above zero: none of the workloads can take no time
    or do nothing, so a zero is a clock or a program that failed.
    """
    if not workload.pattern:
        if elapsed is None:
            return Figure(None, "the command's elapsed time is missing")
        return _positive(elapsed, "the command's elapsed time")
    lines = output[:output.rfind("\n") + 1]
    found = deque(re.finditer(workload.pattern, lines), maxlen=1)
    if not found:
        cut = re.search(workload.pattern, output)
        where = "a whole line of the output" if cut else "the output"
        return Figure(None, f"no {workload.metric} in {where} ({_tail(output)})")
    text = found[0].group("value") or ""
    if not NUMBER.fullmatch(text):
        return Figure(None, f"{workload.metric} is no number ({_tail(text)})")
    return _positive(float(text), workload.metric)


def guest_figures(directory: Path, run: RunRecord,
                  workload: Workload) -> tuple[dict[str, float], str]:
    """Guest to figure of a run, of those guests whose figure counts; or none, and why not."""
    values = {}
    counted = run.guests[:1] if workload.neighbour else run.guests
    for guest in counted:
        path = directory / guest.output
        if not path.is_file():
            return {}, f"{guest.guest}: {guest.output} is missing"
        found = figure(workload, read_text(path), guest.elapsed)
        if found.value is None:
            return {}, f"{guest.guest}: {found.reason}"
        values[guest.guest] = found.value
    if len(values) != (1 if workload.neighbour else run.vms) or not values:
        return {}, f"{many(len(values), 'guest')} reported, not {run.vms}"
    return values, ""


def read_text(path: Path) -> str:
    """A log as text, whatever bytes a dying guest left in it.

    NUL bytes and invalid UTF-8 become U+FFFD, line ends become newlines.
    """
    return as_text(path.read_bytes())


def as_text(data: bytes) -> str:
    """The same of its bytes."""
    text = data.decode("utf-8", errors="replace").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def manifest(directory: Path) -> Manifest:
    """What the result directory was made with; UsageError when it is none."""
    if not directory.is_dir():
        raise UsageError(f"There is no directory {directory}.")
    path = directory / "manifest.json"
    if not path.is_file():
        raise UsageError(f"{directory} is no result directory: it has no manifest.json.")
    try:
        found = decode(Manifest, read_json(read_text(path)), strict=False)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no valid JSON: {error}.") from None
    except DecodeError as error:
        raise UsageError(f"{path} is no manifest: {error}.") from None
    for key in ("vcpus", "pcpus", "reps", "boots"):
        if getattr(found, key) < 1:
            raise UsageError(f"{path} is no manifest: {key} must be above 0.")
    if min(found.vms, default=0) < 1:
        raise UsageError(f"{path} is no manifest: vms must be above 0.")
    for workload in found.workloads:
        config.check_workload(workload, f"{path}, workload {workload.name!r}")
    return found


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
        return decode(kind, read_json(line), strict=False)
    except json.JSONDecodeError as error:
        if line and ('{"'.startswith(line[:2]) or not line.strip("\0")):
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
