# SPDX-License-Identifier: GPL-2.0-only
"""A VM's own settings in a pvsync kernel: the files of <debugfs>/kvm/PID-FD/pvsync/.

The kernel at hand says which there are, and which values they take; no list is kept here. A
setting that is `global` follows /sys/module/pvsync/parameters/.
"""

import errno
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from lab.core import files
from lab.core.decode import suggest
from lab.core.errors import LabError, UsageError
from lab.observe import vms
from lab.observe.vms import Vm

GLOBAL = "global"
SHOWN_ONLY = ("counters", "cpu_waits", "epochs")
"""Files of that folder that are no settings."""
PARAMETERS = "module/pvsync/parameters"
LOCKDOWN = "kernel/security/lockdown"
ENDED = (errno.ENOENT, errno.EIO, errno.ENODEV, errno.ESRCH)
SAYS = re.compile(r";pvsync: (\w+) does not have that value.*?; (use .*)")
ON, OFF = re.compile("[yYtT1]|[oO][nN]"), re.compile("[nNfF0]|[oO][fF]")
DECIMAL, OCTAL = re.compile(r"[0-9]{1,20}"), re.compile("[0-7]{1,22}")
NUMBER = re.compile("[+]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,22})")
"""What the kernel takes for a switch, and for a number."""
MOST_LOG = 8192
"""Bytes of one record of the kernel's log, by its ABI."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOKS = 20
PAUSE_S = 0.05
"""How often and how long held() waits, all together longer than a `pvsync set` takes."""


class EndedError(LabError):
    """A VM has ended meanwhile."""


@dataclass(frozen=True)
class Host:
    """Where things are on this machine."""

    debugfs: Path = vms.DEBUGFS
    proc: Path = vms.PROC
    sys: Path = Path("/sys")
    log: Path = Path("/dev/kmsg")
    run: Path = Path("/run/pvsync")


def match(running: list[Vm], word: str) -> list[Vm]:
    """The VMs that a word may mean: a name, or a number in Proxmox."""
    return [vm for vm in running if word in {vm.name, vm.number}]


def one(running: list[Vm], word: str) -> Vm:
    """The VM that a word means; UsageError if there is none, or more than one."""
    found = match(running, word)
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(f"{vm.name} (process {vm.pid})" for vm in found)
        raise UsageError(f"'{word}' means {len(found)} virtual machines: {which}; give them"
                         " different names, or with Proxmox the number of the one you mean")
    names = [vm.name for vm in running]
    said = f"these run: {', '.join(sorted(names))}" if names else "none runs under KVM here"
    raise UsageError(f"no virtual machine is called '{word}'{suggest(word, names)} ({said})")


def names(host: Host, vm: Vm) -> list[str]:
    """Settings that the kernel has for a VM; LabError when it has none."""
    folder = vm.folder / "pvsync"
    try:
        found = sorted(file.name for file in folder.iterdir() if file.name not in SHOWN_ONLY)
    except OSError as error:
        raise refused(host, vm, "the pvsync folder", error) from None
    return found


def read(host: Host, vm: Vm, name: str) -> str:
    """The value in force for a VM, or GLOBAL."""
    try:
        return (vm.folder / "pvsync" / name).read_text(errors="replace").strip()
    except OSError as error:
        raise refused(host, vm, name, error) from None


def own(host: Host, vm: Vm) -> dict[str, str]:
    """Those of a VM that do not follow the host's."""
    found = {name: read(host, vm, name) for name in names(host, vm)}
    return {name: value for name, value in found.items() if value != GLOBAL}


def of_host(host: Host) -> dict[str, str]:
    """The host's parameters, none without pvsync; LabError for what cannot be read."""
    folder = host.sys / PARAMETERS
    try:
        return {file.name: (vms.text(file) or "").strip() for file in sorted(folder.iterdir())}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except PermissionError as error:
        raise vms.denied(error.filename) from None
    except OSError as error:
        raise LabError(f"{folder} cannot be read ({error.strerror})") from None


def same(now: str, wanted: str) -> bool:
    """Whether a value, as the kernel writes it, is what it makes of a text.

    A switch is Y or N, and the kernel goes by the first letter. A number may have a sign and
    zeros before it. Some parameters take hexadecimal and octal ones, too; which do is not known
    here, so 010 is both 10 and 8.
    """
    if now == wanted:
        return True
    if now in {"Y", "N"}:
        return bool((ON if now == "Y" else OFF).match(wanted))
    name, colon, number = now.rpartition(":")  # such as aple:8
    if colon:
        return wanted.startswith(name + colon) and _number(number, wanted[len(name) + 1:])
    return _number(now, wanted)


def _number(now: str, wanted: str) -> bool:
    if not DECIMAL.fullmatch(now) or not NUMBER.fullmatch(wanted):
        return False
    digits = wanted.removeprefix("+")
    if digits[:2] in {"0x", "0X"}:
        return int(digits, 16) == int(now)
    return int(digits) == int(now) or (
        digits[0] == "0" and bool(OCTAL.fullmatch(digits)) and int(digits, 8) == int(now))


def there(host: Host, vm: Vm) -> bool:
    """Whether the kernel has settings of a VM; LabError if that cannot be looked at."""
    try:
        return stat.S_ISDIR((vm.folder / "pvsync").stat().st_mode)
    except PermissionError as error:
        raise refused(host, vm, "the pvsync folder", error) from None
    except OSError:
        return False


def check(host: Host, vm: Vm, wanted: dict[str, str]) -> None:
    """UsageError for a name that the kernel does not have, or a value that cannot be kept."""
    known = names(host, vm)
    for name, value in wanted.items():
        if name not in known:
            raise UsageError(f"this kernel has no setting '{name}' for a virtual machine"
                             f"{suggest(name, known)} (known: {', '.join(known)})")
        if not value or value != value.strip() or not value.isprintable():
            raise UsageError(f"{value!r} is no value for {name}: write {name}=VALUE, or"
                             f" {name}={GLOBAL} to follow the host")


@contextmanager
def held(host: Host, vm: Vm) -> Iterator[None]:
    """Keep every other pvsync from writing a VM's settings; LabError if one does for long.

    The lock is on the folder itself. A process that is forked meanwhile holds it too, until it
    ends.
    """
    try:
        folder = os.open(vm.folder / "pvsync", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise refused(host, vm, "the pvsync folder", error) from None
    try:
        if not files.lock(folder, LOOKS, PAUSE_S):
            raise LabError(f"another pvsync, such as `pvsync try`, has the settings of {vm.name}:"
                           " wait for its end; nothing was changed")
        yield
    finally:
        os.close(folder)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Have signals that end this process wait for the end of a block that takes no time."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Writes:
    """Settings that are written in a block, and all taken back when it fails."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._before: list[tuple[Vm, str, str]] = []

    def __enter__(self) -> "Writes":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is not None:
            self.take_back()

    def write(self, vm: Vm, name: str, value: str) -> None:
        """UsageError for a value that the kernel does not take, LabError if it cannot be."""
        before = read(self._host, vm, name)
        self._before.append((vm, name, before))
        _write(self._host, vm, name, value)

    def take_back(self) -> None:
        """As it was before, also at a second Ctrl-C; a VM that has ended needs nothing."""
        with undisturbed():
            while self._before:
                vm, name, before = self._before[-1]
                with suppress(LabError):
                    _write(self._host, vm, name, before)
                self._before.pop()


def _write(host: Host, vm: Vm, name: str, value: str) -> None:
    try:
        put(host, vm.folder / "pvsync", name, value)
    except OSError as error:
        raise refused(host, vm, name, error) from None


def put(host: Host, folder: Path, name: str, value: str) -> None:
    """Write a setting; UsageError for a value that the kernel does not take, or OSError."""
    log = _open_log(host.log)
    try:
        file = os.open(folder / name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(file, value.encode())
        finally:
            os.close(file)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        said = _said(log, name) or "its log says what it takes: dmesg | grep pvsync"
        raise UsageError(f"the kernel does not take '{value}' for {name}: {said}") from None
    finally:
        if log is not None:
            os.close(log)


def _open_log(file: Path) -> int | None:
    """The kernel's log from here on; None when it may not be read."""
    with suppress(OSError):
        log = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(log, 0, os.SEEK_END)
        return log
    return None


def _said(log: int | None, name: str) -> str:
    """What the kernel's log has said of a value meanwhile, or nothing."""
    with suppress(OSError):
        while log is not None and (record := os.read(log, MOST_LOG)):
            found = SAYS.search(record.decode(errors="replace"))
            if found and found[1] == name:
                return found[2].strip()
    return ""


def refused(host: Host, vm: Vm, what: str, error: OSError) -> LabError:
    """Why something of a VM cannot be read or written, and what to do."""
    if error.errno in {errno.EPERM, errno.EACCES}:
        if lockdown(host):
            return LabError(
                "this kernel is locked down (Secure Boot), which closes the settings of single"
                " virtual machines: set them for all, in /sys/module/pvsync/parameters/ or as boot"
                " arguments such as pvsync.mark=exit")
        return LabError(f"{what} of {vm.name} is closed: run pvsync as root")
    if error.errno in ENDED:
        if not vm.folder.is_dir():
            return EndedError(f"{vm.name} has ended meanwhile: nothing was changed")
        if not (vm.folder / "pvsync").is_dir():
            return no_pvsync(host)
    return LabError(f"{what} of {vm.name}: {error.strerror}: nothing was changed")


def no_pvsync(host: Host) -> LabError:
    """What to say on a kernel without pvsync."""
    return LabError(f"this host's kernel, {_release(host)}, has no pvsync, so there is"
                    " nothing to set; `pvsync doctor` says what helps without it")


def lockdown(host: Host) -> str:
    """How the kernel is locked down: `integrity`, which keeps root out of debugfs,
    `confidentiality`, which keeps it out of tracefs too, or nothing."""
    text = ""
    with suppress(OSError):
        text = (host.sys / LOCKDOWN).read_text(errors="replace")
    return next((kind for kind in ("integrity", "confidentiality") if f"[{kind}]" in text), "")


def _release(host: Host) -> str:
    return (vms.text(host.proc / "sys/kernel/osrelease") or "").strip() or os.uname().release
