# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor --co-stop`: the scheduler's events of vCPUs, from an instance of tracefs.

    <sys>/kernel/tracing/instances/pvsync-PID/  ours, with a buffer of its own; gone afterwards
        set_event_pid                           the vCPUs' threads
        trace_clock, buffer_size_kb             one clock for all CPUs; kB for each CPU
        events/sched/sched_switch, sched_wakeup the two events
        tracing_on, trace_pipe                  from now on; the events, each once
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.core.errors import LabError
from lab.observe import vms
from lab.operate.costop import Account, Costop, Event, Lost, State, Switch, Wake
from lab.operate.settings import Host, lockdown, undisturbed

EVENTS = ("sched_switch", "sched_wakeup")
BUFFER_KB = 2048
"""For each CPU: some 20,000 events."""
PAUSE_S = 0.05
"""Between two looks at what came."""
MOST_BYTES = 1 << 16
"""Of one look; also the longest line that is kept."""
INSTANCE = re.compile(r"pvsync-(\d{1,10})", re.ASCII)
LINE = re.compile(r"\[(\d{1,5})\] +(?:\S+ +)?(\d{1,11})\.(\d{6}): (sched_\w+): (.*)", re.ASCII)
SWITCH = re.compile(r" prev_pid=(\d{1,10}) prev_prio=-?\d{1,4} prev_state=(\S{1,8}) ==>"
                    r" next_comm=.* next_pid=(\d{1,10}) next_prio=-?\d{1,4}\s*$", re.ASCII)
WAKE = re.compile(r" pid=(\d{1,10}) prio=-?\d{1,4} (?:success=\d )?target_cpu=\d{1,5}\s*$",
                  re.ASCII)
LOST = re.compile(r"^CPU:(\d{1,5}) \[LOST (?:(\d{1,18}) )?EVENTS\]", re.ASCII)
SLEEPING = re.compile(r"\) [SDTtIXZ] ", re.ASCII)
"""In a thread's `stat`: it neither runs nor waits. Of R nobody says which of the two."""
LOCKED = ("kernel lockdown (confidentiality) forbids tracing, and with it --co-stop: leave that"
          " option out")


def parse(line: str) -> Event | None:
    """An event of a line of trace_pipe; None of any other line, such as a damaged one."""
    gone = LOST.match(line)
    if gone:
        return Lost(int(gone[1]), int(gone[2] or 1))
    found = LINE.search(line)
    if not found:
        return None
    cpu, at_ns = int(found[1]), int(found[2]) * 10**9 + int(found[3]) * 1000
    if found[4] == "sched_switch":
        switch = SWITCH.search(found[5])
        return switch and Switch(at_ns, cpu, int(switch[1]), switch[2].startswith("R"),
                                 int(switch[3]))
    wake = WAKE.search(found[5]) if found[4] == "sched_wakeup" else None
    return wake and Wake(at_ns, cpu, int(wake[1]))


def collect(host: Host, seconds: float,
            sleep: Callable[[float], None] = time.sleep) -> dict[int, Costop]:
    """Co-stop of each VM with more than one vCPU over so long, by its process.

    LabError when this kernel does not let itself be traced.
    """
    tasks = {vm.pid: vms.threads(vm) for vm in vms.find(host.debugfs, host.proc)}
    siblings = {pid: found for pid, found in tasks.items() if len(found) > 1}
    if not siblings:
        return {}
    machines = {pid: [int(task.name) for task in found] for pid, found in siblings.items()}
    with _instance(host) as folder, _refusing(host):
        _prepare(folder, [tid for tids in machines.values() for tid in tids])
        pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            _write(folder / "tracing_on", "1")
            begin_ns = time.monotonic_ns()
            account = Account(machines, begin_ns, {
                int(task.name): State.SLEEPS for found in siblings.values() for task in found
                if SLEEPING.search(vms.text(task / "stat") or "")})
            end_ns = begin_ns + int(seconds * 1e9)
            for line in _lines(pipe, end_ns, sleep):
                _take(account, parse(line), end_ns)
            return account.result(end_ns)
        finally:
            os.close(pipe)


def _take(account: Account, event: Event | None, end_ns: int) -> None:
    if event is not None and (isinstance(event, Lost) or event.at_ns < end_ns):
        account.take(event)


def _lines(pipe: int, end_ns: int, sleep: Callable[[float], None]) -> Iterator[str]:
    """Whole lines until that time; of one that is too long, the rest."""
    rest = b""
    while True:
        over = time.monotonic_ns() >= end_ns
        some = b""
        with suppress(BlockingIOError):
            some = os.read(pipe, MOST_BYTES)
        *whole, rest = (rest + some).split(b"\n")
        rest = rest[-MOST_BYTES:]
        yield from (line.decode(errors="replace") for line in whole)
        if over and (not some or time.monotonic_ns() >= end_ns + 10**9):
            return
        if not some:
            sleep(min(PAUSE_S, max(0.0, (end_ns - time.monotonic_ns()) / 1e9)))


def _prepare(folder: Path, threads: Iterable[int]) -> None:
    for name in EVENTS:
        if not (folder / "events/sched" / name).is_dir():
            raise LabError(f"this kernel has no event sched:{name}, which --co-stop needs:"
                           " leave that option out")
    for file, value in (("tracing_on", "0"), ("trace_clock", "mono"),
                        ("buffer_size_kb", str(BUFFER_KB)),
                        ("set_event_pid", " ".join(map(str, threads))),
                        *((f"events/sched/{name}/enable", "1") for name in EVENTS)):
        _write(folder / file, value)


def _write(file: Path, value: str) -> None:
    with file.open("r+b", buffering=0) as out:
        out.write(value.encode())


@contextmanager
def _instance(host: Host) -> Iterator[Path]:
    """A folder of our own; those of processes that have ended are removed, too."""
    with _refusing(host):
        parent = _tracefs(host) / "instances"
        own = parent / f"pvsync-{os.getpid()}"
        for old in parent.iterdir():
            pid = INSTANCE.fullmatch(old.name)
            if pid and (old == own or not (host.proc / pid[1]).is_dir()):
                with suppress(OSError):  # somebody else may look at it, or remove it, too
                    remove(old)
    try:
        with _refusing(host):
            own.mkdir()
        yield own
    finally:
        with undisturbed(), suppress(FileNotFoundError):
            remove(own)


def remove(folder: Path) -> None:
    """Take an instance away: what it traces ends, the kernel removes its files."""
    folder.rmdir()


def _tracefs(host: Host) -> Path:
    if lockdown(host) == "confidentiality":  # tracefs has no files then
        raise LabError(LOCKED)
    for folder in (host.sys / "kernel/tracing", host.debugfs / "tracing"):
        if (folder / "events").is_dir():
            if not (folder / "instances").is_dir():
                raise LabError(f"there is no folder {folder / 'instances'}: this kernel is too old"
                               " for --co-stop")
            return folder
    folder = host.sys / "kernel/tracing"
    if folder.is_dir():
        raise LabError(f"tracefs is not mounted: run `mount -t tracefs tracefs {folder}`")
    raise LabError(f"there is no folder {folder}: this kernel has no tracing, leave --co-stop out")


@contextmanager
def _refusing(host: Host) -> Iterator[None]:
    """Say why tracing cannot be had, as a LabError."""
    try:
        yield
    except PermissionError as error:
        if lockdown(host) == "confidentiality":
            raise LabError(LOCKED) from None
        raise LabError(f"{error.filename} cannot be used: run pvsync as root") from None
    except OSError as error:
        raise LabError(f"{error.filename or 'tracing'} cannot be used ({error.strerror}): leave"
                       " --co-stop out") from None
