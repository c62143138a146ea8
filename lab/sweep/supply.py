# SPDX-License-Identifier: GPL-2.0-only
"""Brings artifacts to the workers that lack them, to several machines at a time.

A machine gets one after the other, so that its workers, which share a cache, get each once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from distributed import Client

from lab.core import content
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
        self._going: dict[str, Future[None]] = {}
        self._waiting: dict[str, list[T]] = {}

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def ask(self, address: str, names: Sequence[str], waits: T) -> None:
        """Bring artifacts to a worker, unless something is on its way to its machine already."""
        machine = urlsplit(address).hostname or address
        self._waiting.setdefault(machine, []).append(waits)
        if machine not in self._going:
            self._going[machine] = self._pool.submit(self._bring, address, [*names])

    def over(self) -> list[T]:
        """What need not wait any more; raises what ended a supply otherwise than well."""
        found = list[T]()
        for machine in [name for name, going in self._going.items() if going.done()]:
            self._going.pop(machine).result()
            found += self._waiting.pop(machine)
        return found

    def close(self) -> None:
        """Begin no other supply; one that is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _bring(self, address: str, names: Sequence[str]) -> None:
        """Send artifacts to a worker, unless another one of its machine has them by now."""
        def call(function: Callable[..., Any], *args: Any) -> Any:
            try:
                return self._client.run(
                    ByValue(function), *args, workers=[address])[address]
            except (OSError, KeyError, ValueError):  # it is gone: another one makes the unit
                self._check()
                raise Gone from None
        for one in self._artifacts:
            try:
                if one.name in names and not call(worker.place, asdict(one)):
                    self._progress.say(
                        f"sending {one.name}, {_size(Path(one.path))}, to {address}")
                    send(asdict(one), {worker.INSIDE: Path(one.path)},
                         lambda *args: str(call(worker.receive, *args)))
            except Gone:
                return


class Gone(Exception):
    """A worker is not there any more."""


def _size(path: Path) -> str:
    """Of a file or a folder."""
    inside = content.files_below(path) if path.is_dir() else [""]
    return f"{sum((path / one).stat().st_size for one in inside) / 1e6:.1f} MB"
