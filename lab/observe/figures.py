# SPDX-License-Identifier: GPL-2.0-only
"""Figures of what the kernels counted in a run, and over guests and runs.

What is unknown is None, and so is every figure with such a part.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from lab.core import stats
from lab.core.cells import Preemptions
from lab.core.model import Which
from lab.observe import preemptions
from lab.observe.counters import add, percent, ratio
from lab.observe.observed import Observation

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
    return ratio(wait - stolen - halted, 1e9 * math.fsum(got))


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
        ratio(count("spin_events"), seen.seconds),
        ratio(count("spin_candidates"), count("spin_events")),
        tried,
        percent(accepted, tried),
        percent(count("yield_picked"), tried),
        percent(count("yield_moved"), tried),
        percent(count("yield_ran"), tried),
        count("yield_denied"),
        percent(count("spin_ns"), 1e9 * seen.pcpu_s),
        percent(share_deviation(seen), 1),
    )


PAUSE_FIGURES = ("spins/s", "window", "handling us", "epochs", "inefficiency %", "PAUSEs/spin",
                 "cycles/PAUSE", "resource %", "lock %", "yielded %", "section %", "nobody %")
"""What `pause_figures` gives."""


def pause_figures(seen: Observation) -> tuple[float | None, ...]:
    """What pause filters told the host, and whom it chose from its lists."""
    count = seen.host.get
    told = add((count("spin_filter"), count("spin_soft")))
    handling = count("spin_handling_ns")
    picks = [count(f"pick_{kind}") for kind in ("resource", "lock", "yielded", "section", "none")]
    return (
        ratio(told, seen.seconds),
        ratio(count("spin_windows"), told),
        ratio(None if handling is None else handling / 1e3, told),
        count("epochs"),
        percent(add((count("epoch_spun_ns"), count("epoch_handling_ns"))), count("epoch_cpu_ns")),
        ratio(count("pause_exits"), count("pause_spins")),
        ratio(count("pause_cycles"), count("pause_exits")),
        *(percent(one, add(picks)) for one in picks),
    )


FLUSH_FIGURES = ("calls/s", "targets/call", "running %", "preempted %", "halted %", "in host %",
                 "merged %", "awaited %", "full", "pages", "refused", "us/call", "handling %")
"""What `flush_figures` gives."""


def flush_figures(seen: Observation) -> tuple[float | None, ...]:
    """What the host did about requests to flush the translations of other vCPUs."""
    count = seen.host.get
    calls = count("tlb_calls")
    states = [count(f"tlb_{state}") for state in ("running", "preempted", "halted", "in_host")]
    targets = add(states)
    return (
        ratio(calls, seen.seconds),
        ratio(targets, calls),
        *(percent(state, targets) for state in states),
        percent(count("tlb_merged"), targets),
        percent(count("tlb_awaited"), targets),
        count("tlb_full"),
        count("tlb_pages"),
        count("tlb_refused"),
        ratio(count("tlb_ns"), None if calls is None else 1e3 * calls),
        percent(count("tlb_ns"), 1e9 * seen.pcpu_s),
    )


EXTEND_FIGURES = ("granted", "in time %", "returned %", "expired %", "denied", "capped")
"""What `extend_figures` gives."""


def extend_figures(seen: Observation) -> tuple[float | None, ...]:
    """What became of preemptions inside critical sections."""
    count = seen.host.get
    granted = count("extend_granted")
    return (
        granted,
        *(percent(count(f"extend_{end}"), granted) for end in ("avoided", "returned", "expired")),
        count("extend_denied"),
        count("extend_capped"),
    )


PARK_FIGURES = ("waits/s", "slept %", "wake-up us")
"""What `park_figures` gives."""


def park_figures(seen: Observation) -> tuple[float | None, ...]:
    """How waiters for mutexes and rwsems waited, in all guests together."""
    count = total(guest.counters for guest in seen.guests).get
    slept, woken = count("park_slept"), count("park_wakeups")
    waits = add((slept, count("park_spun")))
    return (
        ratio(waits, seen.seconds),
        percent(slept, waits),
        ratio(count("park_wakeup_ns"), None if woken is None else 1e3 * woken),
    )


def preempted(seen: Observation, vms: Which = "all") -> Preemptions:
    """Why vCPUs lost their CPUs, those of all VMs or of some."""
    if vms == "all":
        counts, cpu_s = seen.host, seen.cpu_s
    else:
        some = slice(0, 1) if vms == "first" else slice(1, None)
        counts, cpu_s = total(seen.vms[some]), seen.cpu_s[some]
    got = [used for used in cpu_s if used is not None]
    known = math.fsum(got) if len(got) == len(cpu_s) else None
    return preemptions.figures(counts, seen.seconds, known, vms)


# Over guests and runs


def middle(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None of none."""
    return stats.median([value for value in values if value is not None])


def total(parts: Iterable[Mapping[str, int | None]]) -> dict[str, int | None]:
    """The sum of each counter; None when one part lacks it."""
    listed = list(parts)
    names = dict.fromkeys(name for part in listed for name in part)
    return {name: add(part.get(name) for part in listed) for name in names}


def medians(runs: Sequence[Preemptions]) -> Preemptions:
    """Of each figure the median of those runs that know it; there must be a run."""

    def of(figure: Callable[[Preemptions], float | None]) -> float | None:
        return middle(map(figure, runs))

    return Preemptions(
        vms=runs[0].vms,
        per_s=of(lambda run: run.per_s),
        kinds={kind: middle(run.kinds[kind] for run in runs) for kind in runs[0].kinds},
        avoided=of(lambda run: run.avoided),
        avoided_with_stuck=of(lambda run: run.avoided_with_stuck),
        unavoidable_per_s=of(lambda run: run.unavoidable_per_s),
        granted_per_s=of(lambda run: run.granted_per_s),
        us_per_grant=of(lambda run: run.us_per_grant),
        borrowed=of(lambda run: run.borrowed),
        unmarked=of(lambda run: run.unmarked),
    )
