# SPDX-License-Identifier: GPL-2.0-only
"""Runs long commands of a build: a log, each line of it for progress, and an error that tells."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.core import tools
from lab.core.errors import LabError

FAULT = re.compile(
    r"error:|ERROR|FAILED|fatal:|No space left|undefined reference|multiple definition"
    r"|not found|cannot "
)
GAVE_UP = re.compile(r"\*\*\*|Error \d+|[Kk]illed")
SHOWN = 5
"""Lines of the log that an error repeats."""


def fault_lines(log: str) -> list[str]:
    """The lines of a build's output that say why it failed, the last few."""
    lines = [line.strip() for line in log.splitlines()]
    found = [line for line in lines if FAULT.search(line)]
    found = found or [line for line in lines if GAVE_UP.search(line)]
    return (found or [line for line in lines if line])[-SHOWN:]


class Log:
    """The log of one build's commands, begun anew."""

    def __init__(self, path: Path, name: str):
        self.path, self._name = path, name
        path.write_text("")

    def run(self, command: Sequence[str], what: str, see: Callable[[str], object], *,
            cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Run one of them: what it says is added to the log, and `see` gets each line.

        Raises LabError with `what` failed, the log's path and its telling lines. Whatever ends
        the wait, also Ctrl-C, ends the command and all its children first.
        """
        with self.path.open("a") as log:
            log.write(f"$ {shlex.join(command)}\n")
            log.flush()
            start = self.path.stat().st_size
            with tools.follow(command, cwd=cwd, env=env) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    see(line)
                status = process.wait()
        if status:
            lines = fault_lines(self.path.read_bytes()[start:].decode(errors="replace"))
            said = "".join(f"\n  {line}" for line in lines)
            raise LabError(f"{self._name}: {what} failed (status {status}), see {self.path}:{said}")
