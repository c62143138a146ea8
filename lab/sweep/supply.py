# SPDX-License-Identifier: GPL-2.0-only
"""Brings artifacts to the workers that lack them, to several machines at a time.

Workers of a machine are supplied one after the other: most share a cache, and get each once.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from distributed import Client

from lab.core import content
from lab.core.errors import LabError
from lab.core.progress import Progress
from lab.sweep import worker
from lab.sweep.artifacts import Artifact, send
from lab.sweep.byvalue import ByValue

MACHINES = 8
"""So many are supplied at a time."""

T = TypeVar("T")


class Supplies(Generic[T]):
    """What is on its way to workers; each has something that waits for it, such as a unit."""

    def __init__(self, client: Client, artifacts: Sequence[Artifact], progress: Progress,
                 check: Callable[[], None]) -> None:
        """`check` raises when no worker can be reached any more."""
        self._client, self._artifacts = client, artifacts
        self._progress, self._check = progress, check
        self._pool = ThreadPoolExecutor(MACHINES, "supply")
        self._going: dict[str, tuple[str, Future[bool]]] = {}
        """Of each machine the worker that is supplied."""
        self._next = defaultdict[str, deque[tuple[str, Sequence[str]]]](deque)
        """Of each machine the workers that come after it, and what they lack."""
        self._waiting: dict[str, list[T]] = {}
        self._supplied = Counter[str]()
        """How often each worker was supplied."""
        self._useless = set[str]()
        """Workers that could not keep what they were sent."""

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def ask(self, address: str, names: Sequence[str], waits: T) -> None:
        """Bring artifacts to a worker, unless they are on their way already."""
        if address not in self._waiting:
            self._next[_machine(address)].append((address, names))
        self._waiting.setdefault(address, []).append(waits)
        self._begin(_machine(address))

    def over(self) -> list[tuple[T, bool]]:
        """What need not wait any more, and whether its worker got what it had not had before.

        Raises what ended a supply otherwise.
        """
        found = list[tuple[T, bool]]()
        done = [name for name, (_address, going) in self._going.items() if going.done()]
        for machine in done:
            address, going = self._going.pop(machine)
            good = going.result() and not self._supplied[address]
            self._supplied[address] += 1
            found += [(one, good) for one in self._waiting.pop(address)]
            self._begin(machine)
        return found

    def ready(self, workers: Iterable[str]) -> list[str]:
        """Those of these workers whose machines wait for nothing, and that can be supplied."""
        return [one for one in workers
                if _machine(one) not in self._going and one not in self._useless]

    def possible(self, workers: Collection[str]) -> None:
        """LabError when none of these workers could keep what it was sent."""
        if workers and self._useless.issuperset(workers):
            raise LabError("no worker can keep what units need, for the reasons above")

    def close(self) -> None:
        """Begin no other supply; one that is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, machine: str) -> None:
        if machine not in self._going and self._next[machine]:
            address, names = self._next[machine].popleft()
            self._going[machine] = address, self._pool.submit(self._bring, address, names)

    def _bring(self, address: str, names: Sequence[str]) -> bool:
        """Send artifacts to a worker, unless another one of its machine has them by now.

        False when it is gone, or cannot keep them.
        """
        def call(function: Callable[..., Any], *args: Any) -> Any:
            try:
                return self._client.run(
                    ByValue(function), *args, workers=[address])[address]
            except (OSError, KeyError, ValueError):  # it is gone: another one makes the unit
                self._check()
                raise Gone from None
        try:
            for one in self._artifacts:
                if one.name in names and not call(worker.place, asdict(one)):
                    self._progress.say(
                        f"sending {one.name}, {_size(Path(one.path))}, to {address}")
                    send(asdict(one), {worker.INSIDE: Path(one.path)},
                         lambda *args: str(call(worker.take, *args)))
        except Gone:
            return False
        except LabError as error:
            self._check()
            self._useless.add(address)
            self._progress.say(f"{address} gets no units: {error}")
            return False
        return True


def _machine(address: str) -> str:
    return urlsplit(address).hostname or address


class Gone(Exception):
    """A worker is not there any more."""


def _size(path: Path) -> str:
    """Of a file or a folder."""
    inside = content.files_below(path) if path.is_dir() else [""]
    return f"{sum((path / one).stat().st_size for one in inside) / 1e6:.1f} MB"
