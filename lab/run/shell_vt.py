# SPDX-License-Identifier: GPL-2.0-only
"""A user's terminal on a host in virtual time, which stands still while the user thinks.

The host stops itself when a shell waits (target/typed.py). A key is handed to its console,
and lets it go on until the shell has answered.
"""

import os
import select
import socket
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.core.errors import LabError
from lab.machine.machine import STEER, die_with_us
from lab.machine.steer import Steer, SteerError, unsent

CONSOLE = "console"
"""The socket of the host's serial port, in the machine's folder."""
CONNECT_S = 30.0
POLL_S = 0.02
TAKEN_S = 0.1
"""What a stopped machine's serial port has room for is taken in that time."""
FOREVER_S = 1e9
ESCAPE, END = b"\x01", (b"x", b"X")
"""Ctrl-A X ends the machine, as on QEMU's own console."""
CHUNK = 4096


def arguments(argv: Sequence[str], run: Path) -> list[str]:
    """QEMU's argument list with the console on a socket, and nobody at the control channel."""
    out: list[str] = []
    for word in argv:
        if out and out[-1] == "-serial":
            where = f"socket,id=console,path={run}/{CONSOLE},server=on,wait=on"
            out[-1:] = ["-chardev", where, "-serial", "chardev:console"]
        elif word.startswith("socket,id=control,"):
            out.append(word.replace("wait=on", "wait=off"))
        elif out and out[-1] == "-append":
            out.append(f"{word} pvsync.shell=1 lab.typed=1")
        else:
            out.append(word)
    return out


class Keys:
    """What is typed: Ctrl-A is an escape, and its X the end."""

    def __init__(self) -> None:
        self._escaped = False

    def given(self, data: bytes) -> bytes | None:
        """What of it goes to the machine; None when it is to end."""
        out = b""
        for key in (data[at:at + 1] for at in range(len(data))):
            if self._escaped:
                self._escaped = False
                if key in END:
                    return None
                out += key
            elif key == ESCAPE:
                self._escaped = True
            else:
                out += key
        return out


class Hand:
    """Lets the host go on whenever it stands still and something was typed."""

    def __init__(self, steer: Steer, console: socket.socket) -> None:
        self._steer = steer
        self._console = console
        self._typed = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def typed(self) -> None:
        """Something was sent to the console."""
        self._typed.set()

    def _work(self) -> None:
        try:
            while self._steer.wait(FOREVER_S):
                self._typed.wait()
                self._typed.clear()
                end = time.monotonic() + TAKEN_S
                while unsent(self._console) and time.monotonic() < end:
                    time.sleep(POLL_S / 10)
                if unsent(self._console):   # more than the port has room for
                    self._typed.set()
                self._steer.go_on()
        except (SteerError, OSError):
            return


def serve(keys: int, screen: int, console: socket.socket, hand: Hand) -> None:
    """Carry bytes between the user and the console until either ends."""
    typed = Keys()
    while True:
        ready, _, _ = select.select([keys, console.fileno()], [], [])
        if console.fileno() in ready:
            said = console.recv(CHUNK)
            if not said:
                return
            os.write(screen, said)
        if keys in ready:
            data = os.read(keys, CHUNK)
            given = typed.given(data)
            if given is None or not data:
                return
            if given:
                console.sendall(given)
                hand.typed()


@contextmanager
def raw(keys: int) -> Iterator[None]:
    """Every key comes as it is typed, and nothing is printed for it."""
    before = termios.tcgetattr(keys)
    tty.setraw(keys)
    try:
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def listening(path: Path, process: "subprocess.Popen[bytes]") -> Path:
    """The same, as soon as it is QEMU's socket; LabError when QEMU has ended."""
    end = time.monotonic() + CONNECT_S
    while not path.exists():
        if time.monotonic() > end or process.poll() is not None:
            raise LabError(f"QEMU did not open its socket {path.name}")
        time.sleep(POLL_S)
    return path


def connected(path: Path, process: "subprocess.Popen[bytes]") -> socket.socket:
    """A connection to QEMU's socket there."""
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(str(listening(path, process)))
    return stream


def run(argv: Sequence[str], folder: Path) -> None:
    """Play a machine whose arguments are `arguments`' with this terminal as its console."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=die_with_us())  # noqa: PLW1509
    keys = sys.stdin.fileno()
    try:
        with connected(folder / CONSOLE, process) as console, raw(keys):
            steer = Steer(listening(folder / STEER, process))
            serve(keys, sys.stdout.fileno(), console, Hand(steer, console))
    finally:
        process.kill()
        process.wait()
