# SPDX-License-Identifier: GPL-2.0-only
"""How many seconds of one core a second takes in which one virtual CPU is busy.

    python -m tests.speed [--cpus 2,8,...] [--works exits,...] [--machine NAME]

Prints a table: a row for each kind of work, a column for each number of CPUs, all of
them busy. The seconds are the emulator's CPU time, so that what else this machine does
hardly shows. Those of a machine that does nothing are taken off.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from lab.build import emulator, images
from lab.core.model import Experiment
from lab.core.progress import Silent
from lab.machine import provenance
from lab.plan import config, machine_model
from lab.plan.schedule import PlannedRun
from lab.run import runner
from lab.run.session import Session
from tests.kernel import firmware

CPUS = (2, 8, 16, 32, 64)
TICKS_S = 0.01
"""A tick of /proc/stat, in the host."""
LIMIT_S = 900.0
FIRMWARE = {"an empty loop": ("COMPUTE", 60_000_000), "a loop of PAUSE": ("PAUSES", 3_000_000),
            "exits of a guest that does nothing else": ("EXITS", 100_000)}
"""Work of lockstep.S, and how often one CPU of two does it; others do as much together."""
SYSTEM_CALLS = "system calls on a host without guests"
GUESTS = "hackbench in two guests with as many vCPUs each"
LOOPS = 400_000
"""Of a read and a write, by all CPUs together."""
SCRIPT = """
for cpu in $(seq 0 {last}); do
	taskset -c $cpu dd if=/dev/zero of=/dev/null bs=1 count={count} 2>/dev/null &
done
wait
"""
Measured = Callable[[int], float]


def of_firmware(program: str, times: int, cpus: int, model: machine_model.MachineModel) -> float:
    """Seconds of one core for a busy second of one CPU, of work that is a firmware's."""
    command = emulator.prepare().command()
    charges = "," + model.cpu().replace(",+pause-filter,+pfthreshold", "")
    icount = f"lockstep=on,seed=1,quantum={model.quantum.ns}"
    with tempfile.TemporaryDirectory() as folder:
        played = [firmware.play(command, firmware.build(Path(folder), program, count), cpus,
                                icount=icount, charges=charges, limit=LIMIT_S)
                  for count in (max(1, times * 2 // cpus), 1)]
    busy = sum(spent.ns for spent in played[0].said.spent) / 1e9
    return (played[0].cpu_s - played[1].cpu_s) / busy


def experiment(cpus: int) -> Experiment:
    """One run of two guests that have as many vCPUs each as the host has CPUs."""
    return config.experiment("demo", config.Overrides(
        schemes=("pvqspinlock",), workloads=("hackbench-short",), vms=(2,), vcpus=cpus, pcpus=cpus,
        boots=1))


class Host:
    """A host of so many CPUs; what it has used of its own time, and of a core's here."""

    def __init__(self, cpus: int, model: str, folder: Path) -> None:
        self.what = experiment(cpus)
        files = images.of_experiment(self.what, None, (), Silent())
        spec = replace(runner.host_spec(self.what, "vt", files, model), seed=1)
        self.session = Session(self.what, spec, 0, folder, lambda record: None, lambda note: None)

    def busy_s(self) -> float:
        """Of all its CPUs since they started."""
        _, said = self.session.machine.control.run("head", "-n", "1", "/proc/stat")
        user, nice, system, _idle, _wait, irq, soft, *_ = map(int, said.split()[1:])
        return (user + nice + system + irq + soft) * TICKS_S

    def used_s(self) -> float:
        """CPU time that the emulator has taken."""
        assert self.session.machine.proc is not None
        times = psutil.Process(self.session.machine.proc.pid).cpu_times()
        return float(times.user + times.system)

    def rate(self, work: Callable[[], object]) -> float:
        """Seconds of one core for a busy second of one CPU while this is done."""
        busy, used = self.busy_s(), self.used_s()
        work()
        now = self.used_s()
        return (now - used) / (self.busy_s() - busy)


def of_system_calls(cpus: int, model: str) -> float:
    """The same of the kernel's own work for programs."""
    with tempfile.TemporaryDirectory() as folder:
        host = Host(cpus, model, Path(folder))
        try:
            host.session.open()
            script = SCRIPT.format(last=cpus - 1, count=LOOPS // cpus)
            control = host.session.machine.control
            return host.rate(lambda: control.run("sh", "-c", script, timeout=LIMIT_S))
        finally:
            host.session.abort()


def of_guests(cpus: int, model: str) -> float:
    """The same of guests that are busy with each other's messages, switches and exits."""
    with tempfile.TemporaryDirectory() as folder:
        host = Host(cpus, model, Path(folder))
        planned = PlannedRun(0, 0, "pvqspinlock", "hackbench-short", 2)
        try:
            host.session.open()
            host.session.boot_all()

            def work() -> None:
                record = host.session.run(planned, 0)
                if not record.valid:
                    raise SystemExit(f"{record.id} is invalid: {record.reason}")
            return host.rate(work)
        finally:
            host.session.abort()


def works(model: machine_model.MachineModel) -> dict[str, Measured]:
    """Each kind of work, and what measures it on so many CPUs."""
    def firmware_of(program: str, times: int) -> Measured:
        return lambda cpus: of_firmware(program, times, cpus, model)

    return {
        **{name: firmware_of(program, times) for name, (program, times) in FIRMWARE.items()},
        SYSTEM_CALLS: lambda cpus: of_system_calls(cpus, model.name),
        GUESTS: lambda cpus: of_guests(cpus, model.name),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description="What virtual time costs.")
    parser.add_argument("--cpus", default=",".join(map(str, CPUS)))
    parser.add_argument("--works", default="", help="words, of which a row's name has one")
    parser.add_argument("--machine", default=machine_model.DEFAULT)
    options = parser.parse_args(arguments)
    cpus = [int(one) for one in options.cpus.split(",")]
    model = machine_model.load(options.machine)
    print(f"Seconds of one core for a busy CPU-second; model {model.name},"
          f" {emulator.prepare().version}, commit {provenance.git_commit()},"
          f" {provenance.machine_kind()}.\n", flush=True)
    print("| CPUs |", " | ".join(map(str, cpus)), "|\n|---|" + "---|" * len(cpus), flush=True)
    for name, measured in works(model).items():
        if options.works and not any(word in name for word in options.works.split(",")):
            continue
        print(f"| {name} |", end="", flush=True)
        for number in cpus:
            print(f" {measured(number):.1f} |", end="", flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
