# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a KVM host over some time, from what it showed before and after. Pure functions.

Shares are of the vCPUs' time, 0 to 1; None is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lab.core.cells import Preemptions
from lab.observe import preemptions
from lab.observe.counters import add, each_grown, grown, ratio
from lab.operate.sample import Facts, Sample, VmSample

IDLE, IOWAIT, STEAL, GUEST = 3, 4, 7, 8
"""Places in /proc/stat's first line."""


@dataclass(frozen=True)
class VmFigures:
    """A VM over some time."""

    name: str
    number: str
    pid: int
    vcpus: int
    held_up: float | None
    """Waited for a CPU."""
    worst: float | None
    """The same of the vCPU that waited the longest."""
    busy: float | None
    """Had a CPU."""
    costop: float | None
    """Ran while another vCPU of the VM waited for a CPU, an estimate: at most so much can have
    been spent on waiting for it."""
    yields_per_s: float | None
    """Directed yields that were tried."""
    yields_taken: float | None
    """Share of these that the scheduler followed."""
    polled: float | None
    """Polled in vain before a halt."""
    exits_per_s: float | None
    """Of one vCPU."""
    unmarked: float | None
    """Of the preemptions, those of which the guest is not told."""
    lost_per_s: float | None
    """Preemptions, of all its vCPUs."""
    throttled: float | None
    """Held back by a limit of CPU time."""
    nested_per_s: float | None
    """Entries of guests of its own."""
    why: Preemptions | None
    """What its vCPUs did; only a pvsync kernel knows."""
    loans: tuple[int, int] | None
    """Of pvsync: those that avoided a preemption in a section, those that expired."""
    allowed: tuple[frozenset[int], ...]
    """CPUs of each vCPU."""
    cookies: bool
    """Whether core scheduling holds for it."""
    words: tuple[str, ...]
    """Its process's command line."""


@dataclass(frozen=True)
class HostFigures:
    """The host over some time."""

    seconds: float
    vcpus: int
    overcommit: float | None
    """vCPUs for each CPU."""
    idle: float | None
    """Share of the CPUs' time."""
    stolen: float | None
    """Likewise: by a hypervisor below this host."""
    vms: tuple[VmFigures, ...]
    """Those held up the most first."""


def of_host(facts: Facts, before: Sample, after: Sample) -> HostFigures:
    """The VMs that are in both; figures of each over the time between its own two readings.

    So it is with the times of a vCPU.
    """
    found = [_vm(before.vms[name], after.vms[name]) for name in after.vms if name in before.vms]
    ticks = [grown(*pair) for pair in zip(before.ticks, after.ticks, strict=False)]
    whole = add(ticks[:GUEST])  # a guest's time is in the user's already
    vcpus = sum(vm.vcpus for vm in found)
    return HostFigures(
        seconds=after.at_s - before.at_s,
        vcpus=vcpus,
        overcommit=ratio(vcpus, len(facts.cpus)),
        idle=ratio(add(ticks[IDLE:IOWAIT + 1]), whole) if len(ticks) > IOWAIT else None,
        stolen=stolen(before.ticks, after.ticks),
        vms=tuple(sorted(found, key=lambda vm: (-(vm.held_up or 0), vm.name, vm.pid))),
    )


def stolen(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Share of some CPUs' time that a hypervisor below them had, from their ticks."""
    ticks = [grown(*pair) for pair in zip(before, after, strict=False)]
    return ratio(ticks[STEAL], add(ticks[:GUEST])) if len(ticks) > STEAL else None


def _vm(before: VmSample, after: VmSample) -> VmFigures:
    seconds = after.at_s - before.at_s
    same = len(before.threads) == len(after.threads)
    pairs = list(zip(before.threads, after.threads, strict=True)) if same else []
    whole_ns = 1e9 * seconds
    lasted = [1e9 * (new.at_s - old.at_s) for old, new in pairs]
    waits = [_share(grown(old.waited_ns, new.waited_ns), ns)
             for (old, new), ns in zip(pairs, lasted, strict=True)]
    runs = [_share(grown(old.ran_ns, new.ran_ns), ns)
            for (old, new), ns in zip(pairs, lasted, strict=True)]
    vcpus = len(after.threads)
    stats = each_grown(before.stats, after.stats)
    count = each_grown(before.counters, after.counters)
    tried, taken, reported, other = map(stats.get, (
        "directed_yield_attempted", "directed_yield_successful", "preemption_reported",
        "preemption_other"))
    why = preemptions.figures(count, seconds) if preemptions.are_counted(count) else None
    late, expired = count.get("extend_avoided"), count.get("extend_expired")
    lost = add((reported, other))
    return VmFigures(
        name=after.vm.name, number=after.vm.number, pid=after.vm.pid, vcpus=vcpus,
        held_up=_mean(waits), worst=None if None in waits or not waits else max(
            wait for wait in waits if wait is not None),
        busy=_mean(runs), costop=costop(waits, runs),
        yields_per_s=ratio(tried, seconds), yields_taken=ratio(taken, tried),
        polled=ratio(stats.get("halt_poll_fail_ns"), whole_ns * vcpus),
        exits_per_s=ratio(stats.get("exits"), seconds * vcpus),
        unmarked=ratio(other, lost) if why is None or why.unmarked is None else why.unmarked,
        lost_per_s=ratio(lost, seconds) if why is None else why.per_s,
        throttled=ratio(grown(before.throttled_us, after.throttled_us), 1e6 * seconds * vcpus),
        nested_per_s=ratio(stats.get("nested_run"), seconds), why=why,
        loans=None if late is None or expired is None else (late, expired),
        allowed=tuple(thread.allowed for thread in after.threads),
        cookies=any(thread.cookie for thread in after.threads), words=after.vm.words)


def _share(part: int | None, whole: float) -> float | None:
    """At most 1: a wait that ends is counted when it does, and may have begun before."""
    share = ratio(part, whole)
    return None if share is None else min(1.0, share)


def _mean(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) / len(known) if known and len(known) == len(parts) else None


def costop(waits: list[float | None], runs: list[float | None]) -> float | None:
    """Share of the vCPUs' time in which one ran while a sibling waited for a CPU, an estimate.

    It takes the vCPUs' times for independent of each other. Whether the one that runs has any
    need of the one that waits, no stock kernel knows: so it is an upper bound of co-stop.
    """
    waiting = [one for one in waits if one is not None]
    running = [one for one in runs if one is not None]
    if not waits or len(waiting) < len(waits) or len(running) < len(runs):
        return None
    parts = [run * (1 - prod(1 - wait for other, wait in enumerate(waiting) if other != own))
             for own, run in enumerate(running)]
    return sum(parts) / len(parts)
