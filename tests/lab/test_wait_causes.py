# SPDX-License-Identifier: GPL-2.0-only
"""What vCPUs waited for: each cause in a small trace, and that nothing of their time is lost."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.core.cells import Spent
from lab.machine.vmcb import Vcpu
from lab.observe import vcpu_trace, wait_causes
from lab.observe.vcpu_trace import Symbols, Window
from lab.observe.wait_causes import ABOUT, ROWS, UNSEEN, Cause
from tests.lab.test_vcpu_trace import HALT, HYPERCALL, INTERRUPT, PAGE, PAUSE, random_trace

A, B, C = "0xa000", "0xb000", "0xc000"
MSR = wait_causes.MSR
BASE = 0xffffffff81000000
NAMES = ("work", "native_queued_spin_lock_slowpath", "smp_call_function_many_cond",
         "synchronize_rcu_expedited", "asm_sysvec_apic_timer_interrupt", "x2apic_send_IPI",
         "kvm_kick_cpu", "pv_native_safe_halt", "native_halt", "pvsync_ecs_give_back",
         "osq_lock.part.0", "cpu_relax_alone")
WORK, LOCK, FLUSH, RCU, TIMER, SEND, KICK, SLEEP, HALTED, GIVES, OSQ, ODD = (
    BASE + 0x100 * number for number in range(len(NAMES)))
USER = 0x400000
SYMBOLS = Symbols("".join(f"{BASE + 0x100 * number:x} T {name}\n"
                          for number, name in enumerate(NAMES)))
MS = 1_000_000


def enter(vcpu: str, cpu: int, ms: float, rip: int = WORK) -> str:
    return f"svm_vmrun cpu {cpu} ns {round(ms * MS)} vmcb {vcpu} asid 1 rip {rip:#x}\n"


def leave(vcpu: str, cpu: int, ms: float, code: int, rip: int = WORK) -> str:
    return (f"svm_vmexit cpu {cpu} ns {round(ms * MS)} vmcb {vcpu} code {code:#x} info 0x0"
            f" rip {rip:#x}\n")


def summed(lines: list[str], begin: float = 0, end: float = 10,
           vcpus: tuple[str, ...] = (A, B)) -> Spent:
    """Of one VM with these vCPUs."""
    found = vcpu_trace.intervals(vcpu_trace.events(lines))
    names = [Vcpu(one, "vm-0", number) for number, one in enumerate(vcpus)]
    window = Window(round(begin * MS), round(end * MS))
    (made,) = wait_causes.by_vm(found, names, {"vm-0": window}, SYMBOLS.function)
    assert sum(made.causes.values()) == made.vcpus * window.ns
    return made


def ms(made: Spent) -> dict[str, float]:
    """What there is of each cause."""
    return {cause: ns / MS for cause, ns in made.causes.items() if ns}


def alone(*lines: str) -> dict[str, float]:
    """Of a VM of one vCPU; the first and the last millisecond are of its work."""
    return ms(summed([enter(A, 0, 0), *lines, leave(A, 0, 10, HALT)], vcpus=(A,)))


@pytest.mark.parametrize(("code", "rip", "cause"), [
    (INTERRUPT, WORK, Cause.CPUS), (INTERRUPT, USER, Cause.CPUS),
    (INTERRUPT, FLUSH, Cause.FLUSH), (INTERRUPT, RCU, Cause.RCU), (INTERRUPT, TIMER,
                                                                  Cause.INTERRUPT),
    (INTERRUPT, LOCK, Cause.WAITER), (MSR, SEND, Cause.INTERRUPT), (MSR, WORK, Cause.HOST),
    (PAGE, WORK, Cause.HOST), (HYPERCALL, GIVES, Cause.CPUS), (HYPERCALL, KICK, Cause.INTERRUPT),
    (HYPERCALL, WORK, Cause.OTHER), (HALT, SLEEP, Cause.IDLE), (HALT, HALTED, Cause.WAITER)])
def test_why_a_vcpu_is_away(code: int, rip: int, cause: Cause) -> None:
    """From 1 to 9 ms; no other vCPU of its VM can hold a lock."""
    assert alone(leave(A, 0, 1, code, rip), enter(A, 0, 9, rip)) == {"runs": 2, cause: 8}


@pytest.mark.parametrize(("rip", "cause"), [
    (FLUSH, Cause.FLUSH), (LOCK, Cause.LOCK), (OSQ, Cause.LOCK), (ODD, Cause.OTHER)])
def test_spins_yields_and_what_kvm_does_for_them(rip: int, cause: Cause) -> None:
    """A spin counts by where it ends; a yield in the slow path of a lock is a waiter's."""
    away = Cause.WAITER if cause is Cause.LOCK else cause
    found = alone(leave(A, 0, 1, INTERRUPT), enter(A, 0, 1.01), leave(A, 0, 4, PAUSE, rip),
                  enter(A, 0, 4.01, rip), leave(A, 0, 5, PAUSE, rip), enter(A, 0, 9, rip))
    wanted = Counter[str]({"runs": 2, "host": 0.01, cause: 3.99})
    wanted.update({away: 4})
    assert found == pytest.approx(dict(wanted))


def test_a_run_that_spins_on() -> None:
    """Interrupted in the slow path, where it had begun: but not where it had begun elsewhere."""
    found = alone(leave(A, 0, 1, PAUSE, LOCK), enter(A, 0, 1.01, LOCK),
                  leave(A, 0, 3, INTERRUPT, LOCK), enter(A, 0, 3.01, LOCK),
                  leave(A, 0, 4, INTERRUPT, WORK), enter(A, 0, 4.01, WORK),
                  leave(A, 0, 8, INTERRUPT, LOCK), enter(A, 0, 8.01, LOCK))
    assert found == pytest.approx({"runs": 0.99 + 3.99 + 1.99, "lock": 1 + 0.01 + 1.99,
                                   "host": 0.03})


OTHERS = {
    "it runs": ([enter(B, 1, 0)], "lock"),
    "preempted in the kernel": ([enter(B, 1, 0), leave(B, 1, 1, INTERRUPT), enter(B, 1, 9)],
                                "lock holder"),
    "preempted as it flushes": ([enter(B, 1, 0), leave(B, 1, 1, INTERRUPT, FLUSH),
                                 enter(B, 1, 9)], "lock holder"),
    "preempted in user mode": ([enter(B, 1, 0), leave(B, 1, 1, INTERRUPT, USER),
                                enter(B, 1, 9)], "lock"),
    "preempted as the next waiter": ([enter(B, 1, 0), leave(B, 1, 1, INTERRUPT, LOCK),
                                      enter(B, 1, 9)], "lock waiter"),
    "idle": ([enter(B, 1, 0), leave(B, 1, 1, HALT, SLEEP), enter(B, 1, 9)], "lock"),
    "not in the trace": ([], "lock"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_whether_the_holder_has_a_cpu(what: str) -> None:
    """One vCPU spins for a lock from 1 to 9 ms; what the VM's other one does says why."""
    lines, cause = OTHERS[what]
    made = summed([enter(A, 0, 0), leave(A, 0, 1, PAUSE, LOCK), enter(A, 0, 1, LOCK), *lines,
                   leave(A, 0, 9, PAUSE, LOCK), enter(A, 0, 9, WORK)], 1, 9)
    lock = {name: ns / MS for name, ns in made.causes.items() if name.startswith("lock") and ns}
    assert lock == {cause: 8.0 * (2 if what == "preempted as the next waiter" else 1)}


def test_one_of_several_that_may_hold_it_runs() -> None:
    """Of three vCPUs one is preempted, and one runs: not told; then both are preempted."""
    made = summed([enter(A, 0, 0, LOCK), enter(B, 1, 0), enter(C, 2, 0), leave(B, 1, 1, INTERRUPT),
                   leave(C, 2, 4, INTERRUPT), leave(A, 0, 9, PAUSE, LOCK), enter(A, 0, 9, WORK),
                   enter(B, 1, 10), enter(C, 2, 10), leave(A, 0, 10, HALT)], 0, 9, (A, B, C))
    assert {cause: made.causes[cause] / MS for cause in ("lock", "lock holder")} == {
        "lock": 4, "lock holder": 5}


@pytest.mark.parametrize(("code", "rip", "before", "after"), [
    (HYPERCALL, KICK, "lock", "lock waiter"), (MSR, SEND, "idle", "wake-up"),
    (MSR, WORK, "idle", "idle")])
def test_who_wakes_a_vcpu(code: int, rip: int, before: str, after: str) -> None:
    """It sleeps from 1 to 9 ms, the other one sends at 3."""
    lines = [enter(A, 0, 0), enter(B, 1, 0), leave(A, 0, 1, HALT, SLEEP),
             leave(B, 1, 3, code, rip), enter(B, 1, 3.001), enter(A, 0, 9)]
    wanted = Counter[str]({before: 2})
    wanted[after] += 6
    made = summed(lines, 1, 9)
    assert {cause: ns / MS for cause, ns in made.causes.items()
            if cause in wanted} == wanted
    three = ms(summed([*lines, enter(C, 2, 9)], 1, 9, (A, B, C)))
    assert three.get("wake-up") is None and three.get("lock waiter") == (
        6 if code == HYPERCALL else None)


def test_a_kick_for_one_of_two_that_sleep_is_not_told() -> None:
    made = summed([enter(A, 0, 0), leave(A, 0, 1, HALT, SLEEP), leave(C, 2, 1, HALT, SLEEP),
                   enter(B, 1, 0), leave(B, 1, 3, HYPERCALL, KICK), enter(B, 1, 3.001),
                   enter(A, 0, 9), enter(C, 2, 9), leave(A, 0, 10, HALT)], 1, 9, (A, B, C))
    assert ms(made)["idle"] == 16


def test_what_is_in_no_row_is_shown() -> None:
    made = summed([enter(A, 0, 2), leave(A, 0, 4, PAUSE, ODD), enter(A, 0, 10)], vcpus=(A,))
    assert ms(made) == {"other": 10}
    assert made.places["other"] == {UNSEEN: 2 * MS, "cpu_relax_alone, spins": 2 * MS,
                                    "cpu_relax_alone, yielded in a spin": 6 * MS}


def test_each_row_has_a_reason_and_each_cause_a_meaning() -> None:
    assert all(row.why and row.functions for row in ROWS) and {*ABOUT} == {*Cause}
    known = {"__pv_queued_spin_lock_slowpath": Cause.LOCK, "queued_read_lock_slowpath": Cause.LOCK,
             "pvsync_pmt_lock_slowpath": Cause.LOCK, "pvsync_helped_tas_slowpath": Cause.LOCK,
             "__pv_queued_spin_unlock_slowpath": None, "pvsync_pv_unlock_slowpath": None,
             "flush_tlb_func": Cause.FLUSH, "native_flush_tlb_multi": Cause.FLUSH,
             "rcu_gp_fqs_loop": Cause.RCU, "__rcu_read_lock": None, "rcu_sched_clock_irq": None,
             "__flush_smp_call_function_queue": Cause.INTERRUPT, "clear_page_rep": None}
    assert {name: wait_causes.of_function(name) for name in known} == known


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_no_time_is_lost_or_counted_twice(seed: int) -> None:
    """Whatever a trace has, `summed` finds the window of each vCPU in its causes."""
    lines = random_trace(seed, 200)
    full = vcpu_trace.whole(vcpu_trace.intervals(vcpu_trace.events(lines)))
    vcpus = tuple(f"{0xa000 + number * 0x1000:#x}" for number in range(4))
    for begin, end in ((full.begin, full.end), (full.begin + 123_457, full.end - 54_321)):
        summed(lines, begin / MS, end / MS, vcpus)
