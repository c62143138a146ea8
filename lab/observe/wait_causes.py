# SPDX-License-Identifier: GPL-2.0-only
"""What vCPUs waited for, by cause: from a trace's intervals to sums of all of their time.

The function of the guest's kernel in which a vCPU spins, or has lost its CPU, says what it waited
for. ROWS has the functions, each row with its reason. What is in no row is left to its kind, and
counts as `other` where that tells nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from itertools import groupby

from lab.core.cells import Spent
from lab.machine.vmcb import Vcpu
from lab.observe.vcpu_trace import (
    HYPERCALL,
    INTERRUPTED,
    KERNEL,
    ON_CPU,
    PAUSE,
    Interval,
    Kind,
    Window,
)

MSR = 0x7c
"""Code of exits for a register, such as that which sends an interrupt."""
KICK = "kvm_kick_cpu"
"""What an unlock calls to wake a waiter that sleeps."""
SENDS = ("x2apic_send_IPI", "__x2apic_send_IPI_*", "x2apic_send_IPI_mask*", "__send_ipi_mask")
"""What sends an interrupt to another vCPU."""
UNSEEN = "not in the trace"
MOST_PLACES = 8
"""Kept of each cause."""

Where = Callable[[int], str]
"""Has the function of an address in the guest."""


class Cause(StrEnum):
    """What a vCPU does, or waits for."""

    RUNS = "runs"
    HOLDER = "lock holder"
    WAITER = "lock waiter"
    LOCK = "lock"
    FLUSH = "flush"
    RCU = "RCU"
    INTERRUPT = "interrupt"
    WAKE = "wake-up"
    CPUS = "only CPUs"
    HOST = "host"
    IDLE = "idle"
    OTHER = "other"


ABOUT = {
    Cause.RUNS: "the guest executes, and does not spin",
    Cause.HOLDER: "a wait for a lock, while each vCPU of the VM that may hold one has no CPU",
    Cause.WAITER: "a wait for a lock, while no vCPU can hold one, and one that waits has no CPU:"
                  " the next waiter; also from a kick until the waiter that slept has a CPU",
    Cause.LOCK: "a wait for a lock, while a vCPU that may hold it has a CPU: not told apart",
    Cause.FLUSH: "a wait until other vCPUs have run a function, which most often is a flush",
    Cause.RCU: "left, without a CPU, in the code of grace periods; those who wait for one sleep",
    Cause.INTERRUPT: "left, without a CPU, in an interrupt's handler or while one is sent",
    Cause.WAKE: "from an interrupt that another vCPU sends until the one that sleeps has a CPU;"
                " told in VMs of two vCPUs alone",
    Cause.CPUS: "a wait for a CPU while none of these was waited for",
    Cause.HOST: "KVM's and QEMU's work for an exit, with waits for a CPU in it",
    Cause.IDLE: "sleeps: idle, or waits for what is not told, such as a mutex, RCU or a disk",
    Cause.OTHER: "a spin, or an absence after one or after a hypercall, in a function of no row;"
                 " and what is not in the trace",
}
"""What is counted as each."""
OF_LOCKS = frozenset({Cause.LOCK, Cause.HOLDER, Cause.WAITER})


@dataclass(frozen=True)
class Row:
    """Functions of the guest's kernel, as patterns, and what a vCPU in them waits for."""

    cause: Cause
    functions: tuple[str, ...]
    why: str


ROWS = (
    Row(Cause.LOCK, ("*queued_spin_lock_slowpath", "queued_*_lock_slowpath",
                     "pvsync_*_lock_slowpath", "pvsync_helped_*_slowpath"),
        "entered only when a spinlock or rwlock is not free, and left with it"),
    Row(Cause.LOCK, ("pvsync_pv_park", "pvsync_help_spin", "__pvsync_help_wait_*"),
        "called by such slow paths alone"),
    Row(Cause.LOCK, ("native_halt",),
        "sleeps with interrupts off, which waiters for a lock alone do while a CPU is online"),
    Row(Cause.LOCK, ("mutex_spin_on_owner", "rwsem_spin_on_owner", "osq_lock"),
        "spins while the owner of a mutex or rwsem has a CPU of the guest"),
    Row(Cause.FLUSH, ("smp_call_function_*", "on_each_cpu_cond_mask", "__pvsync_ipi_wait"),
        "waits for other CPUs to have run a function; flushes are most of such calls"),
    Row(Cause.FLUSH, ("*flush_tlb_*", "pvsync_tlb_*", "arch_tlbbatch_flush"),
        "asks others, or the host, to flush, or does so for another"),
    Row(Cause.RCU, ("synchronize_rcu*", "rcu_gp_*", "rcu_exp_*", "sync_rcu_*", "rcu_barrier*",
                    "rcu_core*", "__wait_rcu_gp", "wait_rcu_exp_gp", "force_qs_rnp"),
        "moves a grace period on, or waits for one before it sleeps"),
    Row(Cause.INTERRUPT, (*SENDS, "kvm_send_ipi_*", "kvm_smp_send_call_func_ipi", KICK),
        "sends an interrupt or a kick: the one who is woken can take the sender's CPU"),
    Row(Cause.INTERRUPT, ("*sysvec_*", "*common_interrupt", "handle_softirqs", "__do_softirq",
                          "irq_exit_rcu", "hrtimer_interrupt", "__hrtimer_run_queues",
                          "native_apic_msr_eoi", "*flush_smp_call_function_queue"),
        "handles an interrupt, and others wait for that, as for a flush or a timer"),
    Row(Cause.CPUS, ("pvsync_ecs_give_back",),
        "gives the CPU to the one that the host has kept from it, and waits for the next turn"),
)
"""The first row that fits is the function's."""


@cache
def of_function(name: str) -> Cause | None:
    """What a vCPU in it waits for; None of one that is in no row.

    What the compiler has added to a name, as in `osq_lock.part.0`, does not count.
    """
    plain = name.partition(".")[0]
    return next((row.cause for row in ROWS
                 if any(fnmatchcase(plain, one) for one in row.functions)), None)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an interval that has one cause, or waits for a lock and is to be told."""

    cause: Cause
    begin: int
    end: int
    on_cpu: bool
    may_hold: bool
    """A lock, as far as is known."""
    place: str
    """In the guest's kernel; with the kind where that is not the cause's."""


def part(one: Interval, where: Where) -> Part:
    """An interval by its own kind and place alone."""
    place = where(one.rip if one.ended is None else one.to)
    found = of_function(place)
    cause = {
        Kind.RUNS: _still_waits(one, where) or Cause.RUNS,
        Kind.SPINS: found or Cause.OTHER,
        Kind.YIELDED: found or Cause.OTHER,
        Kind.CALLED: found or Cause.OTHER,
        Kind.KVM: found or Cause.OTHER if one.code == PAUSE else Cause.HOST,
        Kind.WAITS: found or Cause.CPUS,
        Kind.HOST: found or Cause.HOST,
        Kind.SLEEPS: found or Cause.IDLE,
    }[one.kind]
    holds = (cause is not Cause.LOCK and one.kind is not Kind.SLEEPS
             and (one.ended is not None or one.rip >= KERNEL))
    return Part(cause, one.begin, one.end, one.kind in ON_CPU, holds,
                f"{place}, {one.kind}" if cause is Cause.OTHER else place)


def _still_waits(one: Interval, where: Where) -> Cause | None:
    """What it waits for if it waits for that at both ends, and the host's interrupt ended it."""
    if one.ended not in INTERRUPTED or one.to < KERNEL:
        return None
    found = of_function(where(one.to))
    return found if found in {Cause.LOCK, Cause.FLUSH} and where(one.rip) == where(one.to) else None


def parts(own: Mapping[str, Sequence[Interval]], where: Where) -> dict[str, list[Part]]:
    """Those of each vCPU of a VM, in order, sleeps split where another vCPU ends them."""
    signals = sorted((one.begin, vmcb, where(one.rip) == KICK)
                     for vmcb, every in own.items() for one in every if _sends(one, where))
    sleeps = {vmcb: [(one.begin, one.end) for one in every if one.kind is Kind.SLEEPS]
              for vmcb, every in own.items()}
    woken = _woken(signals, sleeps)
    return {vmcb: [piece for one in every
                   for piece in _pieces(part(one, where), woken.get((vmcb, one.begin)))
                   if piece.begin < piece.end]
            for vmcb, every in own.items()}


def _sends(one: Interval, where: Where) -> bool:
    if one.code not in {MSR, HYPERCALL}:
        return False
    place = where(one.rip)
    return place == KICK or any(fnmatchcase(place, sends) for sends in SENDS)


def _woken(signals: Sequence[tuple[int, str, bool]],
           sleeps: Mapping[str, Sequence[tuple[int, int]]]) -> dict[tuple[str, int],
                                                                    tuple[int, bool]]:
    """Sleeps, by vCPU and beginning, that a signal has ended: when, and whether it was a kick.

    A kick is for the one vCPU of the VM that sleeps. An interrupt may be for any other vCPU, so it
    is told where there is one other alone. A kick counts before interrupts.
    """
    found, at = dict[tuple[str, int], tuple[int, bool]](), dict.fromkeys(sleeps, 0)
    for time, sender, kick in signals:
        asleep = list[tuple[str, int]]()
        for vmcb, own in sleeps.items():
            while at[vmcb] < len(own) and own[at[vmcb]][1] <= time:
                at[vmcb] += 1
            if vmcb != sender and at[vmcb] < len(own) and own[at[vmcb]][0] <= time:
                asleep.append((vmcb, own[at[vmcb]][0]))
        if len(asleep) == 1 and (kick or len(sleeps) == 2):
            before = found.get(asleep[0])
            if before is None or (kick and not before[1]):
                found[asleep[0]] = (time, kick)
    return found


def _pieces(one: Part, woken: tuple[int, bool] | None) -> Iterator[Part]:
    if woken is None:
        yield one
        return
    time, kick = woken
    yield replace(one, end=time, cause=Cause.LOCK if kick else one.cause)
    yield replace(one, begin=time, cause=Cause.WAITER if kick else Cause.WAKE)


def told(own: Part, others: Iterable[Part | None]) -> Cause:
    """What a vCPU that waits for a lock waits for, by what the VM's others do; None: not known."""
    every = list(others)
    holders = [one for one in every if one is None or one.may_hold]
    if any(one is None or one.on_cpu for one in holders):
        return Cause.LOCK
    if holders:
        return Cause.HOLDER
    waits = (own, *(one for one in every if one is not None and one.cause in OF_LOCKS))
    return Cause.LOCK if all(one.on_cpu for one in waits) else Cause.WAITER


def tell(made: Mapping[str, Sequence[Part]]) -> Iterator[Part]:
    """All parts of a VM's vCPUs, those that wait for a lock cut and told apart."""
    changes = list[tuple[int, str, Part | None]]()
    for vmcb, own in made.items():
        yield from (one for one in own if one.cause is not Cause.LOCK)
        changes += [(one.end, vmcb, None) for one in own]
        changes += [(one.begin, vmcb, one) for one in own]
    now, since = dict[str, Part | None].fromkeys(made), 0
    for time, group in groupby(sorted(changes, key=lambda one: one[0]), lambda one: one[0]):
        for vmcb, one in now.items():
            if one is not None and one.cause is Cause.LOCK:
                cause = told(one, (other for name, other in now.items() if name != vmcb))
                yield replace(one, begin=since, end=time, cause=cause)
        since = time
        for _, vmcb, after in sorted(group, key=lambda one: one[2] is not None):
            now[vmcb] = after  # an end before the beginning at the same time


def spent(vm: str, own: Mapping[str, Sequence[Interval]], window: Window, where: Where) -> Spent:
    """What the vCPUs of a VM did in a window, by cause; `own` are their intervals, by VMCB."""
    sums, places = Counter[Cause](), defaultdict[Cause, Counter[str]](Counter)
    for one in tell(parts(own, where)):
        ns = min(one.end, window.end) - max(one.begin, window.begin)
        if ns > 0:
            sums[one.cause] += ns
            places[one.cause][one.place] += ns
    if (missing := len(own) * window.ns - sums.total()) > 0:
        sums[Cause.OTHER] += missing
        places[Cause.OTHER][UNSEEN] += missing
    return Spent(vm, len(own), window.ns, {str(cause): sums[cause] for cause in Cause},
                 {str(cause): dict(places[cause].most_common(MOST_PLACES)) for cause in Cause
                  if cause in places})


def by_vm(found: Iterable[Interval], vcpus: Sequence[Vcpu], windows: Mapping[str, Window],
          where: Where) -> list[Spent]:
    """What each VM's vCPUs did in its window; VMs without one are left out."""
    owner = {one.vmcb: one.vm for one in vcpus}
    own = {vm: {one.vmcb: list[Interval]() for one in vcpus if one.vm == vm} for vm in windows}
    for one in found:
        if (vm := owner[one.vmcb]) in own:
            own[vm][one.vmcb].append(one)
    return [spent(vm, made, windows[vm], where) for vm, made in own.items()]
