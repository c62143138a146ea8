# SPDX-License-Identifier: GPL-2.0-only
"""Artifacts on their way to workers: several machines at a time, a machine one after the other."""

import errno
import os
import pickle
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from distributed import Client

from lab.core.errors import LabError
from lab.core.progress import Silent
from lab.sweep import artifacts, execute, grid, supply, worker
from lab.sweep.byvalue import ByValue
from lab.sweep.model import Unit
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


def full(*_arguments: object) -> str:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def supplies(client: Workers, kernel: artifacts.Artifact, said: sweeping.Said,
             check: Callable[[], None] = lambda: None) -> supply.Supplies[str]:
    return supply.Supplies(cast(Client, client), [lacking(kernel)], said, check)


def all_over(made: supply.Supplies[str]) -> list[tuple[str, bool]]:
    found = list[tuple[str, bool]]()
    until = time.monotonic() + 2 * TOGETHER_S
    while made and time.monotonic() < until:
        found += made.over()
        time.sleep(0.01)
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
    assert made.ready(["tcp://one:2", "tcp://three:1", "tcp://two:1"]) == ["tcp://three:1"]
    assert all_over(made) == [("a", True), ("b", True)]
    assert made.ready(["tcp://one:2", "tcp://two:1"]) == ["tcp://one:2", "tcp://two:1"]
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
    made.ask("tcp://one:1", ("kernel",), "c")
    time.sleep(0.2)
    assert made.over() == [] and asked == ["tcp://one:1"]
    go.set()
    assert all_over(made) == [("a", True), ("b", True), ("c", True)]
    assert said.lines == ["sending kernel, 0.0 MB, to tcp://one:1"]
    again = supplies(Workers(), kernel, said)
    for good in (True, False):  # what it has got is said to be lacking again
        again.ask("tcp://one:2", ("kernel",), "d")
        assert all_over(again) == [("d", good)] and len(said.lines) == 1
    again.close()


def test_each_worker_of_a_machine_may_have_a_cache(
        kernel: artifacts.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def before(address: str) -> None:
        monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path / address[-1]))

    said = sweeping.Said()
    made = supplies(Workers(before), kernel, said)
    for number in range(5):
        made.ask(f"tcp://one:{number}", ("kernel",), f"unit {number}")
    assert all_over(made) == [(f"unit {number}", True) for number in range(5)]
    for number in range(5):
        monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path / str(number)))
        assert worker.kept(kernel.digest).read_bytes() == bytes(5000)


def test_a_worker_that_went_away(kernel: artifacts.Artifact) -> None:
    """What waited for it is made elsewhere; with the scheduler lost all ends."""
    def gone(address: str) -> None:
        raise OSError(address)

    made = supplies(Workers(gone), kernel, sweeping.Said())
    made.ask("tcp://one:1", ("kernel",), "a")
    assert all_over(made) == [("a", False)] and made.ready(["tcp://one:1"])

    def lost() -> None:
        raise LabError("the scheduler is lost")

    made = supplies(Workers(gone), kernel, sweeping.Said(), lost)
    made.ask("tcp://one:1", ("kernel",), "a")
    with pytest.raises(LabError, match="the scheduler is lost"):
        all_over(made)


def test_a_worker_that_cannot_keep_what_it_gets(
        kernel: artifacts.Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets no more, and the user is told why, once."""
    said = sweeping.Said()
    made = supplies(Workers(), kernel, said)
    monkeypatch.setattr(socket, "gethostname", lambda: "one")
    monkeypatch.setattr(worker, "receive", full)
    made.ask("tcp://one:1", ("kernel",), "a")
    assert all_over(made) == [("a", False)]
    assert made.ready(["tcp://one:1"]) == []
    made.possible(["tcp://one:1", "tcp://two:1"])
    with pytest.raises(LabError, match="no worker can keep what"):
        made.possible(["tcp://one:1"])
    assert said.lines == [
        "sending kernel, 0.0 MB, to tcp://one:1", "tcp://one:1 gets no units: an artifact could"
        " not be sent: one: [Errno 28] No space left on device"]


def test_what_arrives_damaged_is_refused(kernel: artifacts.Artifact) -> None:
    Path(kernel.path).write_bytes(b"another one")
    said = sweeping.Said()
    made = supplies(Workers(), kernel, said)
    made.ask("tcp://one:1", ("kernel",), "a")
    assert all_over(made) == [("a", False)] and "it arrived damaged" in said.lines[-1]


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


@dataclass
class TwoMachines(sweeping.Client):
    """Gives a unit to the second machine whenever it may; that one lacks all at first."""

    supplied: threading.Event = field(default_factory=threading.Event)
    made: Counter[str] = field(default_factory=Counter)

    def submit(self, play: Callable[..., dict[str, Any]], task: dict[str, Any],
               **options: Any) -> sweeping.Done:
        second = options["workers"] is None or "tcp://two:1" in options["workers"]
        if second and not self.supplied.is_set():
            return sweeping.Done({"lacks": ["kernel"], "worker": "tcp://two:1"})
        self.made["tcp://two:1" if second else "tcp://one:1"] += 1
        return super().submit(play, task)

    def nthreads(self) -> dict[str, int]:
        return {"tcp://one:1": 1, "tcp://two:1": 1}


def job(client: sweeping.Client, kept: list[str], failed: list[str]) -> execute.Job:
    return execute.Job(
        cast(Client, client), sweeping.play, lambda unit: {
            "unit": unit.key, "experiment": {"boots": 1}, "keys": []},
        lambda unit, _answer: kept.append(unit.key), lambda unit, why: failed.append(why),
        sweeping.Said())


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    monkeypatch.setattr(sweeping, "play", lambda task: {"runs": []})
    return grid.units(sweeping.runs(tmp_path), (), 2)


def test_units_are_made_while_a_machine_is_supplied(
        units: list[Unit], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two wait for it; it is supplied when all others are made."""
    client, kept, failed = TwoMachines(), list[str](), list[str]()

    def bring(_self: object, _address: str, _names: object) -> bool:
        until = time.monotonic() + TOGETHER_S
        while len(kept) < len(units) - 2 and time.monotonic() < until:
            time.sleep(0.01)
        client.supplied.set()
        return True

    monkeypatch.setattr(supply.Supplies, "_bring", bring)
    began = time.monotonic()
    with Silent().stage("runs") as stage:
        job(client, kept, failed).make(units, stage)
    assert time.monotonic() - began < TOGETHER_S
    assert len(kept) == len(units) > 5 and not failed
    assert client.made == {"tcp://one:1": len(units) - 2, "tcp://two:1": 2}


def test_no_worker_can_keep_anything(units: list[Unit], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all ends, and nothing counts as failed."""
    monkeypatch.setattr(execute, "LOOK_S", 0.0)
    monkeypatch.setattr(execute, "POLL_S", 0.001)

    def refused(supplies: supply.Supplies[object], address: str, _names: object) -> bool:
        supplies._useless.update(("tcp://one:1", address))
        return False

    monkeypatch.setattr(supply.Supplies, "_bring", refused)
    kept, failed = list[str](), list[str]()
    with Silent().stage("runs") as stage, pytest.raises(LabError, match="no worker can keep what"):
        job(TwoMachines(), kept, failed).make(units, stage)
    assert not kept and not failed


def test_functions_travel_by_value_from_several_threads() -> None:
    """cloudpickle's list of modules is one for all threads, as are its changes."""
    def travels(_number: int) -> bool:
        return b"hashlib" in pickle.dumps(ByValue(worker.receive))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(travels, range(400)))
