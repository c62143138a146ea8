# SPDX-License-Identifier: GPL-2.0-only
"""Playing a run again: which runs come before it, and what is said of a difference."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.build.images import PLACEHOLDERS
from lab.core.errors import UsageError
from lab.core.model import GuestRun, Manifest, RunRecord
from lab.core.progress import Silent
from lab.machine import pace, qemu_trace, tsc, vmcb
from lab.machine.control import HostLost
from lab.machine.machine import Debugger, HostSpec, host_command
from lab.observe.vcpu_trace import Window
from lab.plan import machine_model, schedule
from lab.plan.schedule import PlannedRun
from lab.report import traced
from lab.run import replay
from tests.lab.synthetic import Synthetic

RUNS = [RunRecord(f"b{boot}-r0-hackbench-v1-{scheme}-a0", number, 0, 0, scheme, "hackbench", 1,
                  2, 2, not reason, reason, (), 1.0, seed=seed)
        for boot, number, scheme, seed, reason in (
            (0, 0, "ticket", 11, ""), (1, 1, "pmt", 12, ""), (0, 0, "pmt", 11, "bad"),
            (0, 0, "tas", None, "not tried"), (0, 0, "pvqspinlock", 11, ""))]


def directory(tmp_path: Path, **changes: object) -> Path:
    made = Synthetic(schemes=("pvqspinlock", "ticket", "pmt", "tas"), reps=1, boots=2, vms=(1,))
    made.write(tmp_path)
    begun = replace(made.manifest(), **{"backend": "vt", "machine": "zen4", **changes})  # type: ignore[arg-type]
    (tmp_path / "manifest.json").write_text(json.dumps(asdict(begun)))
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(asdict(run)) + "\n" for run in RUNS))
    return tmp_path


def test_what_a_boot_did_before(tmp_path: Path) -> None:
    part = replay.part(directory(tmp_path, variant="test", share=("pmt",)), RUNS[4].id)
    assert (part.boot, part.seed) == (0, 11)
    assert part.runs == (RUNS[0], RUNS[2], RUNS[4])
    assert part.experiment.variant == "test" and part.experiment.share == ("pmt",)
    assert (part.experiment.name, part.experiment.pcpus) == ("synthetic", 2)
    assert schedule.planned(RUNS[1]) == PlannedRun(1, 0, "pmt", "hackbench", 1)
    assert schedule.planned(RUNS[1]).run_id(0) == RUNS[1].id
    assert replay.new_folder(tmp_path, "x") == tmp_path / "replays/x-1"
    (tmp_path / "replays/x-1").mkdir(parents=True)
    assert replay.new_folder(tmp_path, "x") == tmp_path / "replays/x-2"


@pytest.mark.parametrize(("changes", "run", "message"), [
    ({"backend": "tcg"}, RUNS[0].id, "not made in virtual time"),
    ({}, RUNS[0].id[:-1], f"did you mean '{RUNS[0].id}'"),
    ({}, RUNS[3].id, "was not begun, so that it has no seed: not tried"),
])
def test_what_cannot_be_played_again(tmp_path: Path, changes: dict[str, object], run: str,
                                     message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replay.part(directory(tmp_path, **changes), run)


class FakeSession:
    """Says of each run what it is told to."""

    said: Callable[[PlannedRun], RunRecord]
    output = b"Time: 1\n"

    def __init__(self, experiment: object, spec: HostSpec, number: int, out: Path,
                 record: object, note: object) -> None:
        assert (spec.seed, spec.backend, number) == (11, "vt", 0)
        self.out = out
        self.aborted = False

    def open(self) -> None:
        (self.out / "boots/0").mkdir(parents=True)
        (self.out / "boots/0/host-console.log").write_bytes(b"[0.1] up\n")
        (self.out / "boots/0/host-control.log").write_bytes(b"real time")

    def boot_all(self) -> None:
        pass

    def run(self, planned: PlannedRun, attempt: int) -> RunRecord:
        made = type(self).said(planned)
        folder = self.out / "raw" / made.id
        folder.mkdir(parents=True)
        (folder / "g.out").write_bytes(self.output)
        return made

    def abort(self) -> None:
        self.aborted = True


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
           said: Callable[[PlannedRun], RunRecord], events: str = "") -> replay.Outcome:
    where = directory(tmp_path / "dir")
    for run in (RUNS[0], RUNS[2], RUNS[4]):
        (where / "raw" / run.id).mkdir()
        (where / "raw" / run.id / "g.out").write_bytes(b"Time: 1\n")
    (where / "boots/0").mkdir(parents=True)
    (where / "boots/0/host-console.log").write_bytes(b"[0.1] up\n[9.9] goes on\n")
    monkeypatch.setattr(FakeSession, "said", staticmethod(said), raising=False)
    monkeypatch.setattr(replay, "Session", FakeSession)
    part = replay.part(where, RUNS[4].id)
    return replay.run(where, part, PLACEHOLDERS, tmp_path / "out", Silent(), events=events)


def again(planned: PlannedRun) -> RunRecord:
    return replace(next(run for run in RUNS if run.id == planned.run_id(0)), stalled=0.5)


def test_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = played(tmp_path, monkeypatch, again)
    assert outcome.same and (outcome.files, outcome.bytes) == (4, 3 * 8 + 9)
    first, then, same = outcome.lines()
    assert first.startswith(f"{RUNS[4].id}: boot 0, seed 11, 3 runs, ")
    assert (then, same) == ("The run was valid.", "The same bytes: 4 files, 33 bytes.")


def test_a_run_of_a_saved_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host goes on from the same boot."""
    asked = list[int]()

    def start(experiment: object, spec: HostSpec, seed: int, *_: object) -> HostSpec:
        asked.append(seed)
        return spec
    monkeypatch.setattr("lab.run.snapshot.start_from", start)
    assert played(tmp_path / "a", monkeypatch, again).same and not asked
    monkeypatch.setattr(sys.modules[__name__], "RUNS", [replace(run, snapshot=9) for run in RUNS])
    assert played(tmp_path / "b", monkeypatch, again).same and asked == [9]


def test_another_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSession, "output", b"Time: 2\n")
    outcome = played(tmp_path, monkeypatch, again)
    assert not outcome.same and str(outcome.difference) == (
        f"raw/{RUNS[2].id}/g.out, line 1: then 'Time: 1', now 'Time: 2'")


def test_another_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = played(tmp_path, monkeypatch, lambda one: replace(again(one), valid=False,
                                                                reason="hung"))
    assert str(outcome.difference) == f"{RUNS[0].id}, valid: then 'True', now 'False'"
    assert outcome.lines()[1] == "The run was valid. Now it is invalid: hung."


def test_a_lost_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(planned: PlannedRun) -> RunRecord:
        if planned.scheme == "pmt":
            raise HostLost("the host ended")
        return again(planned)
    outcome = played(tmp_path, monkeypatch, lost)
    assert str(outcome.difference) == f"{RUNS[2].id}, reason: then 'bad', now 'the host ended'"


def test_consoles_go_on_after_a_replay_only(tmp_path: Path) -> None:
    then, now = tmp_path / "then-console.log", tmp_path / "console.log"
    then.write_bytes(b"a\nb\nc\n")
    for text, line in ((b"a\nb", ""), (b"a\nx\n", "line 2: then 'b', now 'x'"),
                       (b"a\nb\nc\nd\n", "line 4: then '', now 'd'")):
        now.write_bytes(text)
        found = replay.in_files(then, now, "console")
        assert ("" if found is None else str(found)) == (f"console, {line}" if line else "")
    assert "no file" in str(replay.in_files(tmp_path / "none", now, "console"))


def test_a_debugger_is_waited_for(tmp_path: Path) -> None:
    nothing = Path("/dev/null")
    spec = HostSpec("vt", 2, 64, nothing, nothing, nothing, nothing, ("qemu",),
                    model=machine_model.load("zen4"), seed=5)
    plain = host_command(spec, tmp_path, tmp_path)
    stopped = host_command(replace(spec, debug=Debugger(77)), tmp_path, tmp_path)
    assert [word for word in stopped if word not in plain] == ["-gdb", "tcp:127.0.0.1:77", "-S"]
    late = host_command(replace(spec, debug=Debugger(77, 1.25)), tmp_path, tmp_path)
    assert "-S" not in late and late[late.index("-icount") + 1].endswith(",seed=5,stop=1250000000")
    assert pace.wall(spec) < pace.wall(replace(spec, debug=Debugger(77)))


def test_trace_is_counted_by_vcpu(tmp_path: Path) -> None:
    assert qemu_trace.table(tmp_path) == []
    (tmp_path / qemu_trace.FILE).write_text(
        "Guest crashedsvm_vmexit cpu 0 ns 50 vmcb 0x1000 code 0x60 info 0x0 rip 0x1\n"
        "svm_vmrun cpu 0 ns 100 vmcb 0x1000 asid 1 rip 0xffff\n"
        "CPU Reset (CPU 0)\n"
        "svm_vmrun cpu 1 ns 100 vmcb 0x2000 asid 2 rip 0xffff\n"
        "svm_vmexit cpu 0 ns 2000100 vmcb 0x1000 code 0x77 info 0x0 rip 0x2\n"
        "svm_vmrun cpu 1 ns 3000100 vmcb 0x1000 asid 1 rip 0x2\n"
        "svm_vmexit cpu 1 ns 3500100 vmcb 0x1000 code 0x77 info 0x0 rip 0x2\n")
    assert qemu_trace.table(tmp_path) == [
        "vmcb 0x1000: 2.500 ms inside, on 2 CPUs; exits: PAUSE 2, interrupt 1",
        "vmcb 0x2000: 0.000 ms inside, on 1 CPU; exits: none"]
    assert [qemu_trace.name(code) for code in (0x4e, 0x10, 0x400, 0x99)] == [
        "exception 14", "control register", "page", "0x99"]


def test_what_is_kept_of_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of the run that was asked for, with the names of its vCPUs; then their timeline."""
    calls = list[str]()

    def begin(machine: object, out: Path, events: str) -> None:
        calls.append(events)
        (out / qemu_trace.FILE).write_text(
            "svm_vmrun cpu 0 ns 100 vmcb 0x1000 asid 1 rip 0xffff\n"
            "svm_vmexit cpu 0 ns 90100 vmcb 0x1000 code 0x77 info 0x0 rip 0x2\n"
            "svm_vmrun cpu 1 ns 190100 vmcb 0x1000 asid 1 rip 0xffff\n")

    live = SimpleNamespace(folder="/debug/kvm/7-8")
    monkeypatch.setattr(FakeSession, "fleet", SimpleNamespace(live={"pvqspinlock-0": live}),
                        raising=False)
    monkeypatch.setattr(FakeSession, "machine", SimpleNamespace(control=None), raising=False)
    monkeypatch.setattr(FakeSession, "experiment", SimpleNamespace(vcpus=1), raising=False)
    monkeypatch.setattr(qemu_trace, "begin", begin)
    monkeypatch.setattr(qemu_trace, "end", lambda machine, events: calls.append("end"))
    monkeypatch.setattr(vmcb, "blocks", lambda machine, found: [
        vmcb.Block(one, -5, vmcb.KERNEL) for one in found])
    monkeypatch.setattr(vmcb, "offsets", lambda control, folder, count: [-5] * count)
    monkeypatch.setattr(tsc, "ahead_ns", lambda control: -40_000)
    outcome = played(tmp_path, monkeypatch, again, events="svm_*")
    assert outcome.same and calls == ["svm_*", "end"]
    part = outcome.part
    assert part.symbols(PLACEHOLDERS) == PLACEHOLDERS.guest_kernel.parent / "System.map"
    line = traced.load(tmp_path / "out", part.runs[-1].id, part.facts, None)
    assert line is not None and line.names == vmcb.Names(
        (vmcb.Vcpu("0x1000", "pvqspinlock-0", 0),), vmcb.CERTAIN, -40_000)
    assert dict(line.facts)["guests"] == "1 VM of 2 vCPUs on 2 CPUs"
    assert (line.window.lost_ns, line.full.ns) == (100_000, 190_000)
    guests = (GuestRun("pvqspinlock-0", 0.000_080, 0.000_170, 1.0, 0, ""),)
    line = traced.load(tmp_path / "out", part.runs[-1].id, part.facts, None, guests)
    assert line is not None and line.measured == {"pvqspinlock-0": Window(40_000, 130_000)}
    assert (line.window, line.waits.measured) == (Window(40_000, 130_000, 39_900), True)
    (spent,) = line.waits.vms
    assert spent.causes["other"] == 90_000 and spent.places["other"] == {
        "0x2, spins": 50_100, "0x2, yielded in a spin": 39_900}


def test_an_old_manifest_is_of_the_usual_kernel() -> None:
    assert Manifest.variant == "lab" and Manifest.host_variant == ""
