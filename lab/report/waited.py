# SPDX-License-Identifier: GPL-2.0-only
"""What vCPUs waited for in runs that were traced: the file beside each timeline, and sums of it."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.core.cells import Spent, Waits
from lab.core.decode import DecodeError, decode, read_json
from lab.core.errors import UsageError
from lab.core.model import Which
from lab.observe.wait_causes import ABOUT, ROWS, Cause
from lab.run.records import TRACES

FILE = "waits.json"
"""Beside a timeline."""
HEADS = tuple(map(str, Cause))


@dataclass(frozen=True)
class Kept:
    """What the file has of a run."""

    run: str
    measured: bool
    """Whether it is of the measured time alone; else of the whole trace."""
    vms: tuple[Spent, ...]


def as_json(kept: Kept) -> str:
    """The file: with what each cause means, and which functions stand for which."""
    rows = [{"cause": row.cause, "functions": row.functions, "why": row.why} for row in ROWS]
    return json.dumps({**asdict(kept), "about": ABOUT, "rows": rows}, indent=1) + "\n"


def read(directory: Path, run: str) -> Kept | None:
    """What is kept of a run of a result directory; None of one without, UsageError if damaged."""
    file = directory / TRACES / run / FILE
    if not file.is_file():
        return None
    try:
        return decode(Kept, read_json(file.read_text()), strict=False)
    except (OSError, ValueError, DecodeError) as error:
        raise UsageError(f"{file} is damaged: {error}. Remove it, and trace the run again.") \
            from None


def shares(vms: Iterable[Spent]) -> dict[str, float]:
    """Per cent of the time of all vCPUs of these VMs, by cause; all 0 where there is no time."""
    every = tuple(vms)
    time = sum(one.vcpus * one.window_ns for one in every)
    sums = sum((Counter(one.causes) for one in every), Counter[str]())
    return {cause: 100 * sums[cause] / time if time else 0.0 for cause in HEADS}


def of_runs(runs: Sequence[Kept], which: Iterable[Which]) -> tuple[Waits, ...]:
    """Of the runs of a cell: of all VMs together, of the first, or of the others."""
    used = [one for one in runs if one.measured]
    if not used:
        return ()
    return tuple(Waits(vms, len(used), shares(one for run in used for one in run.vms
                                              if _is_of(one.vm, vms))) for vms in which)


def _is_of(vm: str, which: Which) -> bool:
    """By its name, which ends with its number."""
    return which == "all" or vm.endswith("-0") == (which == "first")


def cells(causes: dict[str, float]) -> list[str]:
    """Under HEADS."""
    return [f"{causes.get(cause, 0.0):.1f}" for cause in HEADS]
