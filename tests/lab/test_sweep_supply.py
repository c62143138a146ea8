# SPDX-License-Identifier: GPL-2.0-only
"""Artifacts on their way to workers: several machines at a time, a machine one after the other."""

import pickle
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from distributed import Client

from lab.core.errors import LabError
from lab.sweep import artifacts, supply, worker
from lab.sweep.byvalue import ByValue
from tests.lab import sweeping

TOGETHER_S = 10.0
"""So long one machine waits for another one to be supplied as well."""


class Workers:
    """A client whose workers run here, one at a time, each after what it does at first."""

    def __init__(self, before: Callable[[str], None] = lambda address: None) -> None:
        self._before = before
        self._process = threading.Lock()

    def run(self, function: ByValue, *args: Any, workers: list[str]) -> dict[str, Any]:
        self._before(workers[0])
        with self._process:
            return {workers[0]: function(*args)}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> artifacts.Artifact:
    """One that no worker has yet; they share a cache."""
    monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "kernel").write_bytes(bytes(5000))
    return artifacts.artifact("kernel", tmp_path / "kernel")


def lacking(kernel: artifacts.Artifact) -> artifacts.Artifact:
    """The same, where the client's file is not seen."""
    return artifacts.Artifact(kernel.name, kernel.digest, kernel.path, [0, 0, 0])


def supplies(client: Workers, kernel: artifacts.Artifact, said: sweeping.Said,
             check: Callable[[], None] = lambda: None) -> supply.Supplies[str]:
    return supply.Supplies(cast(Client, client), [lacking(kernel)], said, check)


def all_over(made: supply.Supplies[str]) -> list[str]:
    found = list[str]()
    until = time.monotonic() + 2 * TOGETHER_S
    while made and time.monotonic() < until:
        found += made.over()
        time.sleep(0.01)
    made.close()
    return sorted(found)


def test_machines_are_supplied_at_the_same_time(kernel: artifacts.Artifact) -> None:
    """Each waits for the other, so one after the other they would not end well."""
    meet = threading.Barrier(2)
    seen = set[str]()

    def before(address: str) -> None:
        if address not in seen:
            seen.add(address)
            meet.wait(TOGETHER_S)

    said = sweeping.Said()
    made = supplies(Workers(before), kernel, said)
    made.ask("tcp://one:1", ("kernel",), "a")
    made.ask("tcp://two:1", ("kernel",), "b")
    assert len(made) == 2
    assert all_over(made) == ["a", "b"]
    assert worker.place(asdict(lacking(kernel))) == str(worker.kept(kernel.digest))


def test_a_machine_is_supplied_once(kernel: artifacts.Artifact) -> None:
    """What its other workers wait for is on its way."""
    go = threading.Event()

    asked = list[str]()

    def before(address: str) -> None:
        asked.append(address)
        go.wait(TOGETHER_S)

    said = sweeping.Said()
    made = supplies(Workers(before), kernel, said)
    made.ask("tcp://one:1", ("kernel",), "a")
    made.ask("tcp://one:2", ("kernel",), "b")
    time.sleep(0.2)
    assert made.over() == [] and asked == ["tcp://one:1"]
    go.set()
    assert all_over(made) == ["a", "b"]
    assert said.lines == ["sending kernel, 0.0 MB, to tcp://one:1"]
    again = supplies(Workers(), kernel, said)
    again.ask("tcp://one:2", ("kernel",), "c")
    assert all_over(again) == ["c"] and len(said.lines) == 1


def test_a_worker_that_went_away(kernel: artifacts.Artifact) -> None:
    """What waited for it is made elsewhere; with the scheduler lost all ends."""
    def gone(address: str) -> None:
        raise OSError(address)

    made = supplies(Workers(gone), kernel, sweeping.Said())
    made.ask("tcp://one:1", ("kernel",), "a")
    assert all_over(made) == ["a"]

    def lost() -> None:
        raise LabError("the scheduler is lost")

    made = supplies(Workers(gone), kernel, sweeping.Said(), lost)
    made.ask("tcp://one:1", ("kernel",), "a")
    with pytest.raises(LabError, match="the scheduler is lost"):
        all_over(made)


def test_what_arrives_damaged_ends_it(kernel: artifacts.Artifact) -> None:
    Path(kernel.path).write_bytes(b"another one")
    made = supplies(Workers(), kernel, sweeping.Said())
    made.ask("tcp://one:1", ("kernel",), "a")
    with pytest.raises(LabError, match="it arrived damaged"):
        all_over(made)


def test_two_machines_with_one_cache(kernel: artifacts.Artifact,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one finds the artifact there, and leaves nothing of its own."""
    pieces = b"".join(artifacts.stream({worker.INSIDE: Path(kernel.path)}))

    def receive(host: str, first: int, end: int) -> str:
        monkeypatch.setattr(socket, "gethostname", partial(str, host))
        return worker.receive(asdict(kernel), pieces[first:end], first, end == len(pieces))

    assert receive("one", 0, 1000) == receive("two", 0, len(pieces)) == ""
    assert receive("one", 1000, len(pieces)) == ""
    assert worker.kept(kernel.digest).read_bytes() == bytes(5000)
    assert not [*(worker.cache() / "tmp").iterdir()]


def test_functions_travel_by_value_from_several_threads() -> None:
    """cloudpickle's list of modules is one for all threads, as are its changes."""
    def travels(_number: int) -> bool:
        return b"hashlib" in pickle.dumps(ByValue(worker.receive))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(travels, range(400)))
