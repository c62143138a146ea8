# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps for tests: a file, and workers that make their figures up."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.core.progress import Silent
from lab.plan.sweeps import Sweep
from lab.sweep import grid
from lab.sweep.model import Build, Run

BUILD = Build("6.12.0 aaaa", "image-host-bb image-guest-cc", "10.0")
LOG = "SWEEPING_LOG"
"""Names the file in which each unit that was played has a line."""
UNIT_S = "SWEEPING_UNIT_S"
"""Says how many seconds a unit takes; 30 ms unless told."""
FILE = """
about = "two limits"
schemes = ["pvqspinlock", "ecs-count"]
vary = ["ecs-count"]
workloads = ["hackbench-short", "dedup-short"]
vms = [1, 2]
vcpus = [4]
pcpus = [4]
seeds = 3
"""
HOST = """
[host]
extend_us = [250, 1000]
extend_cap = [100, 200]
"""


def search(trials: int, width: int) -> str:
    """A file that searches on one workload, and is judged by the other."""
    return FILE.replace('["hackbench-short", "dedup-short"]', '["hackbench-short"]') + f"""
[search]
trials = {trials}
width = {width}
held_out = ["dedup-short"]
[search.host.extend_us]
low = 50
high = 5000
log = true
"""


def load(folder: Path, text: str = FILE + HOST, name: str = "limits") -> Sweep:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return grid.load(file)


def runs(folder: Path, text: str = FILE + HOST) -> list[Run]:
    return grid.runs(load(folder, text), BUILD)


def figure(scheme: dict[str, Any], workload: str, vms: int, seed: int) -> float:
    """The smaller extend_us, the faster; 500 is best of all."""
    us = int(scheme["host"].get("extend_us", 1000))
    return vms * (1 + abs(us - 500) / 1000) * (1 + 0.01 * (seed % 3)) * len(workload)


@dataclass
class Done:
    """A future whose task was played when it was submitted."""

    answer: dict[str, Any]
    status: str = "finished"

    def __hash__(self) -> int:
        return id(self)

    def result(self) -> dict[str, Any]:
        return self.answer


@dataclass
class Client:
    """Stands for a cluster's client: plays each task here, at once."""

    status: str = "running"
    cluster: None = None
    tasks: list[dict[str, Any]] = field(default_factory=list)
    """All that were submitted."""

    def submit(self, play: Callable[..., dict[str, Any]], task: dict[str, Any],
               **_options: object) -> Done:
        self.tasks.append(task)
        return Done(play(task))

    def nthreads(self) -> dict[str, int]:
        return {"here": 1}

    def cancel(self, _futures: object) -> None:
        pass


@dataclass
class Said(Silent):
    """Keeps the lines that stay."""

    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.lines.append(text)


def play(task: dict[str, Any]) -> dict[str, Any]:
    """What a worker answers, when it has slept."""
    if LOG in os.environ:
        with open(os.environ[LOG], "a", encoding="utf-8") as log:
            log.write(f"{task['unit']}\n")
    time.sleep(float(os.environ.get(UNIT_S, "0.03")))
    experiment = task["experiment"]
    return {"core_s": 3.6, "wall_s": 4.0, "worker": f"pid {os.getpid()}", "runs": [
        {"scheme": scheme["label"], "workload": load["name"], "vms": vms, "boot": boot,
         "valid": True, "reason": "", "seed": task["seed"] + boot, "tries": 1,
         "figures": [figure(scheme, load["name"], vms, task["seed"] + boot)] * vms}
        for boot in range(experiment["boots"]) for scheme in experiment["schemes"]
        for load in experiment["workloads"] for vms in experiment["vms"]]}
