# SPDX-License-Identifier: GPL-2.0-only
"""What a sweep has made: Parquet files, one row a run.

Each finished unit becomes a file of its own, whole or not at all, and no file is written again.
So whatever is killed, and wherever the disk is full, all that was finished stays.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lab.core import files
from lab.core.decode import decode
from lab.core.errors import UsageError
from lab.core.model import Better
from lab.plan.sweeps import PARTS

KINDS: dict[Any, pa.DataType] = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(),
    tuple[str, ...]: pa.list_(pa.string()), tuple[float, ...]: pa.list_(pa.float64()),
    float | None: pa.float64(), int | None: pa.int64(), Better: pa.string()}


@dataclass(frozen=True)
class Row:
    """One run: what it was, and what came of it."""

    key: str
    """Content key of the run."""
    unit: str
    """Key of the boot in which it was made."""
    scheme: str
    setting: str
    """The scheme with the values that the sweep gave it."""
    names: tuple[str, ...]
    """Parameters that the sweep gave a value, and:"""
    values: tuple[str, ...]
    machine: str
    vcpus: int
    pcpus: int
    vms: int
    workload: str
    seed: int
    metric: str
    measured_in: str
    """Unit of the figure."""
    better: Better
    valid: bool
    reason: str
    """Why it is not valid."""
    figure: float | None
    """Mean over the guests, as in the lab's tables."""
    figures: tuple[float, ...]
    """Of each guest."""
    host_seed: int | None
    """Of the interleaving."""
    tries: int
    """Of the run, in its boot."""
    core_s: float
    """Its share of the CPU time that its boot took on the worker, seconds."""
    wall_s: float
    """The same of the time that passed."""
    worker: str
    made: float
    """When, in seconds since 1970."""
    kernel: str
    images: str
    emulator: str
    commit: str

    def of(self, name: str) -> str | None:
        """The value that the sweep gave a parameter."""
        return dict(zip(self.names, self.values, strict=True)).get(name)


SCHEMA = pa.schema([(field.name, KINDS[field.type]) for field in fields(Row)])


class Store:
    """The rows in a directory."""

    def __init__(self, directory: Path, *, alone: bool = False) -> None:
        """Read them. Who is `alone` in the directory also clears what a killed command left."""
        self.parts = directory / PARTS
        self.rows: dict[str, Row] = {}
        """By key; of a run that was made again, the last."""
        if alone:
            for old in self.parts.glob(".*"):
                old.unlink(missing_ok=True)
        for part in sorted(self.parts.glob("[!.]*.parquet")):  # others are still written
            self._take(_read(part))

    def add(self, unit: str, rows: Iterable[Row]) -> None:
        """Keep a unit's rows: they are on the disk when this returns. OSError when it is full."""
        found = list(rows)
        self.parts.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist([asdict(row) for row in found], schema=SCHEMA)
        out = pa.BufferOutputStream()
        pq.write_table(table, out)
        files.replace(self.parts / f"{time.time_ns()}-{unit}.parquet",
                      out.getvalue().to_pybytes())
        _sync(self.parts)
        self._take(found)

    def made(self, again: bool = False) -> set[str]:
        """Keys of runs that need not be made; with `again`, none of those that failed."""
        return {key for key, row in self.rows.items() if row.valid or not again}

    def core_hours(self) -> float:
        """What all of it has cost."""
        return sum(row.core_s for row in self.rows.values()) / 3600

    def _take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            known = self.rows.get(row.key)
            if known is None or known.made <= row.made:
                self.rows[row.key] = row


def _read(part: Path) -> list[Row]:
    try:
        table = pq.read_table(part, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{part} is damaged ({str(error).splitlines()[0]}): move it away, and its"
                         " runs are made again") from None
    known = [field.name for field in fields(Row)]
    if missing := [name for name in known if name not in table.column_names]:
        raise UsageError(f"{part} is of another pvsync: it lacks {', '.join(missing)}")
    return [decode(Row, row) for row in table.select(known).to_pylist()]


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
