# SPDX-License-Identifier: GPL-2.0-only
"""How fast a machine is does not reach a host in virtual time: all of its memory stays the same.

One host is left in peace. The lab of the second reads late and writes in parts, and the emulator
of the third begins each second of its polls milliseconds late.
"""

import fcntl
import hashlib
import io
import select
import socket
import struct
import subprocess
import termios
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from lab.core.progress import Silent
from lab.machine.machine import HostSpec, Machine
from lab.run import host
from tests.kernel.conftest import HERE

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

pytestmark = pytest.mark.virtual

BOOT_S = 300.0
"""Of the host's time, for one that boots in less than a second of it."""
QUIET_S = 0.3
"""The slow lab reads when nothing more has come for so long: the socket is full then."""
PART = 30_000
"""Bytes that it writes at once; QEMU reads 4,096, so that parts end within what it reads."""
LONG = 100_000
"""Bytes that the host is asked to write, and half of those that it answers: beyond a socket's."""
LATE_POLLS = 100
"""Fewer prove nothing."""


class LateReader(io.RawIOBase):
    """Reads when the sender has stopped, because it has said all or finds no room."""

    def __init__(self, stream: socket.socket) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        select.select([self._stream], [], [])
        size, before = waiting(self._stream), -1
        while size != before:
            time.sleep(QUIET_S)
            size, before = waiting(self._stream), size
        return self._stream.recv_into(buffer)


def waiting(stream: socket.socket) -> int:
    """Bytes that can be read at once."""
    (size,) = struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, b"\0" * 4))
    return int(size)


class LateSocket:
    """The lab's end of the control channel; what it does not say is the socket's."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(LateReader(self._stream), 1 << 16)

    def sendall(self, data: bytes) -> None:
        """A Unix socket, too, hands over in parts what is longer than some 32 KiB."""
        for begin in range(0, len(data), PART):
            self._stream.sendall(data[begin:begin + PART])
            time.sleep(0.05)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class LateMachine(Machine):
    """A host whose lab is slow."""

    def _connect(self, timeout: float) -> socket.socket:
        return cast(socket.socket, LateSocket(super()._connect(timeout)))


@dataclass(frozen=True)
class Seen:
    """What a host has come to."""

    console: bytes
    said: list[str]
    """Lines of the control channel, of both sides, without this machine's time."""
    memory: str
    """Hash of all of it, while the host stands still."""


def play(machine: Machine, memory: Path) -> Seen:
    """Boot, read from disks, take and give more than a socket has room for."""
    with machine:
        machine.start(BOOT_S)
        control = machine.control
        assert control.run("sh", "-c", "cat /usr/lib/python3*/*.py | cksum")[0] == 0
        control.write_file("/run/long", "x" * LONG)
        status, said = control.run("od", "-A", "n", "-t", "x1", "-N", str(LONG), "/dev/urandom")
        assert status == 0 and len(said) > LONG
        control.run("cat", "/proc/uptime", "/proc/interrupts", "/proc/stat")
        with memory.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        console = machine.console_text()
        machine.stop()
    lines = (machine.logs / "host-control.log").read_text().splitlines()
    return Seen(console, [line.partition(" ")[2] for line in lines], found)


def with_memory(spec: HostSpec, memory: Path) -> HostSpec:
    """A host whose memory is that file."""
    backing = f"memory-backend-file,id=ram,size={spec.memory}M,mem-path={memory},share=on"
    return replace(spec, extra=("-object", backing, "-machine", "memory-backend=ram"))


@dataclass(frozen=True)
class Quiet:
    """A host that was left in peace."""

    spec: HostSpec
    seen: Seen


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Quiet:
    folder = tmp_path_factory.mktemp("quiet")
    job = host.Job((), variant="test", backend="vt", memory=512)
    spec = host.spec(job, host.ready(job, None, Silent()), ())
    return Quiet(spec, seen(Machine, spec, folder))


def seen(kind: type[Machine], spec: HostSpec, folder: Path) -> Seen:
    """What a host comes to that has new memory."""
    memory = folder / "memory"
    found = play(kind(with_memory(spec, memory), folder / "logs"), memory)
    memory.unlink()
    return found


def test_a_slow_lab_changes_no_byte(quiet: Quiet, tmp_path: Path) -> None:
    assert seen(LateMachine, quiet.spec, tmp_path) == quiet.seen


def test_a_slow_main_loop_changes_no_byte(quiet: Quiet, tmp_path: Path) -> None:
    library, late = tmp_path / "slow_poll.so", tmp_path / "late"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library,
                    HERE / "slow_poll.c"], check=True)
    slow = replace(quiet.spec, emulator=("env", f"LD_PRELOAD={library}", f"SLOW_POLL={late}",
                                         *quiet.spec.emulator))
    found = seen(Machine, slow, tmp_path)
    assert int(late.read_text()) > LATE_POLLS
    assert found == quiet.seen
