# SPDX-License-Identifier: GPL-2.0-only
"""Hosts that go on from one that was saved: when it is booted, and what is known of its guests."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.core import content, paths
from lab.core.errors import LabError
from lab.core.model import BootRecord, Experiment
from lab.core.progress import Silent
from lab.machine.control import HostLost
from lab.machine.machine import STATE, Debugger, HostSpec, Machine, Saved, host_command
from lab.machine.steer import Steer, SteerError
from lab.plan import config, machine_model
from lab.run import records, snapshot
from lab.run.fleet import Fleet
from lab.run.rounds import Runner
from lab.run.session import GUESTS, Session
from tests.lab import sessions

real = sessions.spec


@pytest.fixture
def what() -> Experiment:
    return config.experiment("demo", config.Overrides(schemes=("pvqspinlock", "ticket"), vms=(2,)))


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostSpec:
    """In virtual time; the cache is empty."""
    monkeypatch.setattr(paths, "cache_dir", lambda: tmp_path)
    program = tmp_path / "qemu"
    program.write_bytes(b"emulator")
    kernel, root = tmp_path / "kernel-a" / "bzImage", tmp_path / "image-a" / "root.erofs"
    return HostSpec("vt", 2, 64, kernel, root, root, kernel, (str(program),),
                    model=machine_model.load("zen4"), seed=7)


class FakeSession:
    """Boots at once; `reason` is why one of its guests does not."""

    reason = ""
    lost = False
    booted: list["FakeSession"]

    def __init__(self, experiment: Experiment, spec: HostSpec, number: int, out: Path,
                 record: Callable[[BootRecord], None], note: object) -> None:
        self.spec, self.out, self.record, self.aborted = spec, out, record, False
        self.booted.append(self)

    def open(self) -> None:
        if self.lost:
            raise HostLost("it ended")

    def boot_all(self) -> None:
        self.record(BootRecord(0, "a-0", "a", not self.reason, self.reason, 1.0))

    def save(self, folder: Path) -> None:
        assert folder == self.out and not self.aborted
        (folder / STATE).write_bytes(b"state")

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def booted(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    monkeypatch.setattr(FakeSession, "booted", [], raising=False)
    monkeypatch.setattr(snapshot, "Session", FakeSession)
    return FakeSession.booted


def start(what: Experiment, spec: HostSpec, seed: int = 1) -> HostSpec:
    return snapshot.start_from(what, spec, seed, lambda text: None, Silent())


def test_it_is_booted_once(what: Experiment, spec: HostSpec, booted: list[FakeSession]) -> None:
    first, second = start(what, spec), start(what, replace(spec, seed=8))
    assert first.saved == second.saved and first.saved is not None
    assert (first.seed, second.seed, first.saved.seed) == (7, 8, 1)
    assert (first.saved.folder / STATE).read_bytes() == b"state"
    (one,) = booted
    assert one.aborted and one.spec == replace(spec, seed=1)
    assert start(what, spec, 2).saved != first.saved and len(booted) == 2


def test_a_boot_that_nobody_loads_goes_after_two_hours(
        what: Experiment, spec: HostSpec, booted: list[FakeSession]) -> None:
    """When another one is made, but for the last two."""
    now, folders = time.time(), []
    for seed, hours in ((1, 2.1), (2, 1.9), (3, 0.2), (4, 0.1)):
        saved = start(what, spec, seed).saved
        assert saved
        os.utime(saved.folder, (now, now - hours * 3600))
        folders.append(saved.folder)
    start(what, spec, 5)
    assert [folder.is_dir() for folder in folders] == [False, True, True, True]


def test_what_the_boot_depends_on(what: Experiment, spec: HostSpec, tmp_path: Path) -> None:
    scheme, other = what.schemes
    names = {snapshot.digest(what, spec)}
    for changed in (replace(spec, seed=8), replace(spec, pcpus=3), replace(spec, args=("quiet",)),
                    replace(spec, guest_kernel=tmp_path / "kernel-b" / "bzImage")):
        names.add(snapshot.digest(what, changed))
    for experiment in (replace(what, vms=(3,)), replace(what, pin=True),
                       replace(what, schemes=(replace(scheme, guest=("x",)), other))):
        names.add(snapshot.digest(experiment, spec))
    (tmp_path / "qemu").write_bytes(b"another")
    names.add(snapshot.digest(what, spec))
    assert len(names) == 9
    (tmp_path / "qemu").write_bytes(b"emulator")
    same = replace(what, schemes=(replace(scheme, host={"mark": "exit"}), other))
    assert snapshot.digest(same, spec) == snapshot.digest(what, spec)


@pytest.mark.parametrize(("changes", "reason"), [
    ({"lost": True}, "it ended"), ({"reason": "guest a-0 says: BUG"}, "guest a-0 says: BUG")])
def test_a_boot_that_fails_is_not_kept(
    what: Experiment, spec: HostSpec, booted: list[FakeSession], monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object], reason: str,
) -> None:
    for name, value in changes.items():
        monkeypatch.setattr(FakeSession, name, value)
    with pytest.raises(LabError, match=f"failed with seed 1: {reason}; give another --seed"):
        start(what, spec)
    assert booted[0].aborted
    assert content.lookup(snapshot.KIND, snapshot.digest(what, replace(spec, seed=1))) is None


def test_the_user_can_end_it(what: Experiment, spec: HostSpec, booted: list[FakeSession],
                             monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: FakeSession) -> None:
        raise KeyboardInterrupt
    monkeypatch.setattr(FakeSession, "boot_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        start(what, spec)
    assert booted[0].aborted
    assert content.lookup(snapshot.KIND, snapshot.digest(what, replace(spec, seed=1))) is None


def test_a_host_that_cannot_be_loaded_is_lost(spec: HostSpec, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """One try, not the command; and it is said what to do."""
    def refuse(self: Steer, file: Path) -> None:
        raise SteerError(f"QEMU's migrate-incoming with {file} failed: damaged")
    monkeypatch.setattr(Steer, "load", refuse)
    monkeypatch.setattr(Steer, "__init__",
                        lambda self, monitor: setattr(self, "_talks", threading.Lock()))
    monkeypatch.setattr(Machine, "_steer", lambda self, limit: Steer(tmp_path))
    monkeypatch.setattr(Machine, "_connect", lambda self, limit: socket.socketpair()[0])
    monkeypatch.setattr(Machine, "command", lambda self: ["true"])
    folder = tmp_path / "saved"
    machine = Machine(replace(spec, saved=Saved(folder, 1)), tmp_path / "logs")
    try:
        with pytest.raises(HostLost, match=f"damaged; remove {folder} to boot it anew"):
            machine.start(5)
    finally:
        machine.stop(polite=False)


def test_qemu_waits_for_what_is_loaded(what: Experiment, spec: HostSpec, tmp_path: Path,
                                       booted: list[FakeSession]) -> None:
    """A debugger gets its first stop at a round's end: the clock is not 0."""
    saved = start(what, replace(spec, debug=Debugger(77)))
    argv = host_command(saved, tmp_path, tmp_path)
    assert argv[argv.index("-incoming") + 1] == "defer" and "-S" not in argv
    assert argv[argv.index("-icount") + 1].endswith(",seed=7,stop=1")
    assert "virtio-serial-pci,ioeventfd=off" in argv
    plain = host_command(spec, tmp_path, tmp_path)
    assert "-incoming" not in plain and "virtio-serial-pci" in plain


def test_guests_are_taken_over(what: Experiment, spec: HostSpec, tmp_path: Path,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were up, with what hostd said of them; no other one is booted."""
    folder = tmp_path / "saved"
    folder.mkdir()
    known = [{"label": "ticket", "index": 1, "seconds": 2.5, "folder": "/debug/kvm/7-8"},
             {"label": "pvqspinlock", "index": 0, "seconds": 3.5, "folder": ""}]
    (folder / GUESTS).write_text(json.dumps(known))
    monkeypatch.setattr(Machine, "start", lambda self, limit: {"kvm": True, "cgroups": True})
    monkeypatch.setattr(Fleet, "bring_kernels", lambda self: pytest.fail("they are there"))
    session = Session(what, replace(spec, saved=Saved(folder, 1)), 0, tmp_path,
                      lambda record: None, print)
    os.utime(folder, (1, 1))
    session.open()
    assert folder.stat().st_mtime > 1, "it is in use"
    session.boot_all()
    live = session.fleet.live
    assert list(live) == ["ticket-1", "pvqspinlock-0"]
    assert (live["ticket-1"].seconds, live["ticket-1"].folder) == (2.5, "/debug/kvm/7-8")
    assert live["ticket-1"].spec.args == what.schemes[1].boot_args(1)
    assert session.fleet.known() == known
    session.abort()


def test_each_host_has_its_own_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                    real: HostSpec) -> None:
    """The boot is made once, before any lane begins, and its seed is in the records."""
    (tmp_path / GUESTS).write_text("[]")
    boots, seeds = list[tuple[int, int]](), set[int]()

    def start(experiment: Experiment, host: HostSpec, seed: int, *_: object) -> HostSpec:
        assert threading.current_thread() is threading.main_thread()
        boots.append((host.seed, seed))
        return replace(host, saved=Saved(tmp_path, seed))

    class Seen(Session):
        def __init__(self, what: Experiment, spec: HostSpec, *rest: Any) -> None:
            seeds.add(spec.seed)
            super().__init__(what, spec, *rest)
    monkeypatch.setattr(snapshot, "start_from", start)
    monkeypatch.setattr("lab.run.rounds.Session", Seen)
    out = tmp_path / "out"
    out.mkdir()
    plan = replace(sessions.experiment(vms=(1,), repeats=5), boots=2)
    assert Runner(plan, out, replace(real, seed=3), 1, Silent(), jobs=2, snapshot=True).run()
    assert boots == [(3, 3_000_000)] and seeds >= {3_000_000, 3_001_000}
    assert {run.snapshot for run in records.runs(out)} == {3_000_000}
