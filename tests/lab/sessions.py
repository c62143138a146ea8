# SPDX-License-Identifier: GPL-2.0-only
"""Sessions with real hostd and machines that are fakes: what their tests share."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.core.errors import LabError
from lab.core.model import Experiment, Scheme, Workload
from lab.core.progress import Silent
from lab.machine.control import Answer, Control
from lab.machine.machine import HostSpec, Machine
from lab.observe import observed
from lab.run.rounds import Runner

FAKE = Path(__file__).parent / "fake" / "qemu.py"


def experiment(command: str = "echo Time: 1.5; sleep 0.3", *, timeout: float = 20, reps: int = 1,
               vms: tuple[int, ...] = (2,), repeats: int = 1, setup: str = "",
               **schemes: str) -> Experiment:
    """Schemes by name; the value is the fake's mode, "" for a good guest."""
    chosen = tuple(Scheme(name, "", (f"fake={mode}",) if mode else (), label=name)
                   for name, mode in (schemes or {"good": ""}).items())
    work = Workload("echo", "", command, "time", "s", "lower", r"Time: (?P<value>\S+)", timeout,
                    setup=setup)
    return Experiment("t", "", chosen, (work,), vms, 2, 2, reps, 1, max_repeats=repeats)


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> HostSpec:
    """The backend `local` on fakes; they need no KVM."""
    hello = Machine.start

    def start(self: Machine, timeout: float = 0) -> dict[str, object]:
        return {**hello(self, 20), "kvm": True, "cgroups": False}
    monkeypatch.setattr(Machine, "start", start)
    monkeypatch.setattr("lab.run.fleet.BOOT_LIMIT", 60.0)
    monkeypatch.setattr("lab.run.fleet.VCPU_LIMIT", 0.0)
    nothing = Path("/dev/null")
    return HostSpec("local", 2, 64, nothing, nothing, nothing, nothing,
                    (sys.executable, str(FAKE)))


def go(what: Experiment, spec: HostSpec, out: Path, jobs: int = 1) -> bool:
    out.mkdir(exist_ok=True)
    return Runner(what, out, spec, 1, Silent(), jobs).run()


def fail(monkeypatch: pytest.MonkeyPatch, op: str, errors: Iterable[LabError]) -> None:
    """Have the host answer the next operations of this kind so, as long as there are errors."""
    call, left = Control.call, iter(errors)

    def answer(self: Control, asked: str, **arguments: Any) -> Answer:
        if asked == op and (error := next(left, None)):
            raise error
        return call(self, asked, **arguments)
    monkeypatch.setattr(Control, "call", answer)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the counters, which the fake guests and their host share."""
    folder = tmp_path / "debugfs"
    folder.mkdir()
    (folder / "lock_stat").write_text("0\n")
    (folder / "tlb_stat").write_text("0\n")
    (folder / "counters").write_text("lock_contended 5\n")
    (folder / "lock_waits").write_text("9 1 300\n")
    monkeypatch.setattr(observed, "DEBUGFS", str(folder))
    monkeypatch.setattr(observed, "CGROUPS", str(folder))
    return folder


def counting(folder: Path, **schemes: Any) -> Experiment:
    """Each run of it counts on."""
    command = f"echo lock_contended 7 >{folder}/counters; echo Time: 1; sleep 0.2"
    return replace(experiment(command, repeats=5, **schemes), observe=True)


def requests(out: Path) -> list[str]:
    """What the host was asked to do in its first boot: operation, or the tag of a command."""
    lines = (out / "boots/0/host-control.log").read_text().splitlines()
    bodies = [json.loads(line.split(" > ", 1)[1]) for line in lines if " > " in line]
    return [body.get("tag", body["op"]) if body["op"] == "guest_exec" else body["op"]
            for body in bodies]
