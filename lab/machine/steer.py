# SPDX-License-Identifier: GPL-2.0-only
"""Lets a host in virtual time run only while it has something to do for the lab.

When a request reaches hostd must not depend on how fast this machine is, or runs of one seed would
differ. So time stands still while the lab thinks: hostd says that it has nothing left to do and
stops its own machine. It writes to the port of QEMU's pvpanic device, which pauses it at that very
instruction's round. The lab hands its next requests to the stopped machine, waits until QEMU has
taken all of them, and lets it go on. It sends pieces that the socket hands over whole: of two
halves QEMU might take one alone, and give the guest another number of buffers.

	lab				QEMU				hostd
	requests -> socket		stopped
	until the socket is empty	socket -> the port's buffers
	cont				runs
									reads, works
					port -> socket			answers, "hold"
	STOP				stopped				port of pvpanic
	until "hold" is read
"""

import contextlib
import fcntl
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from lab.core.errors import LabError

POLL_S = 0.001
"""Between two looks whether QEMU has taken what was sent."""
SAVE_POLL_S = 0.05
"""Between two looks whether a machine has been saved, or loaded."""
CONNECT_S = 30.0
LOOK_S = 0.5
"""Between two looks whether QEMU is there: its end is no event of the monitor's."""
PIECE = 1 << 14
"""Bytes that a Unix socket hands over whole, and a multiple of what QEMU reads at once."""


class SteerError(LabError):
    """QEMU does not obey, or has ended."""


class Steer:
    """The monitor of a host's QEMU, used by one thread at a time."""

    def __init__(self, monitor: Path) -> None:
        from qemu.qmp.legacy import QEMUMonitorProtocol  # slow to load: only when needed
        self._talks = threading.Lock()
        """Of the thread that talks with the monitor, or waits for an event: no other may."""
        self._qmp = QEMUMonitorProtocol(str(monitor))
        try:
            self._qmp.connect()
        except Exception as error:
            raise SteerError(f"QEMU's monitor does not answer: {error}") from error
        self._qmp.settimeout(CONNECT_S)

    def hand_over(self, stream: socket.socket, data: bytes) -> None:
        """Send to a host that stands still; QEMU has taken all of it on return.

        Raises OSError when QEMU has ended.
        """
        for begin in range(0, len(data), PIECE):
            stream.sendall(data[begin:begin + PIECE])
            self._until_taken(stream)

    def go_on(self) -> None:
        """Let the host run."""
        try:
            with self._talks:
                self._qmp.cmd("query-status")  # answered when what QEMU took is the guest's
                self._qmp.clear_events()
                self._qmp.cmd("cont")
        except Exception as error:
            raise SteerError(f"QEMU does not let the host go on: {error}") from error

    def wait(self, seconds: float, gone: Callable[[], bool] = lambda: False) -> bool:
        """Whether the host has stopped itself, or QEMU has ended, within so many seconds.

        A stop by a debugger is none of its own: it goes on by the debugger, too. `gone` knows of a
        QEMU that ended without a word, as one that was killed; it is asked every LOOK_S.
        """
        with self._talks:
            return self._wait(time.monotonic() + seconds, gone)

    def _wait(self, end: float, gone: Callable[[], bool]) -> bool:
        itself = False
        while (left := end - time.monotonic()) > 0:
            try:
                event = self._qmp.pull_event(wait=min(left, LOOK_S))
            except TimeoutError:
                if gone():
                    return True
                continue
            except Exception:
                return True
            said = None if event is None else event.get("event")
            if said in (None, "SHUTDOWN") or (said == "STOP" and itself):
                return True
            itself = itself or said == "GUEST_PANICKED"
        return False

    def save(self, file: Path) -> None:
        """Keep the host, which stands still, in a file; it is to be ended then."""
        self._migrate("migrate", file)

    def load(self, file: Path) -> None:
        """Have the host stand still where the one in the file did; QEMU waits for that."""
        self._migrate("migrate-incoming", file)

    def _migrate(self, command: str, file: Path) -> None:
        """As `mapped-ram`: memory has its place in the file, and what is zero takes none."""
        try:
            with self._talks:
                self._qmp.cmd("migrate-set-capabilities",
                              capabilities=[{"capability": "mapped-ram", "state": True}])
                self._qmp.cmd(command, uri=f"file:{file}")
                while (state := self._migration()).get("status") != "completed":
                    if state.get("status") == "failed":
                        raise OSError(state.get("error-desc", "QEMU does not say why"))
                    time.sleep(SAVE_POLL_S)
        except Exception as error:
            raise SteerError(f"QEMU's {command} with {file} failed: {error}") from error

    def _migration(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._qmp.cmd("query-migrate"))

    def close(self) -> None:
        """Leave the monitor; the host stays as it is.

        A thread that talks with it or waits for the host keeps it, and its end is the process's or
        QEMU's.
        """
        if not self._talks.acquire(timeout=4 * LOOK_S):
            return
        try:
            with contextlib.suppress(Exception):
                self._qmp.close()
        finally:
            self._talks.release()

    @staticmethod
    def _until_taken(stream: socket.socket) -> None:
        end = time.monotonic() + CONNECT_S
        while unsent(stream):
            if time.monotonic() > end:
                raise SteerError("QEMU does not read what the lab has sent")
            time.sleep(POLL_S)


def unsent(stream: socket.socket) -> int:
    """Bytes of memory that hold what the other end of a Unix socket has not read yet."""
    (size,) = struct.unpack("i", fcntl.ioctl(stream.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    return int(size)
