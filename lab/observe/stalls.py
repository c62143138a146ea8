# SPDX-License-Identifier: GPL-2.0-only
"""Whether this machine's own CPUs stood still while a run was measured.

A machine that is itself a guest loses a CPU now and then, and need not be told:
its stolen time may stay 0. Everything on that CPU then takes longer, and a vCPU
of the lab seems to wait for a CPU. So each CPU is watched: a thread that is tied
to it sleeps, and notes by how much it ran too late. Beside busy emulators that
is a few milliseconds, as the scheduler prefers who has slept; much more means
that the CPU ran nothing at all.
"""

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from lab.core.model import Backend, RunRecord

PERIOD = 0.02
"""Seconds that a thread sleeps."""
LONG = 0.03
"""Seconds from which on a CPU stood still; in 119 of 120 runs the longest was 0.0057."""


class Unwatched:
    """A context in which nobody looks: in virtual time the machine waits for its CPUs."""

    stalled: float | None = None
    """Seconds for which one of the CPUs stood still at most; None when that is not known."""

    def __enter__(self) -> "Unwatched":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        pass


def watch(backend: Backend) -> "Watch | Unwatched":
    """What a run on this backend is watched by."""
    return Unwatched() if backend == "vt" else Watch()


class Watch:
    """A context in which each CPU that this process may use is watched."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._late = dict.fromkeys(sorted(os.sched_getaffinity(0)), 0.0)
        """Seconds by CPU; each is written by its own thread alone."""
        self._threads = [threading.Thread(target=self._follow, args=(cpu,), daemon=True)
                         for cpu in self._late]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def stalled(self) -> float | None:
        """The same, as it is recorded."""
        return round(self.longest, 4)

    @property
    def longest(self) -> float:
        """Seconds by which any of the threads ran too late at most."""
        return max(self._late.values())

    def _follow(self, cpu: int) -> None:
        with contextlib.suppress(OSError):  # one that is gone meanwhile is watched where it moves
            os.sched_setaffinity(0, {cpu})  # of this thread alone
        over = False
        while not over:
            began = time.monotonic()
            over = self._over.wait(PERIOD)
            self._late[cpu] = max(self._late[cpu], time.monotonic() - began - PERIOD)


def warnings(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """One sentence when CPUs stood still in valid runs; runs that do not tell are left out."""
    told = [run.stalled for run in runs if run.valid and run.stalled is not None]
    long = [stalled for stalled in told if stalled >= LONG]
    if not long:
        return ()
    return (f"this machine's own CPUs stood still for {1e3 * LONG:.0f} ms and more, up to"
            f" {1e3 * max(long):.0f} ms, in {len(long)} of {len(told)} valid runs; waits of such"
            f" length in them may be no scheduler's",)
