# SPDX-License-Identifier: GPL-2.0-only
"""What came of directed yields, by the events sched_yield_to and sched_switch of a host.

The first one is of kernel/rfc/03-yield-that-lands.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from lab.machine.control import Control

TRACING = "/sys/kernel/debug/tracing"
EVENTS = ("sched_yield_to", "sched_switch")
BUFFER_KB = 16384
CLOCK = "global"
"""Events of all CPUs are in one order by it."""
FEATURES = "/sys/kernel/debug/sched/features"
AHEAD = "YIELD_TO_AHEAD"
"""The scheduler's feature that patch 2 adds."""
YIELD = re.compile(r"\[\d+\] \S+ +(\d+\.\d+): sched_yield_to: .* pid=(\d+) cpu=(\d+)"
                   r" accepted=([01])\s*$")
SWITCH = re.compile(r"\[(\d+)\] \S+ +(\d+\.\d+): sched_switch: .* next_pid=(\d+) next_prio=\d+\s*$")
LOST = re.compile(r"^overrun: (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcomes:
    """Of the directed yields of a run."""

    asked: int
    accepted: int
    """By the scheduling class."""
    landed: int
    """The next switch on the CPU of the target was to it."""
    waited_us: tuple[float, ...]
    """From an accepted yield until its target was switched to, wherever; sorted."""

    @property
    def share(self) -> float:
        """Of the accepted ones, those that landed."""
        return self.landed / self.accepted if self.accepted else 0.0

    def __str__(self) -> str:
        waits = f", median wait {median(self.waited_us):.0f} us" if self.waited_us else ""
        return (f"{self.asked} yields, {self.accepted} accepted, {self.landed} landed"
                f" ({self.share:.1%}){waits}")


@dataclass(frozen=True)
class _Yield:
    at: float
    target: int
    cpu: int


def outcomes(trace: str) -> Outcomes:
    """Of what tracefs shows of both events; yields whose target never ran again do not count."""
    asked, landed = 0, 0
    waited: list[float] = []
    open_on: dict[int, list[_Yield]] = {}
    """Yields to a task of a CPU that has not switched since."""
    not_run: dict[int, list[_Yield]] = {}
    """Yields to a task that has not been switched to since."""
    for line in trace.splitlines():
        if found := YIELD.search(line):
            asked += 1
            if found[4] == "1":
                one = _Yield(float(found[1]), int(found[2]), int(found[3]))
                open_on.setdefault(one.cpu, []).append(one)
                not_run.setdefault(one.target, []).append(one)
        elif found := SWITCH.search(line):
            cpu, at, following = int(found[1]), float(found[2]), int(found[3])
            here = open_on.pop(cpu, [])
            for one in not_run.pop(following, []):
                waited.append(1e6 * (at - one.at))
                landed += any(one is other for other in here)
    return Outcomes(asked, len(waited), landed, tuple(sorted(waited)))


def during(control: Control, ahead: bool, run: Callable[[], None]) -> Outcomes:
    """Of the yields while `run` runs, with or without patch 2."""
    control.write_file(FEATURES, AHEAD if ahead else f"NO_{AHEAD}")
    control.write_file(f"{TRACING}/trace_clock", CLOCK)
    control.write_file(f"{TRACING}/buffer_size_kb", str(BUFFER_KB))
    control.write_file(f"{TRACING}/trace", "")
    _switch(control, "1")
    run()
    _switch(control, "0")
    _, said = control.run("sh", "-c", f"cat {TRACING}/per_cpu/cpu*/stats")
    assert set(LOST.findall(said)) == {"0"}, said
    return outcomes(control.read_file(f"{TRACING}/trace").decode(errors="replace"))


def _switch(control: Control, value: str) -> None:
    for event in EVENTS:
        control.write_file(f"{TRACING}/events/sched/{event}/enable", value)
