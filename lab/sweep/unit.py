# SPDX-License-Identifier: GPL-2.0-only
"""`python -m lab.sweep.unit`: plays the unit on standard input, on any machine.

The answer on standard output is JSON: for each planned run what came of it. It is there whole or
not at all; a unit that cannot be played ends with a status and says why on standard error.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.build.images import GuestFiles, Images
from lab.core.decode import decode, read_json
from lab.core.errors import LabError
from lab.core.model import Experiment, RunRecord
from lab.core.progress import Plain
from lab.core.scratch import Scratch
from lab.plan.schedule import planned
from lab.report import findings
from lab.run import parse, runner


@dataclass(frozen=True)
class Outcome:
    """What came of a planned run."""

    scheme: str
    workload: str
    vms: int
    boot: int
    """Of the plan: of its seed, where several go on from one boot."""
    valid: bool
    reason: str
    figures: tuple[float, ...]
    """Of each guest whose figure counts."""
    seed: int | None
    """Of the host; None of a run that never began."""
    tries: int
    """0 of a run that never began."""


def files(places: dict[str, str], told: dict[str, Any]) -> Images:
    """What there is to boot, where it is on this machine."""
    firmware = [word for name in told["firmware"] for word in ("-L", places[name])]
    return Images(
        host_kernel=Path(places["host-kernel"]), guest_kernel=Path(places["guest-kernel"]),
        host_image=Path(places["host-image"]), guest_image=Path(places["guest-image"]),
        emulator=(places["emulator"], *firmware), kernel=told["kernel"],
        base_version=told["base_version"], config_hash=told["config_hash"], qemu=told["qemu"],
        others=tuple(GuestFiles(name, Path(places[f"kernel-{name}"]), Path(places[f"image-{name}"]))
                     for name in told["others"]))


def outcomes(directory: Path, experiment: Experiment, hunt: bool) -> list[Outcome]:
    """The last try at each run of a result directory.

    In a hunt, what the end of a host or a guest shows is a fault of the last run before it.
    """
    workloads = {one.name: one for one in experiment.workloads}
    records = parse.runs(directory).records
    last = {planned(record): record for record in records}
    ended = _ended(directory, records) if hunt else {}
    found = []
    for run, record in last.items():
        values, why = (parse.guest_figures(directory, record, workloads[run.workload])
                       if record.valid else ({}, record.reason))
        if values and record.id in ended:
            values, why = {}, ended[record.id]
        begun = record.seed is not None
        found.append(Outcome(run.scheme, run.workload, run.vms, run.boot, bool(values), why,
                             tuple(values.values()), record.seed,
                             record.attempt + 1 if begun else 0))
    return found


def _ended(directory: Path, records: Sequence[RunRecord]) -> dict[str, str]:
    """What was wrong with hosts and guests besides their runs, by the id of the last run."""
    runs = [(record, record.reason) for record in records]
    return {one.run: one.reason for one in findings.found(runs, parse.boots(directory).records)}


def main() -> None:
    """Play, and write the answer."""
    task: Any = read_json(sys.stdin.read())
    experiment = decode(Experiment, task["experiment"])
    hunt = task["snapshot"]
    options = runner.Options(backend="vt", seed=task["seed"], machine=task["machine"], jobs=1,
                             snapshot=hunt)
    with Scratch() as folder:
        try:
            runner.run(experiment, folder / "results", options, Plain(sys.stderr),
                       files(task["places"], task["files"]))
        except LabError as error:
            sys.exit(str(error))
        found = outcomes(folder / "results", experiment, hunt)
        print(json.dumps([asdict(one) for one in found]))


if __name__ == "__main__":
    main()
