# SPDX-License-Identifier: GPL-2.0-only
"""Writes a result directory's files so that a killed lab, or a full disk, loses none.

Reading them is `parse`'s.
"""

import json
import os
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from lab.core.files import replace, write
from lab.core.model import BootRecord, RunRecord
from lab.run import parse

__all__ = ["append", "boots", "replace", "runs", "write", "write_json"]

RUNS = "runs.jsonl"
BOOTS = "boots.jsonl"
MANIFEST = "manifest.json"
TRACES = "traces"
"""A folder for each of the runs that were traced."""


def append(file: Path, record: RunRecord | BootRecord) -> None:
    """Add one line and have it on the disk before returning."""
    line = json.dumps(asdict(record)) + "\n"
    torn = file.exists() and file.stat().st_size > 0 and file.read_bytes()[-1:] != b"\n"
    with file.open("a", encoding="utf-8") as out:
        out.write(("\n" if torn else "") + line)
        out.flush()
        os.fsync(out.fileno())


def runs(directory: Path) -> list[RunRecord]:
    """The runs so far; a line that a kill has torn is left out, a damaged one a UsageError."""
    return list(parse.runs(directory).records)


def boots(directory: Path) -> list[BootRecord]:
    """The boots so far, likewise."""
    return list(parse.boots(directory).records)


def write_json(file: Path, value: Any) -> None:
    """Replace a file at once; `value` may be a dataclass."""
    data = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    replace(file, json.dumps(data, indent=1) + "\n")
