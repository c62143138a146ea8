# SPDX-License-Identifier: GPL-2.0-only
"""Writes a result directory's records so that a killed lab loses none.

Reading them for a report is `parse`'s; here only what is needed to go on.
"""

import json
import os
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from lab.decode import DecodeError, decode
from lab.model import BootRecord, RunRecord

RUNS = "runs.jsonl"
BOOTS = "boots.jsonl"
MANIFEST = "manifest.json"


def append(file: Path, record: RunRecord | BootRecord) -> None:
    """Add one line and have it on the disk before returning."""
    line = json.dumps(asdict(record)) + "\n"
    torn = file.exists() and file.stat().st_size > 0 and file.read_bytes()[-1:] != b"\n"
    with file.open("a", encoding="utf-8") as out:
        out.write(("\n" if torn else "") + line)
        out.flush()
        os.fsync(out.fileno())


def runs(directory: Path) -> list[RunRecord]:
    """The runs so far; a line that a kill has torn is left out."""
    return list(_read(directory / RUNS, RunRecord))


def boots(directory: Path) -> list[BootRecord]:
    """The boots so far."""
    return list(_read(directory / BOOTS, BootRecord))


def write_json(file: Path, value: Any) -> None:
    """Replace a file at once; `value` may be a dataclass."""
    data = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    new = file.with_name(f".{file.name}.new")
    new.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    new.replace(file)


def _read(file: Path, kind: type[Any]) -> list[Any]:
    if not file.exists():
        return []
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(decode(kind, json.loads(line), strict=False))
        except (ValueError, DecodeError):
            continue
    return found
