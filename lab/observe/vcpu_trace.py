# SPDX-License-Identifier: GPL-2.0-only
"""What vCPUs do over time: from the emulator's lines of VMRUN and #VMEXIT to intervals.

Times are the host CPUs' own, in virtual nanoseconds. Within a round one CPU's clock may be ahead of
another's. So what a vCPU does comes in the order of the lines, which is that of execution. Where it
goes on by a clock that is behind, its own time stands still.
"""

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate

from lab.machine import qemu_trace

SHORT_NS = 50_000
"""Between exit and entry on the same CPU, with no other vCPU entered there: KVM was at work."""
WINDOW_NS = 50_000_000
INTERRUPTED = frozenset({0x60, 0x61, 0x62, 0x64})
"""Codes of exits for the host's interrupts, NMIs and SMIs, and for an interrupt window."""
PAUSE, HALT, HYPERCALL = 0x77, 0x78, 0x81
KERNEL = 1 << 63
"""Addresses from here on are the guest kernel's."""
USER = "user mode"


class Kind(StrEnum):
    """What a vCPU does."""

    RUNS = "runs"
    SPINS = "spins"
    KVM = "in KVM"
    WAITS = "waits for a CPU"
    YIELDED = "yielded in a spin"
    CALLED = "away after a hypercall"
    HOST = "away for other work of the host"
    SLEEPS = "sleeps"


ON_CPU = frozenset({Kind.RUNS, Kind.SPINS, Kind.KVM})
"""Kinds in which a vCPU has a CPU of the host."""
LOST = frozenset({Kind.WAITS, Kind.YIELDED})
"""What the worst window has most of."""
ABOUT = {
    Kind.RUNS: "between VMRUN and #VMEXIT: the guest executes on a CPU of the host",
    Kind.SPINS: "likewise, until a PAUSE ends it, which the pause filter counts in a loop: all of"
                " that run counts, what it did before it span, too",
    Kind.KVM: f"out for less than {SHORT_NS // 1000} us and entered again on the same CPU, on which"
              " no other vCPU was entered meanwhile; any exit but HLT",
    Kind.WAITS: "left by an interrupt of the host, and away: longer, or another vCPU was entered on"
                " that CPU meanwhile, or it went on elsewhere",
    Kind.YIELDED: "left by a PAUSE, and away likewise",
    Kind.CALLED: "left by a hypercall, and away likewise",
    Kind.HOST: "left by any other exit, such as a page, a port or a register, and away likewise:"
               " the host's or QEMU's work, with waits for a CPU in it",
    Kind.SLEEPS: "left by a HLT, until it is entered again: idle, or waiting for a lock that lets"
                 " it sleep; with the wait for a CPU after it was woken",
}
"""How each is told from the others."""


@dataclass(frozen=True, slots=True)
class Event:
    """A VMRUN, or a #VMEXIT with its code."""

    vmcb: str
    cpu: int
    ns: int
    rip: int
    """Where the guest goes on, or stopped."""
    code: int | None


@dataclass(frozen=True, slots=True)
class Interval:
    """Something that a vCPU does for a time."""

    vmcb: str
    kind: Kind
    begin: int
    end: int
    cpu: int
    """Where it runs, or ran last."""
    code: int | None = None
    """The exit that it began with; None of one in the guest."""
    rip: int = 0
    """Where the guest stopped then."""
    ended: int | None = None
    """The exit that it ended with; None of one outside of the guest."""
    to: int = 0
    """Where the guest stopped in the end."""

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.begin


@dataclass(frozen=True)
class Window:
    """A part of a trace, and the time that its vCPUs lost in it together."""

    begin: int
    end: int
    lost_ns: int = 0

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.begin


def events(lines: Iterable[str]) -> Iterator[Event]:
    """Those of a trace, in order; lines of anything else are left out."""
    for line in lines:
        if found := qemu_trace.ENTRY.search(line):
            code = None
        elif found := qemu_trace.EXIT.search(line):
            code = int(found["code"], 16)
        else:
            continue
        yield Event(found["vmcb"], int(found["cpu"]), int(found["ns"]), int(found["rip"], 16), code)


def kind(code: int, left: bool) -> Kind:
    """Of an interval after this exit; `left`: the vCPU did not just go on."""
    if code == HALT:
        return Kind.SLEEPS
    if not left:
        return Kind.KVM
    if code in INTERRUPTED:
        return Kind.WAITS
    return {PAUSE: Kind.YIELDED, HYPERCALL: Kind.CALLED}.get(code, Kind.HOST)


def intervals(found: Iterable[Event]) -> list[Interval]:
    """What each vCPU does from its first event to its last, in the order of their ends.

    One that is in the guest in the end is taken to stay until the last event of all, and one that
    sleeps likewise. How long others are away then is not known, so it is left out.
    """
    made, last = list[Interval](), dict[str, tuple[Event, int]]()
    entered, end = Counter[int](), 0
    for line in found:
        event, end = line, max(end, line.ns)
        if line.vmcb in last:
            before, turns = last[line.vmcb]
            event = replace(line, ns=max(line.ns, before.ns))
            made += _between(before, turns, event, entered[event.cpu])
        if event.code is None:
            entered[event.cpu] += 1
        last[event.vmcb] = (event, entered[event.cpu])
    for event, _ in last.values():
        if event.code is None or event.code == HALT:
            made.append(_of(event, Kind.RUNS if event.code is None else Kind.SLEEPS, end))
    return [one for one in made if one.ns]


def _between(before: Event, turns: int, event: Event, now: int) -> Iterator[Interval]:
    """What happened between two events of a vCPU; nothing where a line between was lost.

    `turns` and `now` are the numbers of entries on the CPU of each until then.
    """
    if before.code is None and event.code is not None and before.cpu == event.cpu:
        one = _of(before, Kind.SPINS if event.code == PAUSE else Kind.RUNS, event.ns)
        yield replace(one, ended=event.code, to=event.rip)
    if before.code is not None and event.code is None:
        left = (before.cpu != event.cpu or turns != now or event.ns - before.ns >= SHORT_NS)
        yield _of(before, kind(before.code, left), event.ns)


def _of(before: Event, what: Kind, end: int) -> Interval:
    return Interval(before.vmcb, what, before.ns, end, before.cpu, before.code, before.rip)


def whole(found: Sequence[Interval]) -> Window:
    """All of a trace; of length 0 where it is empty."""
    return Window(min((one.begin for one in found), default=0),
                  max((one.end for one in found), default=0),
                  sum(one.ns for one in found if one.kind in LOST))


def worst(found: Sequence[Interval], length: int = WINDOW_NS) -> Window:
    """The window of this length in which vCPUs lose most time by waits and yields together.

    The earliest one, if several lose as much; all of a trace that is shorter.
    """
    full = whole(found)
    if full.ns <= length:
        return full
    steps = defaultdict[int, int](int)
    for one in found:
        if one.kind in LOST:
            steps[one.begin] += 1
            steps[one.end] -= 1
    times = sorted(steps)
    levels = list(accumulate(steps[time] for time in times))
    sums = [0, *accumulate(level * (after - time) for level, time, after
                           in zip(levels, times, times[1:], strict=False))]

    def until(time: int) -> int:
        at = bisect.bisect_right(times, time) - 1
        return 0 if at < 0 else sums[at] + levels[at] * (time - times[at])

    # What is lost changes at a constant rate but where a loss begins or ends at an edge.
    edges = {full.begin, *times, *(time - length for time in times)}
    lost, begin = max((until(begin + length) - until(begin), -begin) for begin in edges
                      if full.begin <= begin <= full.end - length)
    return Window(-begin, -begin + length, lost)


def within(found: Iterable[Interval], window: Window) -> list[Interval]:
    """Those parts of them that lie in a window."""
    return [replace(one, begin=max(one.begin, window.begin), end=min(one.end, window.end))
            for one in found if one.begin < window.end and one.end > window.begin]


def spread(found: Iterable[Interval]) -> float | None:
    """Mean number of the host's CPUs that these vCPUs, those of a VM, are on, or were last.

    1 says that all of them share a CPU. Only the time counts in which the CPU of each is known;
    None without any.
    """
    order = sorted(found, key=lambda one: one.begin)
    every, at = {one.vmcb for one in order}, dict[str, int]()
    known, sum_ns, since = 0, 0, 0
    for one in order:
        if len(at) == len(every):
            known += one.begin - since
            sum_ns += (one.begin - since) * len({*at.values()})
        at[one.vmcb], since = one.cpu, one.begin
    return sum_ns / known if known else None


class Symbols:
    """The functions of a guest's kernel, from its System.map."""

    def __init__(self, text: str) -> None:
        known = {}
        for line in text.splitlines():
            match line.split():
                case [address, sort, name] if sort in "tTwW":
                    try:
                        known[int(address, 16)] = name
                    except ValueError:
                        continue
        self._places = sorted(known)
        self._names = [known[place] for place in self._places]

    def function(self, rip: int) -> str:
        """Where the guest was: a function, user mode, or the address of what has no name."""
        if rip < KERNEL:
            return USER
        at = bisect.bisect_right(self._places, rip) - 1
        return f"{rip:#x}" if at < 0 else self._names[at]
