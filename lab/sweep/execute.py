# SPDX-License-Identifier: GPL-2.0-only
"""Has units made by the workers of a cluster, and keeps what they find.

A unit that is done is kept before another is asked for. A worker that dies loses the unit that it
was at, which another one makes again; a unit that fails so many times is kept with its error.
When the scheduler is lost all stops, and the same command goes on with what was not kept.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributed import Client, Future, KilledWorker

from lab.core.errors import LabError
from lab.core.progress import Progress, Stage
from lab.core.words import many
from lab.sweep.artifacts import Artifact
from lab.sweep.byvalue import ByValue
from lab.sweep.model import Unit
from lab.sweep.supply import Supplies

POLL_S = 0.05
LOOK_S = 2.0
"""Between two looks how many workers there are."""

NOBODY_S = 60.0
"""So long there may be no worker before the user is told what that can mean."""
RENEW_S = 20.0
"""Between two attempts to have lost workers started anew."""
MOST_TRIES = 20
"""So often a unit is handed out, besides its failures: its worker may vanish, or lack something."""

Answer = dict[str, Any]
Play = Callable[[dict[str, Any]], Answer]


class Lost(LabError):
    """The scheduler does not answer any more."""


@dataclass(frozen=True)
class Again:
    """A unit is to be made once more."""

    worker: str = ""
    """Which one could not for want of artifacts, if that was why."""
    lacks: tuple[str, ...] = ()


@dataclass
class Job:
    """How units are made, whatever they are."""

    client: Client
    play: Play
    """Runs on a worker."""
    task: Callable[[Unit], dict[str, Any]]
    """What `play` gets for a unit."""
    keep: Callable[[Unit, Answer], None]
    """Has the answer on the disk when it returns."""
    fail: Callable[[Unit, str], None]
    """Keeps that a unit failed for good, and why."""
    progress: Progress
    artifacts: Sequence[Artifact] = ()
    retries: int = 2
    tell: Callable[[], str] = lambda: ""
    """What the user sees beside the count."""
    renew: Callable[[], str] = lambda: ""
    """Has workers that went away started anew, and says what hinders it."""
    _blamed: Counter[str] = field(default_factory=Counter)
    """How often the workers that were at a unit died, by its key."""
    _renewed: float = field(default_factory=time.monotonic)
    _seen: float = field(default_factory=time.monotonic)
    """When there was a worker, or the user was told that there is none."""
    _hindered: str = ""
    _given: int = 0
    """Units that were handed out, so that each has a key of its own, also one that waited."""

    def make(self, units: Sequence[Unit], stage: Stage) -> None:
        """All units, each to its row; raises Lost, and OSError when the disk is full."""
        waiting = deque((unit, 0) for unit in units)
        flying: dict[Future[Any], tuple[Unit, int]] = {}
        supplies = Supplies[tuple[Unit, int]](self.client, self.artifacts, self.progress,
                                              self._check)
        looked, threads = 0.0, dict[str, int]()
        try:
            while waiting or flying or supplies:
                self._check()
                # To wait for a supply that came is no try.
                waiting.extend((unit, tried + (not good))
                               for (unit, tried), good in supplies.over())
                if time.monotonic() - looked > LOOK_S:
                    looked, threads = time.monotonic(), self._look()
                    stage.text(self.tell() if threads else "no worker is there yet")
                    supplies.possible(threads)
                ready = supplies.ready(threads)
                # One for each thread: a unit that waits at a worker that dies would be blamed, too.
                room = sum(threads[one] for one in ready) or not threads
                some = ready if len(ready) < len(threads) else ()
                while waiting and len(flying) < room:
                    unit, tried = waiting.popleft()
                    flying[self._submit(unit, some)] = unit, tried
                over = [one for one in flying if one.status != "pending"]
                for future in over:
                    unit, tried = flying.pop(future)
                    if again := self._took(future, unit):
                        if tried <= MOST_TRIES:
                            if again.worker:
                                supplies.ask(again.worker, again.lacks, (unit, tried))
                            else:
                                waiting.append((unit, tried + 1))
                            continue
                        self.fail(unit, "no worker was there for long enough, or could be given"
                                  " what it needs")
                    stage.advance(len(unit.runs))
                    stage.text(self.tell())
                if not over:
                    time.sleep(POLL_S)
        except BaseException:
            if self.client.status == "running":
                self.client.cancel(list(flying))  # type: ignore[no-untyped-call]
            raise
        finally:
            supplies.close()

    def _look(self) -> dict[str, int]:
        """Threads of each worker; lost ones are started anew, and the user is told of none."""
        now, threads = time.monotonic(), self._threads()
        if now - self._renewed > RENEW_S:
            hindered = self.renew()
            self._renewed = time.monotonic()
            if hindered and hindered != self._hindered:
                self._hindered = hindered
                self.progress.say(f"a worker could not be started anew: {hindered}")
        if threads:
            self._seen = now
        elif now - self._seen > NOBODY_S:
            self._seen = math.inf
            self.progress.say(f"no worker is there for {NOBODY_S:.0f} s: maybe the cluster has no"
                              " room, or its workers end at once; its queue and their logs tell")
        return threads

    def _check(self) -> None:
        if self.client.status != "running":
            raise Lost("the scheduler is lost: what was finished is kept, and the same command"
                       " goes on from there")

    def _threads(self) -> dict[str, int]:
        """Of each worker."""
        try:
            return dict(self.client.nthreads())  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError):
            self._check()
            return {}

    def _submit(self, unit: Unit, workers: Sequence[str]) -> Future[Any]:
        """To one of these workers, to any if none is named, or when they are gone."""
        self._given += 1
        return self.client.submit(
            ByValue(self.play), self.task(unit), key=f"unit-{unit.key}-{self._given}",
            retries=self.retries, pure=False, workers=[*workers] or None,
            allow_other_workers=bool(workers))

    def _took(self, future: Future[Any], unit: Unit) -> Again | None:
        """Keep what came of it, unless it is to be made once more."""
        if future.status == "error":
            error = future.exception()  # type: ignore[no-untyped-call]
            self._blamed[unit.key] += 1
            if isinstance(error, KilledWorker) and self._blamed[unit.key] <= self.retries:
                return Again()  # maybe it was another one's fault on that worker
            self.progress.say(f"a unit of {many(len(unit.runs), 'run')} failed: {_short(error)}")
            self.fail(unit, _short(error))
            return None
        if future.status != "finished":  # cancelled, or lost with the scheduler
            time.sleep(POLL_S)
            self._check()
            return Again()
        try:
            answer: Answer = future.result()
        except Exception:  # its worker died with it: whatever that is called
            self._check()
            return Again()
        if "lacks" in answer:
            return Again(answer["worker"], tuple(answer["lacks"]))
        self.keep(unit, answer)
        return None


def _short(error: BaseException | None) -> str:
    """The error in a sentence."""
    text = " ".join(str(error).split())
    if isinstance(error, KilledWorker):
        return "the workers that were at it died, one after the other"
    return text[-300:] or type(error).__name__
