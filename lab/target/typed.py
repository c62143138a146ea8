# SPDX-License-Identifier: GPL-2.0-only
"""Runs a shell for a user of the KVM host, or one inside a guest; time waits for the user.

    python3 typed.py COMMAND...

Standard library only. In virtual time an idle machine skips to its next timer, and hours would
pass while a user types. So this program, between the host's console and a terminal of the
command's own, stops its machine whenever a shell waits for its user: the lab lets it go on
with each key, see the lab's shell_vt.py. What shells print says when they wait (typed.bash):
a prompt has CLOCK in it, which becomes the host's time, and RUNS comes before a command's
output.
"""

import contextlib
import os
import pty
import select
import sys
import termios
import time
import tty
from collections.abc import Callable

import pvpanic

CLOCK = b"@@@@@@.@@@@@@"
RUNS = b"\x1b]pvsync\x07"
QUIET_S = 0.02
"""So long a shell that waits gets to answer a key, such as to complete a name."""
CHUNK = 4096


class Screen:
    """What is printed, with the clock in prompts; whether a shell waits for its user."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.waits = False
        self._now = now
        self._kept = b""
        """The beginning of what may be CLOCK or RUNS."""

    def shown(self, data: bytes) -> bytes:
        """What to print for it."""
        data = self._kept + data
        out = b""
        while True:
            clock, runs = data.find(CLOCK), data.find(RUNS)
            if clock < 0 and runs < 0:
                break
            self.waits = runs < 0 or 0 <= clock < runs
            at, mark = (clock, CLOCK) if self.waits else (runs, RUNS)
            out += data[:at] + (b"%13.6f" % self._now() if self.waits else b"")
            data = data[at + len(mark):]
        keep = max(size for mark in (CLOCK, RUNS) for size in range(len(mark))
                   if data.endswith(mark[:size]))
        self._kept = data[len(data) - keep:]
        return out + data[:len(data) - keep]

    def rest(self) -> bytes:
        """What was kept and is no mark, as nothing follows."""
        kept, self._kept = self._kept, b""
        return kept


def stop() -> None:
    """Stop this machine, once its console has said everything; returns when it goes on."""
    with contextlib.suppress(OSError, termios.error):
        termios.tcdrain(sys.stdout.fileno())
    pvpanic.pause()


def relay(keys: int, screen: int, terminal: int, hold: Callable[[], None]) -> None:
    """Carry bytes between a user and a terminal until the latter ends."""
    shown = Screen()
    while True:
        ready, _, _ = select.select([keys, terminal], [], [], QUIET_S if shown.waits else None)
        if not ready:
            os.write(screen, shown.rest())
            hold()
        if keys in ready:
            os.write(terminal, os.read(keys, CHUNK))
        if terminal in ready:
            try:
                data = os.read(terminal, CHUNK)
            except OSError:     # its last process has ended
                data = b""
            if not data:
                os.write(screen, shown.rest())
                return
            os.write(screen, shown.shown(data))


def main(command: list[str]) -> None:
    child, terminal = pty.fork()
    if not child:
        os.execvp(command[0], command)
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    with contextlib.suppress(termios.error):
        termios.tcsetwinsize(terminal, (24, 80))
        tty.setraw(keys)
    relay(keys, screen, terminal, stop)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
