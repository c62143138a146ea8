# SPDX-License-Identifier: GPL-2.0-only
"""Commands that run beside each other, each with its output kept until its end.

Lines of one are never among those of another. All are started and ended by
the caller's thread, which alone may be interrupted.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

GRACE_S = 60
"""For a command that is ended: pytest writes what it has found so far."""
LOOK_S = 0.2
"""How often to look which of them have ended."""


@dataclass(frozen=True)
class Wanted:
    """A command, and how long it may take."""

    name: str
    command: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True)
class Ended:
    """What became of one."""

    name: str
    status: int | None
    """None when it did not start or had to be ended; `output` then ends with why."""
    output: str
    seconds: float


@dataclass
class _Running:
    wanted: Wanted
    process: subprocess.Popen[bytes]
    folder: Path
    began: float = field(default_factory=time.monotonic)


def at_once(wanted: Sequence[Wanted], number: int, folder: Path, cwd: Path,
            end_s: float, undisturbed: Callable[[], AbstractContextManager[None]],
            ) -> Iterator[Ended]:
    """Run these, in order and at most so many at a time; what became of each, as it ends.

    `folder` gets the outputs. What is not over at `end_s`, seconds of the monotonic clock, is
    ended. `undisturbed` keeps interrupts off while one starts. Whatever ends this generator
    ends what runs.
    """
    left, running = list(wanted), list[_Running]()
    try:
        while left or running:
            while left and len(running) < number:
                rest_s = max(1.0, end_s - time.monotonic())
                first = left.pop(0)
                first = replace(first, timeout_s=min(first.timeout_s, rest_s))
                try:
                    with undisturbed(), _file(folder, first.name).open("wb") as output:
                        process = start(first.command, cwd, output.fileno())
                        running.append(_Running(first, process, folder))
                except OSError as error:
                    yield Ended(first.name, None, f"{first.command[0]}: {error.strerror}", 0)
            done = [one for one in running if _over(one)]
            for one in done:
                running.remove(one)
                yield _ended(one)
            if running and not done:
                time.sleep(LOOK_S)
    finally:
        for one in running:
            stop(one.process)


def said(folder: Path, name: str) -> str:
    """What a command has printed so far; empty of one that was not started."""
    with contextlib.suppress(FileNotFoundError):
        return _file(folder, name).read_bytes().decode(errors="replace")
    return ""


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.out"


def start(command: Sequence[str], cwd: Path, output: int) -> "subprocess.Popen[bytes]":
    """A process and a group of its own, whose output goes to that descriptor."""
    return subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT, start_new_session=True)


def _late(one: _Running) -> bool:
    return time.monotonic() - one.began > one.wanted.timeout_s


def _over(one: _Running) -> bool:
    return one.process.poll() is not None or _late(one)


def _ended(one: _Running) -> Ended:
    late = one.process.poll() is None
    if late:
        stop(one.process)
    text = said(one.folder, one.wanted.name)
    if late:
        text += f"\nit took more than {one.wanted.timeout_s:.0f} s and was ended"
    status = None if late else one.process.returncode
    return Ended(one.wanted.name, status, text, time.monotonic() - one.began)


def stop(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """End a command and all that it has started."""
    end(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    end(process.pid, signal.SIGKILL)
    process.wait()


def end(group: int, number: int) -> None:
    """Send a signal to all of a group that is there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
