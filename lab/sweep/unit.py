# SPDX-License-Identifier: GPL-2.0-only
"""`python -m lab.sweep.unit`: plays the unit on standard input, on any machine.

The answer on standard output is JSON: for each planned run what came of it. It is there whole or
not at all; a unit that cannot be played ends with a status and says why on standard error.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.build.images import GuestFiles, Images
from lab.core.decode import decode, read_json
from lab.core.errors import LabError
from lab.core.model import Experiment, RunRecord
from lab.core.progress import Plain
from lab.core.scratch import Scratch
from lab.run import parse, runner


@dataclass(frozen=True)
class Outcome:
    """What came of a planned run."""

    scheme: str
    workload: str
    vms: int
    boot: int
    """Number of its host: of its seed, where several go on from one boot."""
    valid: bool
    reason: str
    figures: tuple[float, ...]
    """Of each guest whose figure counts."""
    seed: int | None
    """Of the host."""
    tries: int


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


def outcomes(directory: Path, experiment: Experiment) -> list[Outcome]:
    """The last try at each run of a result directory."""
    workloads = {one.name: one for one in experiment.workloads}
    last: dict[tuple[str, str, int, int], RunRecord] = {}
    for record in parse.runs(directory).records:
        last[record.scheme, record.workload, record.vms, record.boot] = record
    found = []
    for (scheme, workload, vms, boot), record in last.items():
        values, why = (parse.guest_figures(directory, record, workloads[workload])
                       if record.valid else ({}, record.reason))
        found.append(Outcome(scheme, workload, vms, boot, bool(values), why, tuple(values.values()),
                             record.seed, record.attempt + 1))
    return found


def main() -> None:
    """Play, and write the answer."""
    task: Any = read_json(sys.stdin.read())
    experiment = decode(Experiment, task["experiment"])
    options = runner.Options(backend="vt", seed=task["seed"], machine=task["machine"], jobs=1,
                             snapshot=task["snapshot"])
    with Scratch() as folder:
        try:
            runner.run(experiment, folder / "results", options, Plain(sys.stderr),
                       files(task["places"], task["files"]))
        except LabError as error:
            sys.exit(str(error))
        print(json.dumps([asdict(one) for one in outcomes(folder / "results", experiment)]))


if __name__ == "__main__":
    main()
