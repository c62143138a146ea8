# SPDX-License-Identifier: GPL-2.0-only
"""What a KVM host shows of itself and of its VMs at one time, as the kernel's texts have it.

    <proc>/stat, cpuinfo, sys/kernel/osrelease  the host
    <sys>/devices/system/cpu, module/kvm*       its CPUs, and how KVM is set
    <debugfs>/kvm/PID-FD/NAME                   KVM's statistics of a VM, a number each
    <proc>/PID/task/TID/schedstat, status       a vCPU: its times, and where it may run
    <sys>/fs/cgroup/.../cpu.stat                whether a limit of CPU time held it back

A file that a kernel does not have gives None or nothing.
"""

import ctypes
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.observe import vms
from lab.observe.vms import Vm
from lab.operate.settings import Host, lockdown, of_host

STATS = ("exits", "halt_exits", "halt_attempted_poll", "halt_successful_poll",
         "halt_poll_success_ns", "halt_poll_fail_ns", "directed_yield_attempted",
         "directed_yield_successful", "preemption_reported", "preemption_other", "nested_run")
"""Of KVM's statistics those that are read."""
MODULES = ("kvm", "kvm_amd", "kvm_intel")
ALLOWED = re.compile(r"(?m)^Cpus_allowed_list:\s*(\S+)$", re.ASCII)
NUMBER = re.compile(r"\d{1,20}\s*", re.ASCII)
THROTTLED = re.compile(r"(?m)^throttled_usec (\d{1,20})$", re.ASCII)
MOST_CPUS = 1 << 16
PR_SCHED_CORE, GET, ONE_TASK = 62, 0, 0
"""Of prctl(2)."""


@dataclass(frozen=True)
class Thread:
    """A vCPU."""

    number: int
    ran_ns: int | None
    waited_ns: int | None
    """For a CPU, since it began."""
    allowed: frozenset[int]
    """CPUs on which it may run; none if that is unknown."""
    cookie: int | None
    """Of core scheduling; 0 without."""
    at_s: float
    """When its times were read, seconds of a clock that never goes back."""


@dataclass(frozen=True)
class VmSample:
    """A VM."""

    vm: Vm
    threads: tuple[Thread, ...]
    stats: dict[str, int]
    """Of STATS those that KVM has."""
    counters: dict[str, int]
    """Of pvsync."""
    throttled_us: int | None
    """Time in which a limit of CPU time held it back."""
    at_s: float
    """When its statistics were read, of the threads' clock."""


@dataclass(frozen=True)
class Sample:
    """All that changes with time."""

    ticks: tuple[int, ...]
    """Of the host's CPUs, as /proc/stat's first line has them."""
    vms: dict[str, VmSample]
    """By the names of their folders."""
    at_s: float
    """When the ticks were read."""


@dataclass(frozen=True)
class Facts:
    """What stays as it is."""

    release: str
    cpus: frozenset[int]
    """Those that are online."""
    smt: bool
    clocksource: str
    modules: dict[str, str]
    """KVM's parameters, such as "kvm_amd.avic"."""
    flags: frozenset[str]
    """Of the processor."""
    features: frozenset[str]
    """Of the scheduler; none if they are unknown."""
    pvsync: dict[str, str]
    """Its parameters; none on a kernel without it."""
    lockdown: str = ""
    """How the kernel is locked down, if it is: then debugfs has no statistics of KVM."""


def cpu_list(text: str) -> frozenset[int]:
    """Of "0-3,8"; none of what is no such list."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last if dash else first).isdecimal():
            return frozenset()
        end = int(last if dash else first)
        if end >= MOST_CPUS:
            return frozenset()
        found.update(range(int(first), end + 1))
    return frozenset(found)


def facts(host: Host) -> Facts:
    """Those of this host."""
    cpu = host.sys / "devices/system/cpu"
    clock = host.sys / "devices/system/clocksource/clocksource0/current_clocksource"
    flags = re.search(r"(?m)^flags\s*:(.*)$", _text(host.proc / "cpuinfo"))
    return Facts(
        release=_text(host.proc / "sys/kernel/osrelease").strip(),
        cpus=cpu_list(_text(cpu / "online")),
        smt=_text(cpu / "smt/active").strip() == "1",
        clocksource=_text(clock).strip(),
        modules={f"{module}.{file.name}": _text(file).strip() for module in MODULES
                 for file in _files(host.sys / "module" / module / "parameters")},
        flags=frozenset(flags[1].split() if flags else ()),
        features=frozenset(_text(host.debugfs / "sched/features").split()),
        pvsync=of_host(host),
        lockdown=lockdown(host),
    )


def read(host: Host, now: Callable[[], float] | None = None) -> Sample:
    """The host now; LabError when it does not let itself be read.

    `now` gives seconds, of time.monotonic() unless told. Whoever reads may lose its own CPU
    meanwhile, so each VM and each vCPU has its own time.
    """
    now = now or time.monotonic
    at_s = now()
    first = _text(host.proc / "stat").partition("\n")[0].split()
    ticks = tuple(int(one) for one in first[1:] if one.isdecimal())
    with vms.refusing(host.debugfs):
        seen = [_vm(host, vm, now) for vm in vms.find(host.debugfs, host.proc)]
    return Sample(ticks, {one.vm.folder.name: one for one in seen if one.vm.folder.is_dir()},
                  at_s)


def _vm(host: Host, vm: Vm, now: Callable[[], float]) -> VmSample:
    tasks = vms.numbered(vm)
    threads = tuple(_thread(number, task, now) for number, task in tasks.items())
    at_s = now()
    stats = {name: _text(vm.folder / name) for name in STATS}
    return VmSample(vm, threads,
                    {name: int(text) for name, text in stats.items() if NUMBER.fullmatch(text)},
                    vms.counted(vm), _throttled(host, tasks.values()), at_s)


def _thread(number: int, task: Path, now: Callable[[], float]) -> Thread:
    at_s = now()
    times = vms.times(vms.text(task / "schedstat") or "")
    allowed = ALLOWED.search(vms.text(task / "status") or "")
    return Thread(number, times and times[0], times and times[1],
                  cpu_list(allowed[1]) if allowed else frozenset(), cookie(int(task.name)),
                  at_s)


def cookie(tid: int) -> int | None:
    """A thread's cookie of core scheduling; None where the kernel does not tell."""
    value = ctypes.c_ulonglong()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    words = [ctypes.c_ulong(number) for number in (GET, tid, ONE_TASK)]
    return value.value if prctl(PR_SCHED_CORE, *words, ctypes.byref(value)) == 0 else None


def _throttled(host: Host, tasks: Iterable[Path]) -> int | None:
    """Of the groups of these threads, and of all above them, the sum."""
    root = host.sys / "fs/cgroup"
    groups: set[Path] = set()
    for task in tasks:
        for line in (vms.text(task / "cgroup") or "").splitlines():
            if line.startswith("0::/"):
                group = root / line.removeprefix("0::/")
                groups.update(one for one in (group, *group.parents) if one.is_relative_to(root))
    found = [THROTTLED.search(_text(group / "cpu.stat")) for group in groups]
    told = [int(one[1]) for one in found if one]
    return sum(told) if told else None


def _text(file: Path) -> str:
    with suppress(PermissionError):
        return vms.text(file) or ""
    return ""


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
