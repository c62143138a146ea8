# SPDX-License-Identifier: GPL-2.0-only
"""Host and guests that check themselves with lockdep, KASAN or KCSAN, under every mechanism.

The lab fails a run whose console, the host's or a guest's, has a report; these
tests load the kernels, and see first that each notices what it is for. Each
builds a kernel of its own, so they are for --soak.
"""

import json
import re

import pytest

from tests.kernel import test_hostile
from tests.kernel import test_torture as torture
from tests.kernel.conftest import Host, Lab, Result, each, longer, meminfo

DEBUG = torture.experiment("debug")
VARIANTS = ("lockdep", "kasan", "kcsan")
FAULTS = {
    "order": ("lockdep", "possible circular locking dependency"),
    "state": ("lockdep", "inconsistent lock state"),
    "reader": ("lockdep", "suspicious RCU usage"),
    "sleeper": ("lockdep", "sleeping function called from invalid context"),
    "bounds": ("kasan", "BUG: KASAN: slab-out-of-bounds in provoke_out_of_bounds"),
    "freed": ("kasan", "BUG: KASAN: slab-use-after-free in provoke_use_after_free"),
    "race": ("kcsan", "BUG: KCSAN: data-race in provoke_race_on"),
}
"""Faults that the module provoke_fault makes: who has to notice, and what it says."""
TORTURE = r"""
modprobe locktorture torture_type=spin_lock nwriters_stress=$((2 * $(nproc))) \
    stat_interval=0 stutter=0 shuffle_interval=0 || exit 1
sleep {seconds}
rmmod locktorture || exit 1
dmesg | grep -a -- '-torture:--- End of test: SUCCESS'
"""
MIXED = ("everything", "everything-free", "ticket-help", "ecs-count-eschdspin", "tlb-mixed",
         "apples-own")
"""Schemes that have all of the mechanisms among them, alone and together."""
LOAD = """
end=$(($(date +%s) + {seconds}))
while [ $(date +%s) -lt $end ]; do
    hackbench -g 2 -l 50 >/dev/null || exit 1
    /usr/lib/pvsync/bin/kernel-loop -m mmap -S 1 >/dev/null || exit 1
    /usr/lib/pvsync/bin/tlb-checker -S 2 || exit 1
    grep . /sys/kernel/debug/pvsync/* >/dev/null
done
echo load ended well
"""

QUARANTINE = 32
"""Of the memory KASAN keeps this part, freed, from use (QUARANTINE_FRACTION of the kernel)."""

variants = pytest.mark.parametrize("variant", VARIANTS)


def reasons(result: Result) -> str:
    """Why runs were not valid."""
    lines = (result.directory / "runs.jsonl").read_text().splitlines()
    return "\n".join(json.loads(line)["reason"] for line in lines)


@pytest.mark.soak
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_noticed(lab: Lab, kind: str) -> None:
    """One guest makes the fault, and its run is refused for that; the other one is fine."""
    variant, said = FAULTS[kind]
    result = lab(DEBUG, "--variant", variant, "--schemes", "pmt,pvqspinlock", "--cmd",
                 f"grep -q lock=pmt /proc/cmdline || exit 0; modprobe provoke_fault kind={kind};"
                 " sleep 1")
    assert result.status == 1, result.output
    assert said in reasons(result), result.output
    assert result.cell("pvqspinlock")["values"] and not result.cell("pmt")["values"]


@pytest.mark.soak
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_of_the_host_are_noticed(host: Host, kind: str) -> None:
    variant, said = FAULTS[kind]
    with host("debug.toml", variant) as session:
        assert session.machine.trouble() == ""
        session.machine.control.run("modprobe", "provoke_fault", f"kind={kind}")
        assert said in session.machine.trouble(), session.machine.trouble()


@pytest.mark.soak
@variants
def test_torture_of_every_lock(lab: Lab, variant: str, length: int) -> None:
    seconds = each(length, DEBUG)
    result = lab(DEBUG, "--variant", variant, "--vcpus", "8", "--cmd",
                 TORTURE.format(seconds=seconds), "--timeout", str(2 * seconds + 120))
    assert result.status == 0, result.output
    assert all(cell["values"] for cell in result.summary["cells"]), result.output


@pytest.mark.soak
@variants
def test_every_mechanism(lab: Lab, variant: str, length: int) -> None:
    """Two guests of each scheme, whose vCPUs take each other's CPUs."""
    seconds = each(length, MIXED)
    result = lab(DEBUG, "--variant", variant, "--schemes", ",".join(MIXED), "--vms", "2",
                 "--observe=ecs", "--cmd", LOAD.format(seconds=seconds),
                 "--timeout", str(2 * seconds + 120))
    assert result.status == 0, result.output
    for scheme in MIXED:
        assert result.guest_output(scheme).count("load ended well") == 2, scheme
    seen = result.cell("everything", 2)["observed"]["host"]
    for counter in ("tlb_calls", "spin_events", "yield_attempted", "extend_granted"):
        assert seen[counter] > 0, f"{counter}: {seen}"


@pytest.mark.soak
@variants
def test_random_hypercalls(lab: Lab, variant: str, length: int) -> None:
    result = lab(DEBUG, "--variant", variant, "--schemes", "host-all", "--vms", "2", "--cmd",
                 test_hostile.command(4, seconds=length), "--timeout", str(2 * length + 60))
    assert result.status == 0, result.output
    made = test_hostile.answers(result, "host-all", 4)
    assert all(one.unexpected == 0 < one.accepted for one in made), made
    test_hostile.check_user_mode(result, "host-all")
    result.check_log()


@pytest.mark.soak
@variants
@pytest.mark.parametrize("workload", ["locktorture-hotplug", "rcutorture"])
def test_vcpus_off_and_on(lab: Lab, variant: str, workload: str, length: int) -> None:
    result = lab(torture.experiment("hotplug"), "--variant", variant, "--schemes", torture.BOTH,
                 *longer(workload, length))
    assert result.status == 0, result.output
    for scheme in torture.BOTH.split(","):
        assert "End of test: SUCCESS" in result.guest_output(scheme), scheme


@pytest.mark.soak
@variants
def test_parameters_change(lab: Lab, variant: str, length: int) -> None:
    result = lab(torture.experiment("tuned"), "--variant", variant, "--cmd",
                 torture.BESIDE.format(seconds=length), "--timeout", str(3 * length + 300))
    torture.check_tuned(result, {"parameters"})


@pytest.mark.soak
@variants
def test_guests_are_killed(lab: Lab, variant: str) -> None:
    result = lab(torture.experiment("killed"), "--variant", variant)
    memory = meminfo(result.host_snapshot(result.runs()[0], "before"), "MemTotal")
    torture.check_killed(result, memory // QUARANTINE if variant == "kasan" else 0)


@pytest.mark.soak
@variants
def test_guests_are_restored(lab: Lab, variant: str, length: int) -> None:
    """A restore takes longer than in the other tests, and records are shared again after it."""
    torture.check_restored(lab(
        torture.experiment("restored"), "--variant", variant, "--schemes", "guest-all-slow",
        "--cmd", torture.BESIDE.format(seconds=max(length, 60)),
        "--timeout", str(3 * length + 120)), 2)


@pytest.mark.soak
def test_guests_that_are_not_preempted(lab: Lab, length: int) -> None:
    """By a boot argument; two guests of each scheme, with the load of the others."""
    schemes = ("pmt-preempt-none", "pmt-preempt-voluntary", "everything-preempt-none",
               "everything-preempt-voluntary")
    seconds = each(length, schemes)
    command = LOAD + "cat /sys/kernel/debug/sched/preempt\n"
    result = lab(DEBUG, "--variant", "test", "--schemes", ",".join(schemes), "--vms", "2",
                 "--cmd", command.format(seconds=seconds), "--timeout", str(2 * seconds + 120))
    assert result.status == 0, result.output
    for scheme in schemes:
        chosen = re.findall(r"\((\w+)\)", result.guest_output(scheme))
        assert chosen == 2 * [scheme.rpartition("-")[2]], result.guest_output(scheme)


@pytest.mark.soak
@pytest.mark.parametrize("variant", ["preempt-none", "preempt-voluntary"])
def test_kernels_built_without_preemption(lab: Lab, variant: str, length: int) -> None:
    """They keep no preempt count: what is read from it, pvsync.ecs=free, has to say so."""
    schemes = ("pmt", "everything", "ecs-free")
    seconds = each(length, schemes)
    command = LOAD + "dmesg | grep -a pvsync:\n"
    result = lab(DEBUG, "--variant", variant, "--schemes", ",".join(schemes), "--cmd",
                 command.format(seconds=seconds), "--timeout", str(2 * seconds + 120))
    assert result.status == 0, result.output
    assert "spinlocks: pmt" in result.guest_output("pmt")
    assert "critical sections: count" in result.guest_output("everything")
    said = "pvsync.ecs=free is off here: this kernel keeps no preempt count"
    assert said in result.guest_output("ecs-free")
