# SPDX-License-Identifier: GPL-2.0-only
"""The machine that plays the KVM host: its command line and its process."""

import asyncio
import contextlib
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.build.images import GuestFiles
from lab.core import paths
from lab.core.errors import LabError
from lab.core.model import Backend
from lab.core.scratch import Scratch
from lab.machine import acpi, console, pace
from lab.machine.control import Control, HostLost
from lab.machine.steer import Steer, SteerError
from lab.plan.machine_model import MachineModel

HOST_ARGS = (
    "console=ttyS0", "root=/dev/vda", "rootfstype=erofs", "ro",
    "init=/usr/lib/pvsync/host-init",
    "panic=-1", "oops=panic",       # trouble ends the machine at once
    "tsc=reliable", "no_timer_check", "mitigations=off", "random.trust_cpu=on",
    "nmi_watchdog=0",
    "kvm.tsc_tolerance_ppm=10000",  # see docs/results/nested-lab.md, "Lost timers"
    "transparent_hugepage=always",  # few nested faults; see "Guests that reset themselves"
)
EMULATED_CPU = ("qemu64,+svm,+npt,+x2apic,+rdtscp,+popcnt,+ssse3,+sse4.1,+sse4.2,"
                "+clflush,-la57")
"""No extended state (XSAVE) and few other features: see docs/results/nested-lab.md."""
VIRTUAL_BEGIN = "2026-01-01T00:00:00"
"""What the clock of a host in virtual time says when it starts."""
HOLD = "lab.hold=1"
"""Makes hostd stop its machine whenever it has nothing to do, see `steer`."""
STEER = "steer"
"""The monitor's socket for that."""
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
STATE_LIMIT = 30.0
"""Seconds that QEMU gets to say what the CPUs of a host that hangs do."""
STOP_LIMIT = 10.0
"""Seconds that a host gets to end."""
POLL = 0.02
"""Seconds between two looks whether a host has come up."""
IDLE_STATES = "idle.aml"
"""File of the table of `acpi`, in the machine's own folder."""
HOSTD = paths.LAB / "target" / "hostd.py"
STATE = "machine"
"""File of a host that was saved, in its folder."""


@dataclass(frozen=True)
class Debugger:
    """Where a debugger finds the host's CPUs, and when they first wait for it."""

    port: int
    at_s: float = 0.0
    """Seconds of virtual time since the machine started; 0 is before its first instruction."""

    def arguments(self) -> list[str]:
        """QEMU's, besides what is in its -icount."""
        return ["-gdb", f"tcp:127.0.0.1:{self.port}", *([] if self.at_s else ["-S"])]

    def icount(self) -> str:
        """The end of the value of QEMU's -icount."""
        return f",stop={round(self.at_s * 1e9)}" if self.at_s else ""


@dataclass(frozen=True)
class Saved:
    """A host in virtual time with its guests, as it stood still after its boot."""

    folder: Path
    """With the file `STATE`."""
    seed: int
    """Of that boot."""


@dataclass(frozen=True)
class HostSpec:
    """The KVM host; memory in MiB."""

    backend: Backend
    pcpus: int
    memory: int
    kernel: Path
    image: Path
    guest_image: Path
    guest_kernel: Path
    emulator: tuple[str, ...]
    """Command that runs QEMU on this machine."""
    args: tuple[str, ...] = ()
    """More boot arguments."""
    extra: tuple[str, ...] = ()
    """More arguments for QEMU."""
    others: tuple[GuestFiles, ...] = ()
    """For guests with another kernel."""
    model: MachineModel | None = None
    """What things cost in virtual time; None for the other backends."""
    seed: int = 0
    """Of the interleaving, and of all that is random in the machine, in virtual time."""
    debug: "Debugger | None" = None
    """Who may stop it, in virtual time."""
    saved: Saved | None = None
    """What it goes on from in place of a boot, in virtual time."""

    @property
    def guests(self) -> tuple[GuestFiles, ...]:
        """Everything that guests boot; the usual kernel first, as the variant ""."""
        return (GuestFiles("", self.guest_kernel, self.guest_image), *self.others)


def guest_disks(number: int) -> tuple[str, str]:
    """Devices of the host with root and kernel of `HostSpec.guests`, by its place in there."""
    root, kernel = (f"/dev/vd{chr(ord('b') + 2 * number + second)}" for second in (0, 1))
    return root, kernel


def virtual(model: MachineModel, seed: int, debug: Debugger | None = None) -> list[str]:
    """QEMU's arguments for CPUs in lockstep; nothing of the machine it runs on goes in."""
    stop, waits = (debug.icount(), debug.arguments()) if debug else ("", [])
    return ["-accel", "tcg,thread=single,tb-size=1024", "-icount", model.icount(seed) + stop,
            "-cpu", f"{EMULATED_CPU},{model.cpu()}",
            "-seed", str(seed), "-rtc", f"base={VIRTUAL_BEGIN},clock=vm",
            "-device", "pvpanic", "-action", "panic=pause", *waits]


def accelerator(backend: Backend) -> list[str]:
    """QEMU's arguments that say what plays the CPUs in real time."""
    if backend == "tcg":
        return ["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", EMULATED_CPU]
    return ["-accel", "kvm", "-cpu", "host"]


def host_command(spec: HostSpec, run: Path, logs: Path) -> list[str]:
    """QEMU's argument list; sockets go to `run`, logs to `logs`."""
    def disk(name: str, path: Path) -> list[str]:
        return ["-drive", f"id={name},file={path},format=raw,if=none,readonly=on",
                "-device", f"virtio-blk-pci,drive={name}"]
    guests = [word for one in spec.guests for word in (
        *disk(f"guest{one.variant}", one.image), *disk(f"kernel{one.variant}", one.kernel))]
    cpus, kernel = accelerator(spec.backend), (*HOST_ARGS, *spec.args)
    waits, takes, steered = "off", "", list[str]()
    # After a load QEMU interrupts the guest for each queue that it looks at, before or after the
    # first round, unless it looks at them in the rounds.
    quiet = ",ioeventfd=off" if spec.saved else ""
    if spec.model:  # the guest sees when the lab connects: before it starts
        waits, takes = "on", ",x-input-when-stopped=on"
        cpus = virtual(spec.model, spec.seed, spec.debug)
        steered = ["-qmp", f"unix:{run}/{STEER},server=on,wait=on"]
        kernel += (HOLD,)
    return [
        *spec.emulator, "-name", "pvsync-host", "-nodefaults", "-no-user-config",
        "-display", "none", "-no-reboot", "-M", "q35", *cpus,
        "-smp", str(spec.pcpus), "-m", f"{spec.memory}M",
        "-kernel", str(spec.kernel), "-append", " ".join(kernel),
        "-acpitable", f"file={run}/{IDLE_STATES}", *disk("host", spec.image), *guests,
        "-serial", f"file:{logs}/host-console.log",
        "-device", f"virtio-serial-pci{quiet}",
        "-chardev", f"socket,id=control,path={run}/control,server=on,wait={waits}",
        "-device", f"virtserialport,chardev=control,name=pvsync.control{takes}", *steered,
        "-qmp", f"unix:{run}/qmp,server=on,wait=off",
        "-d", "cpu_reset,guest_errors", "-D", f"{logs}/qemu.log",
        *(("-incoming", "defer") if spec.saved else ()), *spec.extra,
    ]


def hostd_command(run: Path, python: str = "python3") -> list[str]:
    """hostd on this machine itself, for the backend `local`."""
    return [python, "-u", str(HOSTD), "--socket", f"{run}/control", "--work", str(run)]


def die_with_us() -> Callable[[], None]:
    """What a child does before exec: it ends when the lab ends, however that ends.

    If the lab ends before the child has told the kernel so, the child ends itself.
    """
    us = os.getpid()

    def enter() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != us:
            os.kill(os.getpid(), signal.SIGKILL)

    return enter


async def cpu_state(socket: Path) -> str:
    """What QEMU says of its CPUs, three times, over its QMP socket."""
    from qemu.qmp import QMPClient  # slow to load: only when needed
    monitor, text = QMPClient("pvsync"), ""
    await monitor.connect(str(socket))
    try:
        for _ in range(3):
            for line in ("info cpus", "info registers -a"):
                text += str(await monitor.execute("human-monitor-command",
                                                  {"command-line": line})) + "\n"
            await asyncio.sleep(0.3)
    finally:
        await monitor.disconnect()
    return text


class Machine:
    """A running host: process, logs, control channel. Use as a context manager."""

    def __init__(self, spec: HostSpec, logs: Path) -> None:
        self.spec = spec
        self.logs = logs
        self._scratch = Scratch()
        self.run = self._scratch.path
        self.proc: subprocess.Popen[bytes] | None = None
        self._control: Control | None = None
        self.seconds = 0.0
        """Boot time, from exec to hostd's first line."""

    @property
    def control(self) -> Control:
        """The control channel of a machine that is up."""
        if self._control is None:
            raise HostLost("the host is not up")
        return self._control

    def command(self) -> list[str]:
        """What `start` executes."""
        if self.spec.backend == "local":
            return hostd_command(self.run)
        return host_command(self.spec, self.run, self.logs)

    def start(self, timeout: float = 120.0) -> dict[str, Any]:
        """Boot, or load what was saved; returns who hostd says it is, raises HostLost."""
        self.logs.mkdir(parents=True, exist_ok=True)
        argv = self.command()
        (self.logs / "qemu-command.txt").write_text(shlex.join(argv) + "\n")
        began = time.monotonic()
        local = self.spec.backend == "local"
        if not local:
            (self.run / IDLE_STATES).write_bytes(acpi.idle_states(self.spec.pcpus))
        listener = self._listen() if local else None
        with (self.logs / "qemu.err").open("wb") as err:
            self.proc = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=err, stderr=err, start_new_session=True,
                preexec_fn=die_with_us())  # noqa: PLW1509 (system calls alone, no lock taken)
        stream = self._accept(listener, timeout) if listener else self._connect(timeout)
        steer = self._steer(timeout) if self.spec.model else None
        self._control = Control(stream, self.logs / "host-control.log", self.why_lost,
                                pace.wall(self.spec), steer)
        if steer and self.spec.saved:
            try:
                steer.load(self.spec.saved.folder / STATE)
            except SteerError as error:
                raise HostLost(f"{error}; remove {self.spec.saved.folder} to boot it"
                               " anew") from error
            hello = self._control.call("hello", timeout=timeout)
        else:
            self._control.settle(timeout)
            hello = self._control.wait(self._control.up, timeout, "boot")
        self.seconds = time.monotonic() - began
        return hello

    def save(self, folder: Path) -> None:
        """Keep the host, which stands still, for a `Saved`; it is to be stopped then."""
        if self.control.steer is None:
            raise LabError("only a host in virtual time can be saved")
        self.control.steer.save(folder / STATE)

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.run / "control"))
        listener.listen(1)
        return listener

    def _accept(self, listener: socket.socket, timeout: float) -> socket.socket:
        with listener:
            listener.settimeout(POLL)
            end = time.monotonic() + timeout
            while time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    return listener.accept()[0]
                self._still_runs()
        raise HostLost(f"hostd did not come up: {self.stderr()}")

    def _connect(self, timeout: float) -> socket.socket:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self._still_runs()
            stream = socket.socket(socket.AF_UNIX)
            try:
                stream.connect(str(self.run / "control"))
                return stream
            except OSError:
                stream.close()
                time.sleep(POLL)
        raise HostLost("QEMU did not open its control socket")

    def _steer(self, timeout: float) -> Steer:
        """The second socket for which QEMU waits before it starts the machine."""
        end = time.monotonic() + timeout
        while not (self.run / STEER).exists() and time.monotonic() < end:
            self._still_runs()
            time.sleep(POLL)
        return Steer(self.run / STEER)

    def _still_runs(self) -> None:
        if self.proc is None or self.proc.poll() is not None:
            raise HostLost(self.why_lost())

    def stderr(self) -> str:
        """What QEMU printed, last 300 characters, one line."""
        with contextlib.suppress(OSError):
            text = (self.logs / "qemu.err").read_text(errors="replace")
            return " ".join(text.split())[-300:]
        return ""

    def console_text(self) -> bytes:
        """The host's console so far."""
        with contextlib.suppress(OSError):
            return (self.logs / "host-console.log").read_bytes()
        return b""

    def tripled(self) -> bool:
        """Whether QEMU logged a triple fault of the host."""
        with contextlib.suppress(OSError):
            return b"Triple fault" in (self.logs / "qemu.log").read_bytes()
        return False

    def trouble(self) -> str:
        """One sentence on what is wrong with the host, empty when nothing is."""
        if self.tripled():
            return "the host triple-faulted (see qemu.log)"
        found = console.scan(self.console_text())
        if found:
            return f"the host's console says: {found[0].text}"
        if self.proc is not None and self.proc.poll() is not None:
            return f"the host ended with status {self.proc.returncode} {self.stderr()}".strip()
        return ""

    def why_lost(self) -> str:
        """As `trouble`, for a host that has just closed its channel."""
        if self.proc is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.proc.wait(3)
        return self.trouble() or "the host closed its control channel"

    def post_mortem(self) -> None:
        """Keep the CPUs' state of a host that hangs, in cpu-state.txt."""
        if self.spec.backend == "local" or self.proc is None or self.proc.poll() is not None:
            return
        with contextlib.suppress(Exception):
            text = asyncio.run(asyncio.wait_for(cpu_state(self.run / "qmp"), STATE_LIMIT))
            (self.logs / "cpu-state.txt").write_text(text)

    def stop(self, polite: bool = True) -> None:
        """End the host and everything in it; does what is left when it was interrupted."""
        if self._control is not None:
            if polite and self.proc is not None and self.proc.poll() is None:
                with contextlib.suppress(LabError, OSError):
                    self._control.wait(self._control.submit("quit"), STOP_LIMIT, "end")
                self._wait()
            self._control.close()
            if self.spec.backend == "local":
                self._wait()  # hostd ends its guests and their groups when its channel closes
            self._control = None
        if self.proc is not None and self.proc.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.proc.pid, signal.SIGKILL)
            self._wait()
        self._scratch.close()

    def _wait(self) -> None:
        if self.proc is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.proc.wait(STOP_LIMIT)

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(polite=False)
