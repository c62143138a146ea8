# SPDX-License-Identifier: GPL-2.0-only
"""What is wrong on a KVM host: from figures to findings. Pure functions.

Each finding says what it is, why, what it costs, what cures it with today's kernel and with
pvsync. A cure that does not exist is `NOTHING`. Every threshold has its source beside it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lab.core import paths
from lab.core.words import many
from lab.observe import vms
from lab.operate.figures import HostFigures, VmFigures
from lab.operate.sample import Facts

NOTHING = "nothing here helps: fewer VMs or vCPUs, or more CPUs"
NO_NEED = "not needed"
OURS = "pvsync's choice"
ESXTOP = "the usual threshold for esxtop's"


@dataclass(frozen=True)
class Threshold:
    """From where on something is a finding, and who says so."""

    value: float
    source: str


HELD_UP = Threshold(0.05, "common alert: vCPU delay above 5 % for 5 min")
HELD_UP_BADLY = Threshold(0.10, f"{ESXTOP} %RDY: 10 % for each vCPU")
COSTOP = Threshold(0.03, f"{ESXTOP} %CSTP: 3 %")
STOLEN = Threshold(0.10, "common alert: steal above 10 % for 20 min")
IDLE = Threshold(0.20, OURS)
UNMARKED = Threshold(0.10, OURS)
LOST_PER_S = Threshold(10.0, OURS)
YIELDS_PER_S = Threshold(100.0, OURS)
YIELDS_TAKEN = Threshold(0.50, OURS)
POLLED = Threshold(0.05, OURS)
THROTTLED = Threshold(0.01, OURS)
SECTIONS = Threshold(0.10, OURS)
EXITS = Threshold(0.05, OURS)
EXIT_S = 1.5e-6
"""About what an exit and its entry take on a processor of today; taken for an estimate only."""
DEDICATED = re.compile(r"(?:^|,)\+?kvm[-_]hint[-_]dedicated(?:=on)?(?:,|$)")
TIE = "tie each vCPU to a CPU of its own (virsh vcpupin, qm set --affinity)"
TIED_GAIN = "in the lab's emulator Redis answered 26,516 requests/s so, and 13,579 without"
HOST_ALONE = "extend=kernel mark=exit"
HOST_ALONE_GAIN = ("in the lab's emulator Redis was 1.78 times as fast [0.848, 3.75], which may be"
                   " chance, five other programs 1.05 [1.005, 1.09]")
"""As docs/results/redis.md and rivals.md have it, with 95 % intervals; a test compares."""
SLEEP_COUNTS = (6, 12)
"""Kernels from this one on take some sleep for waiting, see docs/results/found.md."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, of a VM or of the host."""

    key: str
    vm: str
    """Empty of the host."""
    what: str
    why: str
    costs: float | None
    """Of the VM's vCPUs' time, or of the host's CPUs', 0 to 1; None if it cannot be told."""
    today: str
    """Cure with the kernel at hand."""
    pvsync: str
    """Cure with pvsync."""
    threshold: str
    """What counts as this, and its source; empty for what is simply so."""


def _over(threshold: Threshold) -> str:
    value = threshold.value
    number = f"{100 * value:.0f} %" if value < 1 else f"{value:.0f}/s"
    return f"from {number} on ({threshold.source})"


def _at(value: float | None, threshold: Threshold) -> bool:
    return value is not None and value >= threshold.value


def of(facts: Facts, host: HostFigures) -> list[Finding]:
    """All findings: those of VMs that are held up the most first, then the host's."""
    found = [one for vm in host.vms for one in (*_waits(facts, host, vm), *_spins(facts, host, vm),
                                                *_sections(vm), *_wrong(facts, host, vm))]
    return [*found, *_host(facts, host)]


def takes_sleep_for_waits(facts: Facts) -> bool:
    """Whether this kernel's waiting times have some sleep in them."""
    number = re.match(r"(\d+)\.(\d+)", facts.release)
    late = number is not None and (int(number[1]), int(number[2])) >= SLEEP_COUNTS
    return late and "NO_DELAY_DEQUEUE" not in facts.features


def _pinned(facts: Facts, vm: VmFigures) -> bool:
    return any(allowed and not allowed >= facts.cpus for allowed in vm.allowed)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _waits(facts: Facts, host: HostFigures, vm: VmFigures) -> Iterator[Finding]:
    limited = _at(vm.throttled, THROTTLED)
    if limited:
        yield Finding(
            "limit", vm.name, "its limit of CPU time holds it back",
            "a quota (cpu.max of its group) is used up before each period ends", vm.throttled,
            "raise it: virsh schedinfo --set vcpu_quota=, qm set --cpulimit, limits.cpu",
            "no cure", _over(THROTTLED))
    if not _at(vm.held_up, HELD_UP) or vm.held_up is None:
        return
    level = HELD_UP_BADLY if _at(vm.held_up, HELD_UP_BADLY) else HELD_UP
    free = _at(host.idle, IDLE)
    if free and _pinned(facts, vm):
        yield Finding(
            "pinned", vm.name, "its vCPUs wait while other CPUs are idle",
            "they are tied to CPUs that are busy (or the load balancer is slow)", vm.held_up,
            "let them run on all: virsh vcpupin VM N 0-MAX, qm set --affinity", "no cure",
            f"waits {_over(level)}; idle {_over(IDLE)}")
        return
    most = max((len(allowed) for allowed in vm.allowed), default=0) or len(facts.cpus)
    if vm.vcpus > most:
        yield Finding(
            "too-many-vcpus", vm.name, f"it has {many(vm.vcpus, 'vCPU')} for {many(most, 'CPU')}",
            "its own vCPUs wait for each other whatever else runs", vm.held_up,
            "give it no more vCPUs than it has CPUs", "less is lost by it, see below", _over(level))
        return
    if free and takes_sleep_for_waits(facts):
        yield Finding(
            "waits-doubtful", vm.name, "it seems to wait for CPUs, while some are idle",
            "this kernel counts some sleep as waiting (delayed dequeue, Linux 6.12 on)", None,
            "look again with NO_DELAY_DEQUEUE in <debugfs>/sched/features",
            "its own waits (cpu_waits) have no sleep in them",
            f"waits {_over(level)}; idle {_over(IDLE)}")
        return
    waiting = _at(vm.costop, COSTOP) and (_at(vm.yields_per_s, YIELDS_PER_S)
                                          or _at(vm.unmarked, UNMARKED))
    yield Finding(
        "held-up", vm.name, "its vCPUs wait for CPUs",
        "the host has too few" if not limited else "the host has too few, and its limit is low",
        vm.held_up, NOTHING,
        "the wait stays; what others lose by it meanwhile is below" if waiting else NOTHING,
        _over(level))


def _apart(facts: Facts, host: HostFigures, vm: VmFigures) -> str:
    """What keeps vCPUs of a VM from waiting for each other's CPU, on any kernel.

    To tie them is named where it takes nothing away: the VM has no more vCPUs than there are CPUs,
    these are busy anyway, and its vCPUs do share CPUs.
    """
    fewer = "fewer vCPUs, no more than it uses; or one VM less"
    own = {one for one in vm.allowed if len(one) == 1}
    if len(own) == vm.vcpus or vm.vcpus > len(facts.cpus) or _at(host.idle, IDLE):
        return fewer
    return (f"{TIE}, so that no two of the VM share one, and those of all VMs evenly;"
            f" {TIED_GAIN}. It cannot use another CPU that is idle then. Or {fewer}")


def _put_off(facts: Facts) -> str:
    """What pvsync has for it, with what was measured."""
    set_already = facts.pvsync.get("mark") == "exit" and facts.pvsync.get("extend") == "kernel"
    if set_already:
        return f"{HOST_ALONE} is set for all VMs already; in the guest pvsync.tlb=mixed"
    return (f"{HOST_ALONE}, for any guest: {HOST_ALONE_GAIN}. In guests with pvsync,"
            " extend=ecs in its place, and pvsync.tlb=mixed")


def _spins(facts: Facts, host: HostFigures, vm: VmFigures) -> Iterator[Finding]:
    marks = bool(facts.pvsync) and facts.pvsync.get("mark") != "exit"
    many = _at(vm.yields_per_s, YIELDS_PER_S)
    if _at(vm.costop, COSTOP) and vm.costop is not None and (many or _at(vm.unmarked, UNMARKED)):
        yield Finding(
            "co-stop", vm.name, "vCPUs run while others of the VM wait for a CPU",
            "they may spin for one of these: for its lock, or for its answer to an interrupt."
            " An estimate: this kernel does not know what they wait for", vm.costop,
            _apart(facts, host, vm), _put_off(facts), f"{_over(COSTOP)}; it is at most so much")
    if _at(vm.unmarked, UNMARKED) and _at(vm.lost_per_s, LOST_PER_S):
        share = _percent(vm.unmarked or 0)
        yield Finding(
            "unmarked", vm.name, f"of {share} of its preemptions its guest is not told",
            "KVM marks a vCPU as preempted only after some exits, so the others send it"
            " interrupts and wait", None, "no cure",
            "set mark=exit" if marks or not facts.pvsync else "another mark: this one is exit",
            f"{_over(UNMARKED)}, with {LOST_PER_S.value:.0f} preemptions/s")
    if many and vm.yields_taken is not None and vm.yields_taken < YIELDS_TAKEN.value:
        yield Finding(
            "yields", vm.name, "vCPUs that spin try to give their CPU away, mostly in vain",
            "the scheduler does not follow, or nobody of the VM waits for a CPU", None, "no cure",
            "mark=exit; then window=aple candidate=hvs yield=strong, for guests whose locks spin",
            f"{_over(YIELDS_PER_S)}; taken below {_percent(YIELDS_TAKEN.value)} ({OURS})")
    if _at(vm.polled, POLLED):
        yield Finding(
            "polling", vm.name, "KVM polls in vain before its vCPUs halt",
            "halt_poll_ns is long for what the guest waits for", vm.polled,
            "echo 0 > /sys/module/kvm/parameters/halt_poll_ns", NO_NEED, _over(POLLED))
    cost = None if vm.exits_per_s is None else min(1.0, vm.exits_per_s * EXIT_S)
    if _at(cost, EXITS):
        how = "; a processor with AVIC or APICv saves many" if _without_avic(facts) else ""
        yield Finding(
            "exits", vm.name, f"each vCPU exits {vm.exits_per_s:,.0f} times a second",
            f"which ones: perf kvm --host stat live. {1e6 * EXIT_S} us for each is assumed", cost,
            f"paravirtual devices, timers and interrupts (hv-* for Windows){how}", "no cure",
            _over(EXITS))


def _sections(vm: VmFigures) -> Iterator[Finding]:
    """What only a pvsync kernel knows."""
    if vm.why is None or not vm.why.per_s:
        return
    inside = sum(number or 0 for kind, number in vm.why.kinds.items()
                 if kind in {"irq", "lock", "reader", "rcu", "mutex"}) / vm.why.per_s
    if inside >= SECTIONS.value and _at(vm.why.per_s, LOST_PER_S):
        yield Finding(
            "sections", vm.name, f"{_percent(inside)} of its preemptions hit critical sections",
            "others wait for their locks and interrupts until they run again", None, "no cure",
            "set extend=ecs", _over(SECTIONS))
    if vm.loans and vm.loans[1] > vm.loans[0]:
        yield Finding(
            "loans", vm.name, "borrowed time expires more often than it avoids a preemption",
            f"{many(vm.loans[1], 'loan')} expired, {vm.loans[0]} avoided one", None, NO_NEED,
            "lend this VM no time: pvsync set VM extend=off",
            f"expired more than avoided ({paths.page('operators.md')})")


def _wrong(facts: Facts, host: HostFigures, vm: VmFigures) -> Iterator[Finding]:
    over = host.overcommit is not None and host.overcommit > 1
    cpu, overcommitted = (",".join(vms.options(vm.words, one)) for one in ("cpu", "overcommit"))
    if over and DEDICATED.search(cpu):
        yield Finding(
            "hint-dedicated", vm.name, "its guest is told that it has its CPUs for itself",
            "so its locks spin, and it waits for vCPUs that do not run", None,
            "remove <hint-dedicated state='on'/>, kvm-hint-dedicated", NO_NEED,
            "overcommit above 1")
    if over and "cpu-pm=on" in overcommitted:
        yield Finding(
            "cpu-pm", vm.name, "its idle vCPUs keep their CPUs (HLT and MWAIT do not exit)",
            "-overcommit cpu-pm=on is for CPUs that nobody else needs", None,
            "start it without cpu-pm=on", NO_NEED, "overcommit above 1")
    if vm.cookies and facts.smt:
        yield Finding(
            "core-scheduling", vm.name, "core scheduling keeps other VMs off its cores",
            "a sibling thread stays idle unless it has something of the same VM to run", None,
            "turn it off where you trust the guests (cloud-hypervisor: --cpus"
            " core_scheduling=off), or count a core as one CPU", "no cure", "")
    if vm.nested_per_s and _without_avic(facts):
        yield Finding(
            "nested", vm.name, "it runs virtual machines, without AVIC or APICv",
            "each interrupt that they send takes several exits", None,
            "turn avic=1 (kvm_amd) or enable_apicv=Y (kvm_intel) on if the processor has it",
            "no cure", "")


def _without_avic(facts: Facts) -> bool:
    return any(facts.modules.get(name) in {"N", "0"}
               for name in ("kvm_amd.avic", "kvm_intel.enable_apicv"))


def _no_pause_exits(facts: Facts) -> bool | None:
    """Whether pause-loop exits are off or missing; None if no KVM module tells."""
    if "kvm_intel.ple_gap" in facts.modules:
        return facts.modules["kvm_intel.ple_gap"] == "0"
    if "kvm_amd.pause_filter_count" in facts.modules:
        return (facts.modules["kvm_amd.pause_filter_count"] == "0"
                or "pausefilter" not in facts.flags)
    return None


def _host(facts: Facts, host: HostFigures) -> Iterator[Finding]:
    if host.overcommit is not None and host.overcommit > 1 and _no_pause_exits(facts):
        yield Finding(
            "no-pause-exits", "", "vCPUs that spin keep their CPU until their slice is over",
            "pause-loop exits are off, or this processor has none", None,
            "kvm_intel ple_gap=128, kvm_amd pause_filter_count=3000, if the processor has them",
            "set pause=soft beside window=aple; not for programs that count PAUSEs",
            "overcommit above 1")
    if facts.clocksource and facts.clocksource != "tsc":
        yield Finding(
            "clock", "", f"the host's clock is {facts.clocksource}, not tsc",
            "each look at the clock is slow, in guests too: kvmclock becomes a call of the kernel",
            None, "dmesg | grep -i tsc says why; tsc=reliable if the machine is known to be sound",
            "no cure", "")
    if _at(host.stolen, STOLEN):
        yield Finding(
            "stolen", "", "this host is a virtual machine itself, and waits for CPUs",
            "its own host has too few", host.stolen, "more CPUs for it, or fewer VMs below it",
            "pvsync on the host below it", _over(STOLEN))
