# SPDX-License-Identifier: GPL-2.0-only
"""What the kernels counted during a run: from the texts of two snapshots to figures.

A snapshot is the output of `guest_snapshot` or `host_snapshot`: kernel files,
each under a heading. A kernel may lack any of them. What is missing, damaged
or went backwards is None from here to the report, and so is every sum with
such a part.
"""

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab import flushes, stats
from lab.flushes import Timed
from lab.guest import guest_group
from lab.model import Observe, RunRecord

DEBUGFS = "/sys/kernel/debug/pvsync"
CGROUPS = "/sys/fs/cgroup"
HOST = "host"
"""Name of the host's snapshots; guests' have their own names."""

HEADING = re.compile(r"==> (.+) <==")
SWITCHES = {"locks": "lock_stat", "tlb": "tlb_stat"}
"""What can be counted, to the kernel's file that switches it on; it costs time."""
LINES = 9999
"""Most of a file that a snapshot takes; `tlb_latency` may have about 1,000."""
PAIR = re.compile(r"([a-z_][\w.]*) (\d{1,20})", re.ASCII)
WAITS = re.compile(r"(\d{1,2}) (\d{1,20}) (\d{1,20})", re.ASCII)

Waits = dict[int, tuple[int, int]]
"""Bin to waits of at least 2^(bin-1) and below 2^bin cycles, and the cycles they took."""


def counted(observe: Observe) -> tuple[str, ...]:
    """Which of SWITCHES an experiment wants."""
    return tuple(what for what in SWITCHES if observe is True or observe == what)


def switch_on(observe: Observe) -> str:
    """Guest command that switches on what is to be counted, where the kernel can."""
    files = shlex.join(f"{DEBUGFS}/{SWITCHES[what]}" for what in counted(observe))
    return f'for file in {files}; do [ ! -e "$file" ] || echo 1 >"$file" || exit 1; done'


def guest_snapshot(observe: Observe, when: str) -> str:
    """Command of a guest's snapshot; that "before" a run clears the flush times first.

    The flush times come before another file, so that a text that was cut shows it.
    """
    latency = f"{DEBUGFS}/tlb_latency"
    files = {"locks": f"{DEBUGFS}/lock_waits", "tlb": latency}
    read = _command(*(files[what] for what in reversed(counted(observe))), f"{DEBUGFS}/counters")
    if when != "before" or "tlb" not in counted(observe):
        return read
    file = shlex.quote(latency)
    return f"[ ! -e {file} ] || echo 0 >{file}; {read}"


def host_snapshot(guests: Iterable[str]) -> str:
    """Command of the host's snapshot, with what CPU time these guests got."""
    groups = (f"{CGROUPS}/{guest_group(guest)}/cpu.stat" for guest in guests)
    return _command(f"{DEBUGFS}/counters", *groups)


def _command(*files: str) -> str:
    return f"head -v -n {LINES} {shlex.join(files)} 2>/dev/null"


def file_name(name: str, when: str) -> str:
    """File of a snapshot in the run's folder; `when` is "before" or "after"."""
    return f"{name}.{when}.txt"


@dataclass(frozen=True)
class Snapshot:
    """The values at one time; what the text does not have is empty or None."""

    counters: dict[str, int]
    waits: Waits | None
    cpu_usec: dict[str, int]
    """CPU group of a guest to the CPU time it got, microseconds."""
    flushes: Timed | None = None


@dataclass(frozen=True)
class Change:
    """What was added between two snapshots, in their units."""

    counters: dict[str, int | None]
    waits: Waits | None
    """Bins with new waits alone."""
    cpu_usec: dict[str, int | None]
    flushes: Timed | None = None


@dataclass(frozen=True)
class Observation:
    """One run."""

    guests: tuple[Change, ...]
    host: dict[str, int | None]
    """The host's counters."""
    cpu_s: tuple[float | None, ...]
    """CPU seconds that each VM got."""
    pcpu_s: float
    """Seconds of all the host's CPUs, from the first guest's start to the last one's end."""
    seconds: float
    """The same of one CPU."""
    flushes: tuple[Timed | None, ...]
    """Of each guest whose figure counts."""


def parse(text: str) -> Snapshot:
    """Read a snapshot; never fails.

    Of a file's lines a malformed tail is left out, and so is the text's last
    line when it was cut. With a malformed line before a good one, or a name
    that comes twice, nothing of that file is taken. Flush times are taken whole
    or not at all, and only when another file follows.
    """
    counters: dict[str, int] = {}
    waits: Waits | None = None
    cpu_usec: dict[str, int] = {}
    timed: Timed | None = None
    found = _sections(text)
    for path, lines in found.items():
        folder, _, name = path.rpartition("/")
        if name == "counters":
            counters = _pairs(lines)
        elif name == "lock_waits":
            waits = _waits(lines)
        elif name == "tlb_latency" and path != next(reversed(found)):
            timed = flushes.parse(lines)
        elif name == "cpu.stat" and (used := _pairs(lines).get("usage_usec")) is not None:
            cpu_usec[folder.rpartition("/")[2]] = used
    return Snapshot(counters, waits, cpu_usec, timed)


def _sections(text: str) -> dict[str, list[str]]:
    """Path to lines; those before the first heading are of no file."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n")[:-1]:
        heading = HEADING.fullmatch(line)
        if heading:
            lines = found.setdefault(heading[1], [])
        elif line:
            lines.append(line)
    return found


def _rows(pattern: re.Pattern[str], lines: list[str]) -> dict[str, tuple[int, ...]] | None:
    """First group to the other ones; None when the lines cannot be trusted."""
    matches = [pattern.fullmatch(line) for line in lines]
    while matches and matches[-1] is None:
        matches.pop()
    good = [match.groups() for match in matches if match]
    found = {name: tuple(map(int, numbers)) for name, *numbers in good}
    return found if len(found) == len(matches) else None


def _pairs(lines: list[str]) -> dict[str, int]:
    return {name: value for name, (value,) in (_rows(PAIR, lines) or {}).items()}


def _waits(lines: list[str]) -> Waits | None:
    rows = _rows(WAITS, lines)
    if rows is None:
        return None
    return {int(number): (waits, cycles) for number, (waits, cycles) in rows.items()}


def between(before: Snapshot, after: Snapshot) -> Change:
    """The later snapshot minus the earlier one."""
    return Change(
        counters=_each_grown(before.counters, after.counters),
        waits=_waits_grown(before.waits, after.waits),
        cpu_usec=_each_grown(before.cpu_usec, after.cpu_usec),
        flushes=flushes.between(before.flushes, after.flushes),
    )


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None or after < before else after - before


def _each_grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int | None]:
    return {name: _grown(before.get(name), after.get(name)) for name in {**before, **after}}


def _waits_grown(before: Waits | None, after: Waits | None) -> Waits | None:
    if before is None or after is None:
        return None
    found = {}
    for number in sorted({*before, *after}):
        pairs = zip(before.get(number, (0, 0)), after.get(number, (0, 0)), strict=True)
        waits, cycles = (_grown(*pair) for pair in pairs)
        if waits is None or cycles is None:
            return None
        if waits:
            found[number] = (waits, cycles)
    return found


def observation(run: RunRecord, change: Callable[[str], Change],
                measured: Collection[str]) -> Observation:
    """A valid run's; `change` says what was added in a guest, or in HOST.

    `measured` are the guests whose figure counts: neighbours flush for
    themselves, and that is no part of what the workload's flushes took.
    """
    changes = {guest.guest: change(guest.guest) for guest in run.guests}
    host = change(HOST)
    used = [host.cpu_usec.get(guest_group(name)) for name in changes]
    began = [guest.began for guest in run.guests if guest.began is not None]
    ended = [guest.ended for guest in run.guests if guest.ended is not None]
    seconds = max(ended, default=0.0) - min(began, default=0.0)
    return Observation(
        guests=tuple(changes.values()),
        host=host.counters,
        cpu_s=tuple(None if usec is None else usec / 1e6 for usec in used),
        pcpu_s=seconds * run.pcpus,
        seconds=seconds,
        flushes=tuple(one.flushes for name, one in changes.items() if name in measured),
    )


# Figures of one run


def spinning(seen: Observation) -> float | None:
    """Share of the CPU time that the VMs got in which they spun for locks, 0 to 1.

    The guests' own accounts of their time will not do: they sample it at ticks,
    which come late to who spins with interrupts off. None when locks were not
    counted: no guest runs without taking one.
    """
    counted = total(guest.counters for guest in seen.guests)
    wait, stolen = counted.get("lock_wait_ns"), counted.get("lock_stolen_ns")
    halted = counted.get("lock_halted_ns")
    if wait is None or stolen is None or halted is None or not counted.get("lock_acquisitions"):
        return None
    got = [used for used in seen.cpu_s if used is not None]
    if len(got) < len(seen.cpu_s):
        return None
    return _ratio(wait - stolen - halted, 1e9 * math.fsum(got))


def share_deviation(seen: Observation) -> float | None:
    """How far the CPU time of one VM is from the mean, at most; 0.1 is 10 %. None of one VM."""
    known = [used for used in seen.cpu_s if used is not None]
    if len(known) < max(2, len(seen.cpu_s)) or not any(known):
        return None
    mean = math.fsum(known) / len(known)
    return max(abs(used / mean - 1) for used in known)


SPIN_FIGURES = ("events/s", "candidates/event", "attempted", "accepted %", "picked %",
                "moved %", "ran %", "denied", "handling %", "deviation %")
"""What `spin_figures` gives."""


def spin_figures(seen: Observation) -> tuple[float | None, ...]:
    """What the host did about spinning vCPUs."""
    count = seen.host.get
    tried, refused = count("yield_attempted"), count("yield_refused")
    accepted = None if tried is None or refused is None else tried - refused
    return (
        _ratio(count("spin_events"), seen.seconds),
        _ratio(count("spin_candidates"), count("spin_events")),
        tried,
        _percent(accepted, tried),
        _percent(count("yield_picked"), tried),
        _percent(count("yield_moved"), tried),
        _percent(count("yield_ran"), tried),
        count("yield_denied"),
        _percent(count("spin_ns"), 1e9 * seen.pcpu_s),
        _percent(share_deviation(seen), 1),
    )


FLUSH_FIGURES = ("calls/s", "targets/call", "running %", "preempted %", "halted %", "in host %",
                 "merged %", "full", "pages", "refused", "us/call", "handling %")
"""What `flush_figures` gives."""


def flush_figures(seen: Observation) -> tuple[float | None, ...]:
    """What the host did about requests to flush the translations of other vCPUs."""
    count = seen.host.get
    calls = count("tlb_calls")
    states = [count(f"tlb_{state}") for state in ("running", "preempted", "halted", "in_host")]
    targets = _sum(states)
    return (
        _ratio(calls, seen.seconds),
        _ratio(targets, calls),
        *(_percent(state, targets) for state in states),
        _percent(count("tlb_merged"), targets),
        count("tlb_full"),
        count("tlb_pages"),
        count("tlb_refused"),
        _ratio(count("tlb_ns"), None if calls is None else 1e3 * calls),
        _percent(count("tlb_ns"), 1e9 * seen.pcpu_s),
    )


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _percent(part: float | None, whole: float | None) -> float | None:
    ratio = _ratio(part, whole)
    return None if ratio is None else 100 * ratio


# Over guests and runs


def middle(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None of none."""
    return stats.median([value for value in values if value is not None])


def total(parts: Iterable[Mapping[str, int | None]]) -> dict[str, int | None]:
    """The sum of each counter; None when one part lacks it."""
    listed = list(parts)
    names = dict.fromkeys(name for part in listed for name in part)
    return {name: _sum(part.get(name) for part in listed) for name in names}


def histogram(parts: Sequence[Waits | None]) -> tuple[tuple[int, int, int], ...]:
    """Bin, waits, cycles: the sums of all parts; empty when one is unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return ()
    return tuple(
        (number, sum(part.get(number, (0, 0))[0] for part in known),
         sum(part.get(number, (0, 0))[1] for part in known))
        for number in sorted({number for part in known for number in part})
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = 0
    for value in values:
        if value is None:
            return None
        known += value
    return known
