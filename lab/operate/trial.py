# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync try`: settings of one VM on and off in turns, what its counters say, and all taken back.

The order is off, on, on, off, and so on, so that what drifts meanwhile falls on both alike. A
process of its own keeps what was there before and writes it back when this one ends, however it
ends: also when it is killed. Until then both keep any other pvsync from the VM's settings.
"""

import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

from lab.core.errors import LabError, UsageError
from lab.observe import vms
from lab.observe.vms import Vm
from lab.operate import figures, sample, settings
from lab.operate.figures import VmFigures
from lab.operate.settings import Host

PRESETS = {"recommended": {"mark": "exit", "extend": "ecs"}}
"""Names for several settings: what docs/operators.md switches on in the host."""
WINDOWS = 20
"""On and off together; a multiple of 4."""
LEAST_S = 1.0
"""Of a window: shorter ones are of a few preemptions only."""
MOST_S = 7 * 24 * 3600.0
"""Of a whole trial."""
SHOWN = (("held up %", "held_up", 100), ("co-stop %, est.", "costop", 100),
         ("running %", "busy", 100), ("unmarked %", "unmarked", 100),
         ("preempted/s", "lost_per_s", 1), ("yields/s", "yields_per_s", 1),
         ("exits/s of a vCPU", "exits_per_s", 1))
"""Name, field of VmFigures, and by what it is multiplied."""
TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)?", re.ASCII)
SECONDS = {None: 1, "s": 1, "min": 60, "h": 3600}
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26,
       10: 2.23, 12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00}
"""Degrees of freedom to the two-sided 95 % quantile of Student's t, a table of any textbook."""


@dataclass(frozen=True)
class Change:
    """A figure without and with the settings."""

    name: str
    off: float
    on: float
    half: float
    """Half of the 95 % confidence interval of on - off."""

    @property
    def seen(self) -> bool:
        """Whether the difference is more than chance."""
        return abs(self.on - self.off) > self.half


@dataclass(frozen=True)
class Before:
    """What is written back."""

    settings: dict[str, str]
    counts: str
    """Whether the host counted, as vms.counts() says."""


def seconds(text: str) -> float:
    """Of "10min", "90s", "1.5h"; UsageError for what is none, too short or too long."""
    found = TIME.fullmatch(text.strip())
    if not found:
        raise UsageError(f"'{text}' is no time such as 10min, 90s or 1h")
    length = float(found[1]) * SECONDS[found[2]]
    if length < LEAST_S * WINDOWS:
        raise UsageError(f"'{text}' is too short: {WINDOWS} windows take {LEAST_S * WINDOWS:.0f} s"
                         " at least")
    if length > MOST_S:
        raise UsageError(f"'{text}' is too long: {MOST_S / 3600:.0f}h at most")
    return length


def wanted(words: Mapping[str, str], preset: str | None) -> dict[str, str]:
    """Settings of a preset and those given besides."""
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"there is no '{preset}' to try (known: {', '.join(PRESETS)}, and"
                         " NAME=VALUE)")
    return PRESETS.get(preset or "", {}) | dict(words)


def turns() -> list[bool]:
    """Which windows are on."""
    return [number % 4 in {1, 2} for number in range(WINDOWS)]


def run(host: Host, word: str, values: dict[str, str], length: float,
        say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> list[Change]:
    """Try it; nothing of it is left. LabError when the VM ends meanwhile, or is held already."""
    vm = settings.one(vms.find(host.debugfs, host.proc), word)
    settings.check(host, vm, values)
    seen: dict[bool, list[VmFigures]] = {False: [], True: []}
    with settings.held(host, vm):
        before = Before({name: settings.read(host, vm, name) for name in values},
                        vms.counts(host.debugfs))
        with _guarded(host, vm, before):
            for number, on in enumerate(turns(), 1):
                with settings.Writes(host) as writes:
                    for name, value in (values if on else before.settings).items():
                        writes.write(vm, name, value)
                seen[on].append(_window(host, vm, length / WINDOWS, sleep))
                say(f"{vm.name}: window {number} of {WINDOWS}, {'on' if on else 'off'}")
    return changes(seen[False], seen[True])


def _window(host: Host, vm: Vm, length: float, sleep: Callable[[float], None]) -> VmFigures:
    vms.count(host.debugfs, "1")  # a `pvsync top` that ends stops it
    old = sample.read(host)
    sleep(length)
    found = figures.of_host(sample.facts(host), old, sample.read(host)).vms
    for one in found:
        if one.pid == vm.pid:
            return one
    raise LabError(f"{vm.name} has ended meanwhile, and its settings with it: nothing is left")


@contextmanager
def _guarded(host: Host, vm: Vm, before: Before) -> Iterator[None]:
    """Have what was there before again after the block, also if this process is killed in it."""
    ours, theirs = os.pipe()
    guard = 0
    try:
        with settings.undisturbed():
            guard = os.fork()
            if not guard:
                _guard(host, vm, before, ours, theirs)
        os.close(ours)
        yield
    finally:
        os.close(theirs)
        if guard:
            os.waitpid(guard, 0)
        left = put_back(host, vm, before)  # once more, to say what nobody could write
        if left:
            raise LabError(f"not all of {vm.name} could be taken back: {'; '.join(left)}:"
                           " see `pvsync show`")


def _guard(host: Host, vm: Vm, before: Before, ours: int, theirs: int) -> NoReturn:
    """Write back when the other process has ended; signals that would end this one are blocked."""
    with suppress(BaseException):
        os.setsid()
        os.close(theirs)
        while os.read(ours, 1):
            pass
        put_back(host, vm, before)
    os._exit(0)


def put_back(host: Host, vm: Vm, before: Before) -> list[str]:
    """Each as it was, and what could not be; a VM that has ended needs nothing."""
    left = []
    for name, value in before.settings.items():
        try:
            with settings.Writes(host) as writes:
                writes.write(vm, name, value)
        except LabError as error:
            if vm.folder.is_dir():
                left.append(f"{name}={value} ({error})")
    vms.count(host.debugfs, before.counts)
    return left


# What came of it

def changes(off: list[VmFigures], on: list[VmFigures]) -> list[Change]:
    """Each figure that is known in every window."""
    found = []
    for name, field, times in SHOWN:
        columns = [[getattr(one, field) for one in side] for side in (off, on)]
        if all(None not in column and len(column) > 1 for column in columns):
            scaled = [[times * value for value in column] for column in columns]
            found.append(Change(name, statistics.fmean(scaled[0]), statistics.fmean(scaled[1]),
                                half_width(*scaled)))
    return found


def half_width(one: list[float], two: list[float]) -> float:
    """Of the 95 % confidence interval of the difference of their means, by Welch."""
    parts = [statistics.variance(side) / len(side) for side in (one, two)]
    whole = sum(parts)
    if not whole:
        return 0.0
    freedom = whole**2 / sum(part**2 / (len(side) - 1)
                             for part, side in zip(parts, (one, two), strict=True))
    least = max((known for known in T95 if known <= freedom), default=1)
    return float(T95[least] * whole**0.5)


def text(name: str, values: dict[str, str], length: float, found: list[Change]) -> str:
    """For a terminal of 60 columns."""
    said = " ".join(f"{key}={value}" for key, value in values.items())
    lines = [f"{name}: {said}", f"{WINDOWS // 2} windows of {length / WINDOWS:.0f} s without and"
             " with it, in turns.", "All is taken back.", "",
             f"{'':17} {'off':>8} {'on':>8}   change, 95 % sure"]
    for one in found:
        verdict = "" if one.seen else " chance?"
        lines.append(f"{one.name:17} {one.off:8.1f} {one.on:8.1f}  {one.on - one.off:+8.1f} ±"
                     f" {one.half:.1f}{verdict}")
    if not any(one.seen for one in found):
        lines += ["", "Nothing has changed beyond chance."]
    lines += ["", "None of these is the speed of its programs: for that,",
              "time what is slow. Of 20 figures that stay as they are,",
              "one seems to change. To keep the settings: pvsync set."]
    return "\n".join(lines) + "\n"
