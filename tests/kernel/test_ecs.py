# SPDX-License-Identifier: GPL-2.0-only
"""eCS: the guests' parameters, what they claim, what the host makes of it and of lies."""

import re
from statistics import median

import pytest

from lab.machine.guest import guest_group
from lab.observe import observed
from lab.observe.preemptions import SECTIONS
from tests.kernel.conftest import HERE, Lab, Result
from tests.kernel.hypercalls import (
    ECS,
    EINVAL,
    ENOSYS,
    GIVE_BACK,
    answers,
    call,
    command,
)

MEMORY = 0x100000
"""An address that guests have, and that nothing is written to by the calls below."""
OFFERED = {
    call(ECS): 0,
    call(ECS, 1 << 52 | 1): EINVAL,
    call(ECS, MEMORY): EINVAL,
    call(ECS, MEMORY | 3, 8): EINVAL,
    call(ECS, MEMORY | 64 | 1): EINVAL,
    call(ECS, MEMORY | 1, 8): EINVAL,
    call(ECS, MEMORY | 1, 0, 8): EINVAL,
    call(ECS, MEMORY | 1, 0, 0, 8): EINVAL,
    call(ECS, MEMORY | 2): EINVAL,
    call(ECS, MEMORY | 2, MEMORY): EINVAL,
    call(ECS, MEMORY | 4): EINVAL,
    call(ECS, MEMORY | 4, MEMORY | 2): EINVAL,
    call(ECS, MEMORY | 4, 1 << 52): EINVAL,
    call(ECS, MEMORY | 4, MEMORY, 1 << 52): EINVAL,
    call(ECS, MEMORY | 4, MEMORY, MEMORY, 2): EINVAL,
    call(ECS, 0, MEMORY): EINVAL,
    call(GIVE_BACK): 0,
    call(GIVE_BACK, 1): EINVAL,
}
"""What a host answers: addresses that are not aligned, or nobody's, forms that do not exist."""
BUSY = """
dmesg | grep -a 'pvsync:'
for i in 1 2 3; do hackbench -g 4 -l 100 >/dev/null; done
/usr/lib/pvsync/bin/ebizzy-like -r 50
modprobe section_cost ms=10 && rmmod section_cost
dmesg | grep -a 'section cost'
cd /sys/kernel/debug/pvsync
grep -e ^ecs_ -e ^park_ counters
for bad in 2 x -1; do echo $bad >park_stat && echo took $bad; done
echo x >counters && echo took x
sleep 0.2
sed 's/^/record /' ecs 2>/dev/null
true
"""
HOSTILE = "\n".join((*map(command, OFFERED), "dmesg | grep -a 'hypercall torture'"))
SLEEPS = """
echo 1 >/sys/module/suspend/parameters/pm_test_delay
echo devices >/sys/power/pm_test && echo freeze >/sys/power/state
dmesg | grep -a -e 'PM: suspend exit' -e 'go unheard'
for i in 1 2 3; do sleep 4; hackbench -g 4 -l 100 >/dev/null; done
dmesg | grep -a 'go unheard'
sed 's/^/record /' /sys/kernel/debug/pvsync/ecs
true
"""
"""As far as the devices, for a second; then until each CPU has shared its record once more."""
LIES = """
modprobe ecs_claim seconds=2 form=1 && rmmod ecs_claim
modprobe ecs_claim seconds=2 form=4 && rmmod ecs_claim
dmesg | grep -a 'ecs claim'
"""
HEADS = """
modprobe rwlock_check seconds=6 && rmmod rwlock_check
dmesg | grep -a 'rwlock heads:'
"""
BESIDE = """
if grep -q ecs=count /proc/cmdline
then
    modprobe ecs_claim seconds=6 form=1 && rmmod ecs_claim
else
    cyclictest -q --policy=other -t 2 -i 2000 -D 6
fi
"""
"""In the first guest claims that never end; in the other two threads that mostly sleep."""
MISUSE = f"""
if grep -q ecs=count /proc/cmdline
then
{LIES}
else
{HOSTILE}
fi
"""
KINDS_OF_WAITS = ("mutex_lock", "rwsem_lock")
LEAST = {"mutex_lock": 1 / 3, "rwsem_lock": 1}
"""Waits that end awake to those that end asleep. Of a mutex there are some 20, of which half do,
as now and then it is held for longer than a turn of the host's lasts; stock has none."""
WAITS = f"""
for kind in {" ".join(KINDS_OF_WAITS)}
do
    sed "s/^/$kind /" /sys/kernel/debug/pvsync/counters | grep -a park_s
    [ $kind = mutex_lock ] && writers=2 || writers=1
    modprobe locktorture torture_type=$kind nwriters_stress=$writers nreaders_stress=1 \\
        stat_interval=0 stutter=0 shuffle_interval=0 || exit 1
    sleep 4
    rmmod locktorture || exit 1
    sed "s/^/$kind /" /sys/kernel/debug/pvsync/counters | grep -a park_s
    dmesg | grep -a "$kind-torture:" | tail -n 1
done
"""
"""Kernel lock torture with no more threads than vCPUs."""
SAID = {
    "ecs-count": "critical sections: count",
    "ecs-free": "critical sections: free",
    "ecs-count-watch": "critical sections: count",
    "ecs-count-eschdspin": "critical sections: count",
    "schdspin": "waiters of mutexes and rwsems: schdspin",
    "ecs-silent": "waiters of mutexes and rwsems: eschdspin",
}
NOTHING_TOLD = " preempted 0 overcommitted 0 borrowed 0"
"""Of a record that the host has let go of."""
KINDS = {"nothing", "non-preemptable", "preemptable", "spinlock", "rwlock-read", "rwlock-write",
         "mutex", "rwsem-read", "rwsem-write", "rcu"}
"""What section_cost passes, once on one CPU and once on all four."""


def counter(output: str, name: str) -> int:
    """Sum of a counter over the guests, all of which show it."""
    found = re.findall(rf"^{name} (\d+)$", output, re.MULTILINE)
    assert found, f"no {name}: {output}"
    return sum(map(int, found))


def host(result: Result, scheme: str) -> dict[str, int]:
    """The host's counters while the guests of a scheme ran."""
    return dict(result.cell(scheme)["observed"]["host"])


def host_of_each(result: Result, scheme: str) -> list[dict[str, int]]:
    """The same of each run."""
    found = []
    for run in result.runs(scheme):
        before, after = (observed.parse(result.host_snapshot(run, when)).counters
                         for when in ("before", "after"))
        found.append({name: value - before[name] for name, value in after.items()})
    return found


@pytest.mark.sampled
def test_every_form_of_ecs(lab: Lab) -> None:
    result = lab(str(HERE / "ecs.toml"), "--vms", "1", "--vcpus", "4", "--cmd", BUSY)
    assert result.status == 0, result.output
    for scheme, line in SAID.items():
        output = result.guest_output(scheme)
        assert line in output, f"{scheme}: {output}"
        assert "took" not in output, f"{scheme} accepted a wrong value"
        assert counter(output, "ecs_unbalanced") == 0, f"{scheme}: {output}"
        timed = re.findall(r"section cost: (\S+), CPUs ([14]): (\d+\.\d) ns$", output, re.M)
        assert {(kind, cpus) for kind, cpus, _ns in timed} == {
            (kind, cpus) for kind in KINDS for cpus in "14"}, f"{scheme}: {output}"
        assert all(float(ns) > 0 for _kind, _cpus, ns in timed), timed
    check_claims(result)
    check_parking(result)


@pytest.mark.soak
def test_nearly_all_loans_are_given_back(lab: Lab) -> None:
    """And who gives back is marked as preempted; the middle one of three runs tells."""
    result = lab(str(HERE / "ecs.toml"), "--schemes", "ecs-count", "--reps", "3", "--cmd", BUSY)
    assert result.status == 0, result.output
    shares = [seen["preempt_unmarked"] / seen["extend_returned"]
              for seen in host_of_each(result, "ecs-count")]
    assert len(shares) == 3 and median(shares) < 1 / 2, shares


def check_claims(result: Result) -> None:
    """Who claims is extended where that is on; what is counted adds up."""
    for scheme in ("ecs-count", "ecs-free", "ecs-count-watch"):
        seen = host(result, scheme)
        assert seen["preempt_user"] > 0, seen
        assert seen["preempt_unknown"] < seen["preempt_kernel"], seen
        assert (seen["extend_granted"] > 0) == (scheme != "ecs-count-watch"), seen
        ended = seen["extend_avoided"] + seen["extend_expired"]
        assert abs(ended - seen["extend_granted"]) <= 8, seen
        assert seen["extend_returned"] <= seen["extend_granted"], seen
    assert counter(result.guest_output("ecs-count"), "ecs_given_back") > 0
    watched = host(result, "ecs-count-watch")
    assert sum(watched[f"preempt_{kind}"] for kind in SECTIONS) > 0, watched
    silent = host(result, "ecs-silent")
    assert silent["preempt_unknown"] > 0 and silent["preempt_kernel"] == 0, silent
    assert silent["extend_granted"] == 0, silent


def check_parking(result: Result) -> None:
    for scheme in ("schdspin", "ecs-count-eschdspin"):
        assert counter(result.guest_output(scheme), "park_slept") > 0, scheme
    assert counter(result.guest_output("schdspin"), "park_spun") > 0


@pytest.mark.soak
def test_readers_and_writers_of_rwsems_spin(lab: Lab) -> None:
    """One of each, and a mutex of two, in a guest that has the CPUs for itself."""
    schemes = ("pvqspinlock", "schdspin", "eschdspin")
    result = lab(str(HERE / "ecs.toml"), "--vms", "1", "--schemes", ",".join(schemes),
                 "--cmd", WAITS)
    assert result.status == 0, result.output
    for scheme in schemes:
        output = result.guest_output(scheme)
        assert output.count("End of test: SUCCESS") == len(KINDS_OF_WAITS), output
        for kind in KINDS_OF_WAITS:
            spun, slept = (
                int(after) - int(before) for before, after in (
                    re.findall(rf"^{kind} park_{what} (\d+)$", output, re.MULTILINE)
                    for what in ("spun", "slept")))
            print(scheme, kind, "spun", spun, "slept", slept)
            assert (spun > LEAST[kind] * slept) == (scheme != "pvqspinlock"), (
                scheme, kind, spun, slept)


@pytest.fixture(scope="module")
def misused(lab: Lab) -> Result:
    """Guests that lie, and guests that share with every argument, on one host."""
    result = lab(str(HERE / "ecs.toml"), "--schemes",
                 "pvqspinlock,help-refused,ecs-count,ecs-count-watch", "--cmd", MISUSE)
    assert result.status == 0, result.output
    return result


@pytest.mark.sampled("misused")
def test_sharing_with_any_argument(misused: Result) -> None:
    assert answers(misused.guest_output("pvqspinlock")) == OFFERED
    assert answers(misused.guest_output("help-refused")) == dict.fromkeys(OFFERED, ENOSYS)


@pytest.mark.soak
def test_records_are_taken_back(lab: Lab) -> None:
    """While a guest sleeps, and when the host hears no hypercall any more, they say nothing."""
    result = lab(str(HERE / "ecs.toml"), "--schemes", "ecs-count-watch,ecs-taken-back",
                 "--cmd", SLEEPS)
    assert result.status == 0, result.output
    for scheme in ("ecs-count-watch", "ecs-taken-back"):
        assert "PM: suspend exit" in result.guest_output(scheme), result.output
        unheard = "critical sections go unheard" in result.guest_output(scheme)
        assert unheard == (scheme == "ecs-taken-back")
        records = re.findall(r"^record cpu .*$", result.guest_output(scheme), re.MULTILINE)
        silent = all(line.endswith(NOTHING_TOLD) for line in records)
        assert records and silent == (scheme == "ecs-taken-back"), records
        assert host(result, scheme)["preempt_unknown"] > 0
    known, lost = (host(result, scheme) for scheme in ("ecs-count-watch", "ecs-taken-back"))
    for counted in (known, lost):
        print({name: n for name, n in counted.items() if name.startswith("preempt_")})
    assert known["preempt_kernel"] > known["preempt_unknown"], known
    assert lost["preempt_kernel"] < lost["preempt_unknown"], lost


@pytest.mark.sampled("misused")
def test_refusals_are_said_once_a_vm(misused: Result) -> None:
    """Of two VMs that try everything, by the host that hears them."""
    said = sum(log.count("a guest's record of critical sections is refused")
               for log in misused.host_logs())
    assert said == 2 * len(misused.runs("pvqspinlock")), misused.host_logs()


@pytest.mark.sampled("misused")
def test_claims_that_never_end(misused: Result) -> None:
    """Garbage in every word, from all vCPUs: the host grants, bounds and survives."""
    for scheme in ("ecs-count", "ecs-count-watch"):
        said = re.findall(r"ecs claim: form (\d), (\d+) turns", misused.guest_output(scheme))
        assert {form for form, _turns in said} == {"1", "4"}, misused.output
        assert all(int(turns) > 0 for _form, turns in said)
    lied = host(misused, "ecs-count")
    assert lied["extend_expired"] > lied["extend_avoided"], lied
    # 1 ms, and what a timer of an emulated host may be late.
    assert lied["extend_ns"] < 4_000_000 * lied["extend_granted"], lied


@pytest.mark.sampled
def test_heads_of_rwlock_queues_wait(lab: Lab) -> None:
    """They have the queue's spinlock, and are told and preempted as the waiters that they are.

    One vCPU of each guest has an rwlock nearly all the time, and the other waits for it: each is
    as often there when it loses its CPU. While both share a CPU there is less to see, so looks
    count over the guests. A head has its interrupts off. Whoever calls its CPU meanwhile waits
    with a lock, and is stuck: 8 and 37 times in a run, beside 820 and 77 heads.
    """
    result = lab(str(HERE / "ecs.toml"), "--schemes", "ecs-count,ecs-free", "--cmd", HEADS)
    assert result.status == 0, result.output
    for scheme in ("ecs-count", "ecs-free"):
        seen = host(result, scheme)
        print(scheme, {name: n for name, n in seen.items() if name.startswith("preempt_")})
        said = re.findall(r"rwlock heads: (\d+) looks, (\d+) waiting, (\d+) owning",
                          result.guest_output(scheme))
        looks, waiting, owning = (sum(map(int, numbers)) for numbers in zip(*said, strict=True))
        assert looks > 100 and waiting >= 0.95 * looks and owning <= 0.05 * looks, said
        assert seen["preempt_waiter"] > seen["preempt_lock"] / 3, seen
        assert seen["preempt_waiter"] > seen["preempt_stuck"], seen


def us_per_wakeup(result: Result, scheme: str) -> dict[int, float]:
    """CPU time of the second guest's VM for each wake-up of the threads in it, microseconds.

    By repetition.
    """
    found = {}
    for run in result.runs(scheme):
        before, after = (
            observed.parse(result.host_snapshot(run, when)).cpu_usec[guest_group(f"{scheme}-1")]
            for when in ("before", "after"))
        slept = re.findall(r"^T: \d.* C: +(\d+) ", result.output_of(run), re.MULTILINE)
        wakeups = sum(map(int, slept))
        assert wakeups > 500, result.output
        found[run["rep"]] = (after - before) / wakeups
    print(scheme, "us a wake-up:", *map(round, found.values()))
    return found


@pytest.mark.soak
def test_loans_are_charged_to_who_has_them(lab: Lab) -> None:
    """Beside a VM that borrows at each wake-up of a sleeper, sleepers pay for themselves alone.

    Runs of one repetition come one after the other and are compared with each other: there are
    times in which the machine that runs the emulator is slow, and all instructions take longer.
    """
    result = lab(str(HERE / "ecs.toml"), "--schemes",
                 "ecs-count-beside-stock,ecs-count-watch-beside-stock", "--pin", "--reps", "5",
                 "--cmd", BESIDE)
    assert result.status == 0, result.output
    assert host(result, "ecs-count-beside-stock")["extend_expired"] > 1000, result.output
    lent, own = (us_per_wakeup(result, f"ecs-count{middle}-beside-stock")
                 for middle in ("", "-watch"))
    ratios = [lent[rep] / own[rep] for rep in range(5)]
    assert median(ratios) < 1.25, (lent, own)
