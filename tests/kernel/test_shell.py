# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync shell` in virtual time: a prompt with a clock, in the host and in a guest."""

import os
import pty
import re
import select
import subprocess
import time
from contextlib import suppress

import pytest

from lab.core import paths

pytestmark = pytest.mark.virtual

LIMIT_S = 240
"""Of this machine's time, for a prompt; it takes some ten seconds."""
ENDS_S = 30
"""Likewise, for the lab to end its machine when it is told to."""
PROMPT = re.compile(rb"\[ +(\d+\.\d+) s\] (host|guest)# ")


class Terminal:
    """The master's end of a terminal, and all that has come from it."""

    def __init__(self, master: int) -> None:
        self.master = master
        self.said = b""

    def prompt(self, number: int, where: str) -> float:
        """Waits until there are so many prompts of the host or guest; the clock of the last, s."""
        end = time.monotonic() + LIMIT_S
        while True:
            found = [match for match in PROMPT.finditer(self.said) if match[2] == where.encode()]
            if len(found) >= number:
                return float(found[number - 1][1])
            left = end - time.monotonic()
            assert left > 0 and select.select([self.master], [], [], left)[0], self.said
            try:
                self.said += os.read(self.master, 4096)
            except OSError:
                pytest.fail(f"the shell has ended: {self.said!r}")

    def type(self, line: str) -> None:
        os.write(self.master, line.encode() + b"\n")


@pytest.mark.parametrize("where", ["host", "guest"])
def test_a_prompt_with_a_clock(where: str) -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(
            [paths.ROOT / "pvsync", "shell", where, "--backend", "vt", "--scheme", "everything"],
            stdin=slave, stdout=slave, stderr=slave) as shell:
        os.close(slave)
        try:
            terminal = Terminal(master)
            first = terminal.prompt(1, where)
            terminal.type("echo typed >/dev/ttyS0; echo status $?; sleep 3")
            second = terminal.prompt(2, where)
            said = terminal.said
            assert re.search(rb"typed\r*\n", said) and b"status 0" in said, said
            assert 3 <= second - first < 4, said
        finally:
            shell.terminate()
            with suppress(subprocess.TimeoutExpired):
                shell.wait(ENDS_S)
            shell.kill()
            os.close(master)
