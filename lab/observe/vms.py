# SPDX-License-Identifier: GPL-2.0-only
"""The virtual machines of this KVM host, as /proc and debugfs show them.

    <debugfs>/kvm/PID-FD/                   a VM; PID is its process
    <debugfs>/kvm/PID-FD/vcpuN/pid          thread of a vCPU
    <debugfs>/kvm/PID-FD/pvsync/            only on a pvsync host
    <proc>/PID/cmdline                      of QEMU, which has the VM's name
    <proc>/PID/task/TID/schedstat           nanoseconds run, waited for a CPU, and a number
    <proc>/PID/task/TID/status              how often the thread lost its CPU

What ends meanwhile is left out; what a kernel does not have is None.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.core.errors import LabError, UsageError
from lab.observe.counters import add, pairs

DEBUGFS = Path("/sys/kernel/debug")
PROC = Path("/proc")
VCPU_STAT = "pvsync/vcpu_stat"
MOST = 1 << 20
"""Bytes of a command line that are read: it is as long as whoever runs the VM likes."""
LONGEST_NAME = 255
"""Characters of a VM's name; libvirt has files of that name, so none is longer."""
PID = re.compile(r"\d{1,10}", re.ASCII)
FOLDER = re.compile(r"(\d{1,10})-\d{1,10}", re.ASCII)
VCPU = re.compile(r"CPU (\d{1,5})/KVM", re.ASCII)
"""Name of a vCPU's thread, when QEMU names them."""
SCHEDSTAT = re.compile(r"(\d{1,20}) (\d{1,20}) \d{1,20}\s*", re.ASCII)
SWITCHES = re.compile(r"(?m)^nonvoluntary_ctxt_switches:\s*(\d{1,20})$", re.ASCII)


@dataclass(frozen=True)
class Vm:
    """A VM that runs."""

    folder: Path
    """In debugfs."""
    process: Path
    """In /proc."""
    pid: int
    name: str
    number: str
    """Proxmox's number of it; empty elsewhere."""
    words: tuple[str, ...]
    """Its process's command line."""


@dataclass(frozen=True)
class Reading:
    """A VM at one time. Times are of its vCPUs' threads together; None is unknown."""

    pid: int
    name: str
    vcpus: int
    """Those whose thread is known; their times are meant below."""
    waited_ns: int | None
    switches: int | None
    """How often one of them lost its CPU without asking for it."""
    counters: dict[str, int]
    """The host's counters of the VM; empty on a host that is not pvsync's."""


def times(text: str) -> tuple[int, int] | None:
    """Nanoseconds that a thread ran, and waited for a CPU; None of a kernel that does not know.

    Such a kernel has zeros there, also for the time that the thread ran.
    """
    found = SCHEDSTAT.fullmatch(text)
    return (int(found[1]), int(found[2])) if found and int(found[1]) else None


def schedstat(text: str) -> int | None:
    """Nanoseconds that a thread waited for a CPU, likewise."""
    known = times(text)
    return known and known[1]


def switches(status: str) -> int | None:
    """How often a thread lost its CPU, from its `status`."""
    found = SWITCHES.search(status)
    return int(found[1]) if found else None


def vm_name(cmdline: str, comm: str) -> str:
    """QEMU's name of the VM, else the process's; `cmdline` has a NUL after each word."""
    parts = [part.replace("\0", ",") for part in
             _after(cmdline, "name").replace(",,", "\0").split(",")]
    named = [part.removeprefix("guest=") for part in parts if part.startswith("guest=")]
    return (printable((named or parts)[0]) or printable(comm) or "?")[:LONGEST_NAME]


def vm_number(cmdline: str) -> str:
    """Proxmox's number of the VM, or nothing."""
    number = _after(cmdline, "id")
    return number if PID.fullmatch(number) else ""


def _after(cmdline: str, option: str) -> str:
    """The word after an option, or nothing."""
    return next(iter(options(cmdline.split("\0"), option)), "")


def options(words: Sequence[str], name: str) -> list[str]:
    """The word after each option of that name on QEMU's command line, which takes -name and
    --name."""
    return [after for word, after in pairwise(words) if word in {f"-{name}", f"--{name}"}]


def printable(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c for c in text.strip() if c.isprintable())


def find(debugfs: Path = DEBUGFS, proc: Path = PROC) -> list[Vm]:
    """The VMs by the names of their folders; LabError when this machine does not let them be
    seen."""
    with refusing(debugfs):
        folders = [one for one in (debugfs / "kvm").iterdir() if FOLDER.fullmatch(one.name)]
        found = (_vm(folder, proc) for folder in sorted(folders))
        return [vm for vm in found if vm is not None]


def _vm(folder: Path, proc: Path) -> Vm | None:
    """None when it has ended meanwhile."""
    pid = folder.name.partition("-")[0]
    process = proc / pid
    cmdline = text(process / "cmdline", MOST)
    if cmdline is None or not folder.is_dir():
        return None
    return Vm(folder, process, int(pid), vm_name(cmdline, text(process / "comm") or ""),
              vm_number(cmdline), tuple(cmdline.split("\0")))


def read(debugfs: Path = DEBUGFS, proc: Path = PROC) -> dict[str, Reading]:
    """Folder's name to VM; LabError when this machine does not let it be read."""
    with refusing(debugfs):
        seen = [(vm.folder, _reading(vm)) for vm in find(debugfs, proc)]
        return {folder.name: one for folder, one in seen if folder.is_dir()}


@contextmanager
def refusing(debugfs: Path) -> Iterator[None]:
    """Say why KVM's folder cannot be read, as a LabError."""
    try:
        yield
    except PermissionError as error:
        raise denied(error.filename) from None
    except OSError:
        raise _no_kvm(debugfs) from None


def denied(what: object) -> LabError:
    """Of a file that may not be read."""
    return LabError(f"{what} cannot be read: run pvsync as root")


def none_runs() -> LabError:
    """Of a machine with KVM and no VM."""
    return LabError("no virtual machine runs under KVM on this machine: start one, or run pvsync on"
                    " the host of yours")


def _no_kvm(debugfs: Path) -> LabError:
    """Why there is no folder of KVM."""
    try:
        mounted = any(debugfs.iterdir())
    except PermissionError:
        return denied(debugfs)
    except OSError:
        return UsageError(f"there is no folder {debugfs}: give that of debugfs with --debugfs")
    if mounted:
        return LabError(f"there is no folder {debugfs / 'kvm'}: KVM is not loaded on this machine;"
                        " run pvsync on the host of the virtual machines")
    return LabError(f"debugfs is not mounted: run `mount -t debugfs debugfs {debugfs}`")


def _reading(vm: Vm) -> Reading:
    tasks = threads(vm)
    waited = [schedstat(text(task / "schedstat") or "") for task in tasks]
    lost = [switches(text(task / "status") or "") for task in tasks]
    return Reading(vm.pid, vm.name, len(tasks), add(waited) if tasks else None,
                   add(lost) if tasks else None, counted(vm))


def counted(vm: Vm) -> dict[str, int]:
    """The host's counters of the VM; none on a host that is not pvsync's."""
    return pairs((text(vm.folder / "pvsync/counters") or "").split("\n")[:-1])


def threads(vm: Vm) -> list[Path]:
    """Folders of the vCPUs' threads, by the vCPUs' numbers."""
    return list(numbered(vm).values())


def numbered(vm: Vm) -> dict[int, Path]:
    """vCPU's number to the folder of its thread: as KVM says, else as QEMU has named it."""
    told = {}
    with suppress(FileNotFoundError):  # of glob() until Python 3.12, when the VM has ended
        told = {int(file.parent.name[4:]): (text(file) or "").strip()
                for file in vm.folder.glob("vcpu*/pid") if PID.fullmatch(file.parent.name[4:])}
    if told:
        return {number: vm.process / "task" / tid for number, tid in sorted(told.items())
                if PID.fullmatch(tid) and int(tid)}
    found = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in (vm.process / "task").iterdir():
            named = VCPU.fullmatch((text(task / "comm") or "").strip())
            if named:
                found[int(named[1])] = task
    return dict(sorted(found.items()))


def text(file: Path, most: int | None = None) -> str | None:
    """So many bytes at most; None when there is no such file, or what it was of has ended.

    PermissionError passes.
    """
    try:
        if most is None:
            return file.read_text(errors="replace")
        with file.open("rb") as found:
            return found.read(most).decode(errors="replace")
    except PermissionError:
        raise
    except OSError:
        return None


def counts(debugfs: Path) -> str:
    """Whether a pvsync host counts what its vCPUs do, as its file has it; nothing of any other."""
    with suppress(OSError):  # also one that may not be read: whoever reads the rest says so
        return (debugfs / VCPU_STAT).read_text()
    return ""


def count(debugfs: Path, value: str) -> None:
    """Write "1", or what counts() has said; any host but pvsync's is left alone."""
    if value and counts(debugfs):
        with suppress(OSError):
            (debugfs / VCPU_STAT).write_text(value)


@contextmanager
def counting(debugfs: Path) -> Iterator[None]:
    """Have a pvsync host count what its vCPUs do meanwhile; any other is left alone."""
    before = counts(debugfs)
    count(debugfs, "1")
    try:
        yield
    finally:
        count(debugfs, before)
