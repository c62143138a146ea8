# SPDX-License-Identifier: GPL-2.0-only
"""Whom the host lends nothing to, and that nobody borrows beyond the cap.

A guest with twice as many vCPUs as there are CPUs claims a critical section all the time. So it
asks for a loan whenever one of them is to go.
"""

import base64
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lab.machine.guest import guest_group
from lab.observe import observed
from lab.observe.counters import pairs
from lab.observe.preemptions import KINDS
from lab.run.parameters import parameter_file
from lab.run.session import Session
from tests.kernel.conftest import Host, borrowed, written

GUEST = "pvqspinlock-0"
VCPUS = 4
CLAIM = "modprobe ecs_claim seconds=2 form=1 {more} && rmmod ecs_claim"
GROUP = f"{observed.CGROUPS}/{guest_group(GUEST)}"
PERIOD = 100_000_000
"""Run time of a vCPU over which what it may borrow is added up, ns (extend.c)."""
LONGEST = 4_000_000
"""ns of a loan of 1 ms, whose timer may be late in an emulated host."""
QUOTA, QUOTA_PERIOD = 40_000, 100_000
"""us of CPU time for the VM, and in how many."""
THREADS = ("-smp", "cores=1,threads=2")
"""QEMU's arguments for a host whose two CPUs are one core."""
TICK_US = 4000
"""The kernels of the lab have 250 ticks a second."""
ENOUGH = "/run/enough"
SLEEPER = f"""
import os, time
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists("{ENOUGH}"):
    time.sleep(0.002)
"""
"""Wakes up 500 times a second, until there is a file."""
COOKIE = """
import ctypes
import sys
PR_SCHED_CORE, THREAD_GROUP = 62, 1
OPERATION = {"set": 1, "clear": 2}
libc = ctypes.CDLL(None, use_errno=True)
for process in sys.argv[2:]:
    if libc.prctl(PR_SCHED_CORE, OPERATION[sys.argv[1]], int(process), THREAD_GROUP, 0):
        sys.exit(f"process {process}: error {ctypes.get_errno()}")
"""
"""Gives processes a cookie of their own, or the one of this script, which is none."""


@dataclass(frozen=True)
class Lent:
    """What came of two seconds of claims."""

    granted: int
    denied: int
    capped: int
    ns: int
    """Of all loans."""
    used: int
    """CPU time of the VM, ns, that of its monitor included."""
    preempted: int
    """Times that a vCPU lost its CPU and wanted it."""


def counted(session: Session) -> Lent:
    """The host's counters of the VM, and its CPU time, since it began."""
    files = f"/sys/kernel/debug/kvm/*-*/pvsync/counters {observed.cpu_file(GUEST)}"
    numbers = pairs(session.machine.control.run("sh", "-c", f"cat {files}")[1].splitlines())
    return Lent(numbers["extend_granted"], numbers["extend_denied"], numbers["extend_capped"],
                numbers["extend_ns"], 1000 * numbers["usage_usec"],
                sum(numbers[f"preempt_{kind}"] for kind in KINDS))


def in_guest(session: Session, tag: str, command: str) -> None:
    """Run a command there, which has to end well."""
    answer = session.machine.control.call("guest_exec", name=GUEST, tag=tag, command=command,
                                          timeout=120)
    assert answer["status"] == 0, base64.b64decode(answer["out"])


def lent(session: Session, more: str = "") -> Lent:
    """Let the guest claim, and say what it got."""
    before = counted(session)
    in_guest(session, "claim", CLAIM.format(more=more))
    after = counted(session)
    change = Lent(*(getattr(after, name) - getattr(before, name) for name in Lent.__annotations__))
    print(change)
    return change


@contextmanager
def lender(host: Host, *arguments: str, variant: str = "test",
           qemu: tuple[str, ...] = ()) -> Iterator[Session]:
    """A host, booted with these, that lends to its guest."""
    with host("hostile.toml", variant, *arguments, qemu=qemu) as opened:
        with lending(opened):
            yield opened
        assert opened.machine.trouble() == ""


@contextmanager
def lending(session: Session) -> Iterator[None]:
    """The host lends, and the guest runs, meanwhile."""
    with written(session, parameter_file("extend"), "ecs"):
        session.machine.control.call("switch", run=[GUEST])
        yield


@pytest.fixture(scope="module")
def session(common: Session) -> Iterator[Session]:
    with borrowed(common), lending(common):
        yield common


@contextmanager
def own(session: Session, name: str, value: str) -> Iterator[None]:
    """The VM has this value meanwhile."""
    def tune(text: str) -> None:
        session.machine.control.call("tune", name=GUEST, parameter=name, value=text)

    tune(value)
    try:
        yield
    finally:
        tune("global")


def test_nobody_borrows_beyond_the_cap(session: Session) -> None:
    """A loan may go beyond it, and is carried over: once for each vCPU, whatever it claims."""
    for permille in (20, 100):
        with written(session, parameter_file("extend_cap"), str(permille)):
            found = lent(session)
        assert found.granted > 0 and found.capped > 0, found
        most = (found.used + VCPUS * PERIOD) * permille // 1000 + VCPUS * LONGEST
        assert found.ns <= most, (found, most)
    with written(session, parameter_file("extend_cap"), "0"):
        found = lent(session)
    assert found.granted == 0 < found.capped, found


def test_a_loan_that_is_dropped_is_not_followed_by_another(session: Session) -> None:
    """To share the record anew is of no use: after each loan somebody else has a turn."""
    found = lent(session, "drop=Y")
    assert 0 < found.granted <= found.preempted + VCPUS, found


def test_a_vm_has_parameters_of_its_own(session: Session) -> None:
    """While it runs, and whatever all others have; and none any more after `global`."""
    with own(session, "extend", "off"):
        found = lent(session)
    assert found.granted == 0 == found.capped, found
    with own(session, "extend_cap", "0"):
        found = lent(session)
    assert found.granted == 0 < found.capped, found
    with own(session, "extend_cap", "1000"):
        long = lent(session)
        with own(session, "extend_us", "100"):
            short = lent(session)
    assert short.ns / short.granted < 0.75 * long.ns / long.granted, (short, long)
    assert lent(session).granted > 0


def test_who_runs_when_nothing_else_wants_to_borrows_nothing(session: Session) -> None:
    """Groups that are idle, and tasks that are; and all borrow again that are no more."""
    assert lent(session).granted > 0
    with written(session, f"{GROUP}/cpu.idle", "1"):
        found = lent(session)
        assert found.granted == 0 < found.denied, found
    assert lent(session).granted > 0
    threads = f"for process in $(cat {GROUP}/cgroup.procs); do chrt -a -{{}} -p 0 $process; done"
    for policy, borrows in (("i", False), ("o", True)):
        status, said = session.machine.control.run("sh", "-c", threads.format(policy))
        assert status == 0, said
        found = lent(session)
        assert (found.granted > 0) == borrows, found
        assert borrows or found.denied > 0, found


def test_loans_that_a_timer_cannot_end_are_not_made(host: Host) -> None:
    """Without high resolution timers, each loan is at least a tick."""
    with lender(host, "highres=off") as session:
        found = lent(session)
        assert found.granted == 0 < found.denied, found
        with written(session, parameter_file("extend_us"), str(TICK_US - 1)):
            found = lent(session)
        assert found.granted == 0 < found.denied, found
        with written(session, parameter_file("extend_us"), str(TICK_US)):
            assert lent(session).granted > 0


def test_real_time_tasks_wait_for_no_loan(session: Session) -> None:
    """Each vCPU that one finds in its way goes at once, and is not lent to."""
    quiet = lent(session)
    sleepers = [session.machine.control.submit(
        "exec", argv=["chrt", "-f", "1", "taskset", "-c", cpu, "timeout", "60",
                      "python3", "-c", SLEEPER], timeout=90) for cpu in ("0", "1")]
    busy = lent(session)
    assert not any(sleeper.done() for sleeper in sleepers)
    session.machine.control.write_file(ENOUGH, "")
    assert [sleeper.result(60)["status"] for sleeper in sleepers] == [0, 0]
    assert busy.granted > 0 and busy.denied > quiet.denied + 200, (quiet, busy)


@contextmanager
def vcpus_as_cpus(session: Session) -> Iterator[None]:
    """So that hardly anything else wants the CPU of a vCPU."""
    def switch(on: int) -> None:
        files = " ".join(f"/sys/devices/system/cpu/cpu{cpu}/online" for cpu in range(2, VCPUS))
        in_guest(session, "online", f"for file in {files}; do echo {on} >$file || exit 1; done")

    switch(0)
    try:
        yield
    finally:
        switch(1)


@pytest.mark.soak
def test_bandwidth_that_is_used_up_is_not_lent(host: Host) -> None:
    """Who has none left goes, and that is what most vCPUs go for here."""
    with lender(host, variant="limits") as session, vcpus_as_cpus(session):
        found = lent(session)
        assert found.denied < found.granted, found
        with written(session, f"{GROUP}/cpu.max", f"{QUOTA} {QUOTA_PERIOD}"):
            found = lent(session)
    assert found.denied > found.granted, found


@pytest.mark.soak
def test_cores_that_tasks_share_with_their_kind_are_not_lent(host: Host) -> None:
    """Core scheduling looks at both CPUs of a core when one of them is to be switched."""
    with lender(host, variant="limits", qemu=THREADS) as session:
        def cookie(what: str) -> None:
            status, said = session.machine.control.run(
                "sh", "-c", f"python3 -c {shlex.quote(COOKIE)} {what} $(cat {GROUP}/cgroup.procs)")
            assert status == 0, said

        assert lent(session).granted > 0
        cookie("set")
        found = lent(session)
        assert found.granted == 0 < found.denied, found
        cookie("clear")
        assert lent(session).granted > 0
