# SPDX-License-Identifier: GPL-2.0-only
"""How a sweep's time grows with its workers, where its units only sleep.

    python -m tests.growth [--workers 1,2,...] [--unit-s SECONDS] [--units N]

Prints a table: a row for each number of workers. Each worker has as many units to make, so the
ideal is the same time for all. As units sleep, what is beyond it is the sweep's own work: the
scheduler's, the workers', the command's, and files of rows. The last two columns are CPU time a
unit: of the command and the scheduler, and of the workers. Real units need a core each besides.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.core.progress import Silent
from lab.sweep import cluster, grid
from lab.sweep.campaign import Campaign, Prepared
from lab.sweep.store import Store
from tests.lab import sweeping
from tests.lab.clusters import Cluster, wait

WORKERS = (1, 2, 4, 8, 16)
UNIT_S = 1.0
UNITS = 10
"""For each worker."""


@dataclass(frozen=True)
class Grown:
    """What a sweep took; seconds by the clock, and of CPU time."""

    units: int
    seconds: float
    central_s: float
    """Of the command and the scheduler, which no further worker helps."""
    workers_s: float

    def line(self, workers: int, ideal: float) -> str:
        return (f"{workers:7d}  {self.units:5d}  {self.seconds:7.2f}  {ideal:7.2f}"
                f"  {ideal / self.seconds:9.0%}  {self.central_s / self.units * 1000:10.1f}"
                f"  {self.workers_s / self.units * 1000:10.1f}")


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    times = [one.cpu_times() for one in processes]
    return sum(one.user + one.system for one in times)


def grown(workers: int, units: int, folder: Path) -> Grown:
    """Make `units` for each worker; SystemExit when a run is missing in the end."""
    made = Cluster(folder / "cluster", workers)
    try:
        store = Store(folder / "out", alone=True)
        # A seed has two units: guests of the two schemes have other boot arguments.
        text = sweeping.FILE.replace("seeds = 3", f"seeds = {units * workers // 2}")
        sweep = sweeping.load(folder, text + sweeping.HOST)
        runs = grid.runs(sweep, sweeping.BUILD)
        with cluster.connect(made.address) as client:
            wait(lambda: len(client.scheduler_info()["workers"]) == workers)
            scheduler, *others = (psutil.Process(one.pid) for one in made.processes)
            central = (psutil.Process(), scheduler)
            before, began = (cpu_s(central), cpu_s(others)), time.monotonic()
            Campaign(sweep, Prepared(sweeping.BUILD, (), {}), store, client, Silent(),
                     play=sweeping.play).make(runs)
            took = time.monotonic() - began
            used = cpu_s(central) - before[0], cpu_s(others) - before[1]
        if {row.key for row in store.rows.values()} != {run.key for run in runs}:
            raise SystemExit("the sweep lost runs")
        if bad := {row.reason for row in store.rows.values() if not row.valid}:
            raise SystemExit(f"runs are invalid: {bad}")
        return Grown(len({row.unit for row in store.rows.values()}), took, *used)
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


def at_least(least: int, text: str) -> int:
    """A whole number; argparse's error below `least`, or where it is none."""
    number = int(text) if text.isdecimal() else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
    return number


def workers_of(text: str) -> tuple[int, ...]:
    """Numbers of workers, from a list with commas."""
    return tuple(at_least(1, word) for word in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=workers_of, default=WORKERS)
    parser.add_argument("--unit-s", type=float, default=UNIT_S)
    parser.add_argument("--units", type=lambda text: at_least(2, text), default=UNITS,
                        help="for each worker")
    given = parser.parse_args()
    os.environ[sweeping.UNIT_S] = str(given.unit_s)  # workers inherit it
    print("workers  units  seconds    ideal  efficiency  central ms  workers ms", flush=True)
    for workers in given.workers:
        with tempfile.TemporaryDirectory() as folder:
            one = grown(workers, given.units, Path(folder))
        print(one.line(workers, one.units / workers * given.unit_s), flush=True)


if __name__ == "__main__":
    main()
