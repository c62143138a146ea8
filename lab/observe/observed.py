# SPDX-License-Identifier: GPL-2.0-only
"""What the kernels counted during a run: from the texts of two snapshots to figures.

A snapshot is the output of `guest_snapshot` or `host_snapshot`: kernel files,
each under a heading. A kernel may lack any of them. What is missing, damaged
or went backwards is None from here to the report, and so is every sum with
such a part.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from lab.core.model import Observe, RunRecord
from lab.machine.guest import guest_group
from lab.observe import cpu_waits, epochs, flushes, histogram
from lab.observe.counters import each_grown, pairs
from lab.observe.cpu_waits import Waited
from lab.observe.epochs import Trace
from lab.observe.flushes import Timed
from lab.observe.histogram import Bins
from lab.observe.windows import Samples

DEBUGFS = "/sys/kernel/debug/pvsync"
CGROUPS = "/sys/fs/cgroup"
HOST = "host"
"""Name of the host's snapshots; guests' have their own names."""

VMS = "vm/"
"""How the headings of a VM's own files in the host's snapshot begin; its name follows."""

HEADING = re.compile(r"==> (.+) <==")
SWITCHES = {"locks": "lock_stat", "tlb": "tlb_stat", "ecs": "park_stat"}
"""What can be counted, to the kernel's file that switches it on; it costs time."""
VCPU_STAT = "/sys/kernel/debug/pvsync/vcpu_stat"
"""The host's file that switches on what it counts of vCPUs; else it does where policies ask."""
MEMORY = "/proc/meminfo"
"""The host's file of its memory."""
ALL_VMS = "printf '\\n==> vms <==\\n'; ls /sys/kernel/debug/kvm 2>/dev/null | grep -e -"
"""Command that lists the folders of all VMs, under a heading of its own."""
LINES = 9999
"""Most of a file that a snapshot takes; `tlb_latency` may have about 1,000."""


def counted(observe: Observe) -> tuple[str, ...]:
    """Which of SWITCHES an experiment wants."""
    return tuple(what for what in SWITCHES if observe is True or observe == what)


def switch_on(observe: Observe) -> str:
    """Guest command that switches on what is to be counted, where the kernel can."""
    files = shlex.join(f"{DEBUGFS}/{SWITCHES[what]}" for what in counted(observe))
    return f'for file in {files}; do [ ! -e "$file" ] || echo 1 >"$file" || exit 1; done'


def guest_snapshot(observe: Observe, when: str) -> str:
    """Command of a guest's snapshot; that "before" a run clears the flush times first.

    The flush times come before another file, so that a text that was cut shows it.
    """
    latency = f"{DEBUGFS}/tlb_latency"
    files = {"locks": f"{DEBUGFS}/lock_waits", "tlb": latency}
    wanted = [files[what] for what in reversed(counted(observe)) if what in files]
    read = _command(*wanted, f"{DEBUGFS}/counters")
    if when != "before" or "tlb" not in counted(observe):
        return read
    return f"{_clear(latency)}; {read}"


def _clear(path: str) -> str:
    """Command that writes to a file if there is one."""
    file = shlex.quote(path)
    return f"[ ! -e {file} ] || echo 0 >{file}"


def _open(path: str) -> str:
    """Command that opens a file, which is all that its owner waits for, if there is one."""
    file = shlex.quote(path)
    return f"[ ! -e {file} ] || : <{file}"


def cpu_file(guest: str) -> str:
    """File of the host with the CPU time of a guest."""
    return f"{CGROUPS}/{guest_group(guest)}/cpu.stat"


def vm_file(folder: str, name: str = "counters") -> str:
    """File of the host with a VM's own counters, given the VM's debugfs folder."""
    return f"{folder}/pvsync/{name}"


def host_snapshot(guests: Mapping[str, str], when: str = "after") -> str:
    """Command of the host's snapshot: its memory, the folders of all VMs that it has, its
    counters, and of these guests the VM's and CPU time.

    A VM that nothing but a fault still holds has a folder, too.

    That "before" a run clears first how long vCPUs waited for a CPU, and has the VMs keep their
    epochs. That "after" it also has the latest of these, which say when they were. `guests` is name
    to debugfs folder of the VM, empty when there is none.
    """
    files = (cpu_waits.FILE, "counters")
    vms = {guest: folder for guest, folder in guests.items() if folder}
    first = [step for folder in vms.values() for step in (
        _clear(vm_file(folder, cpu_waits.FILE)), _open(vm_file(folder, "epochs")))]
    own = [f"printf '\\n==> %s <==\\n' {shlex.quote(f'{VMS}{guest}/{file}')};"
           f" cat {shlex.quote(vm_file(folder, file))} 2>/dev/null"
           for guest, folder in vms.items()
           for file in (files if when == "before" else ("epochs", *files))]
    return "; ".join((*(first if when == "before" else ()),
                      _command(MEMORY), ALL_VMS,
                      _command(f"{DEBUGFS}/counters", *map(cpu_file, guests)), *own))


def _command(*files: str) -> str:
    return f"head -v -n {LINES} {shlex.join(files)} 2>/dev/null"


def file_name(name: str, when: str) -> str:
    """File of a snapshot in the run's folder; `when` is "before" or "after"."""
    return f"{name}.{when}.txt"


@dataclass(frozen=True)
class Snapshot:
    """The values at one time; what the text does not have is empty or None."""

    counters: dict[str, int]
    waits: Bins | None
    """Of locks, in cycles."""
    cpu_usec: dict[str, int]
    """CPU group of a guest to the CPU time it got, microseconds."""
    flushes: Timed | None = None
    vms: dict[str, dict[str, int]] = field(default_factory=dict)
    """Guest to the host's counters of its VM."""
    epochs: dict[str, Trace] = field(default_factory=dict)
    """Guest to the latest epochs of its VM."""
    cpu_waits: dict[str, Waited] = field(default_factory=dict)
    """Guest to how long its vCPUs waited for a CPU."""


@dataclass(frozen=True)
class Change:
    """What was added between two snapshots, in their units."""

    counters: dict[str, int | None]
    waits: Bins | None
    """Bins with new waits alone."""
    cpu_usec: dict[str, int | None]
    flushes: Timed | None = None
    vms: dict[str, dict[str, int | None]] = field(default_factory=dict)
    epochs: dict[str, Trace] = field(default_factory=dict)
    """All that the later one has."""
    cpu_waits: dict[str, Waited | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """One run."""

    guests: tuple[Change, ...]
    host: dict[str, int | None]
    """The host's counters."""
    cpu_s: tuple[float | None, ...]
    """CPU seconds that each VM got."""
    pcpu_s: float
    """Seconds of all the host's CPUs, from the first guest's start to the last one's end."""
    seconds: float
    """The same of one CPU."""
    flushes: tuple[Timed | None, ...]
    """Of each guest whose figure counts."""
    vms: tuple[dict[str, int | None], ...] = ()
    """The host's counters of each VM."""
    samples: Samples | None = None
    """None without windows."""
    epochs: tuple[Trace, ...] = ()
    """Of each VM, those that ended meanwhile; empty when unknown."""
    cpu_waits: tuple[Waited | None, ...] = ()
    """Of each VM."""


def parse(text: str) -> Snapshot:
    """Read a snapshot; never fails.

    Of a file's lines a malformed tail is left out, and so is the text's last
    line when it was cut. With a malformed line before a good one, or a name
    that comes twice, nothing of that file is taken. Flush times are taken whole
    or not at all, and only when another file follows; waits for a CPU whole or not
    at all.
    """
    counters: dict[str, int] = {}
    waits: Bins | None = None
    cpu_usec: dict[str, int] = {}
    timed: Timed | None = None
    vms: dict[str, dict[str, int]] = {}
    traces: dict[str, Trace] = {}
    waited: dict[str, Waited] = {}
    found = sections(text)
    for path, lines in found.items():
        folder, _, name = path.rpartition("/")
        if name == "counters" and folder.startswith(VMS):
            vms[folder.removeprefix(VMS)] = pairs(lines)
        elif name == "epochs" and folder.startswith(VMS):
            if trace := epochs.parse(lines):
                traces[folder.removeprefix(VMS)] = trace
        elif name == cpu_waits.FILE and folder.startswith(VMS):
            if one := cpu_waits.parse(lines):
                waited[folder.removeprefix(VMS)] = one
        elif name == "counters":
            counters = pairs(lines)
        elif name == "lock_waits":
            waits = histogram.parse(lines)
        elif name == "tlb_latency" and path != next(reversed(found)):
            timed = flushes.parse(lines)
        elif name == "cpu.stat" and (used := pairs(lines).get("usage_usec")) is not None:
            cpu_usec[folder.rpartition("/")[2]] = used
    return Snapshot(counters, waits, cpu_usec, timed, vms, traces, waited)


def sections(text: str) -> dict[str, list[str]]:
    """Of each file of a snapshot, path to lines; those before the first heading are of none."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n")[:-1]:
        heading = HEADING.fullmatch(line)
        if heading:
            lines = found.setdefault(heading[1], [])
        elif line:
            lines.append(line)
    return found


def between(before: Snapshot, after: Snapshot) -> Change:
    """The later snapshot minus the earlier one."""
    return Change(
        counters=each_grown(before.counters, after.counters),
        waits=histogram.between(before.waits, after.waits),
        cpu_usec=each_grown(before.cpu_usec, after.cpu_usec),
        flushes=flushes.between(before.flushes, after.flushes),
        vms={name: each_grown(before.vms.get(name, {}), after.vms.get(name, {}))
             for name in {**before.vms, **after.vms}},
        epochs=after.epochs,
        cpu_waits={name: cpu_waits.between(before.cpu_waits.get(name), waited)
                   for name, waited in after.cpu_waits.items()},
    )


def observation(run: RunRecord, change: Callable[[str], Change], measured: Collection[str],
                samples: Samples | None = None) -> Observation:
    """A valid run's; `change` says what was added in a guest, or in HOST.

    `measured` are the guests whose figure counts: neighbours flush for
    themselves, and that is no part of what the workload's flushes took.
    """
    changes = {guest.guest: change(guest.guest) for guest in run.guests}
    host = change(HOST)
    used = [host.cpu_usec.get(guest_group(name)) for name in changes]
    began = [guest.began for guest in run.guests if guest.began is not None]
    ended = [guest.ended for guest in run.guests if guest.ended is not None]
    seconds = max(ended, default=0.0) - min(began, default=0.0)
    return Observation(
        guests=tuple(changes.values()),
        host=host.counters,
        cpu_s=tuple(None if usec is None else usec / 1e6 for usec in used),
        pcpu_s=seconds * run.pcpus,
        seconds=seconds,
        flushes=tuple(one.flushes for name, one in changes.items() if name in measured),
        vms=tuple(host.vms.get(name, {}) for name in changes),
        samples=samples,
        epochs=tuple(epochs.during(run, host.epochs.get(name, ())) for name in changes),
        cpu_waits=tuple(map(host.cpu_waits.get, changes)),
    )
