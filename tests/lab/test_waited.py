# SPDX-License-Identifier: GPL-2.0-only
"""Runs that are traced, and what the report says of what their vCPUs waited for."""

import base64
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lab.build.images import PLACEHOLDERS
from lab.core.cells import Spent, Waits
from lab.core.errors import LabError, UsageError
from lab.core.model import GuestRun
from lab.core.progress import Silent
from lab.machine import qemu_trace, tsc, vmcb
from lab.machine.control import Answer, Control
from lab.machine.machine import HostSpec, Machine
from lab.machine.vmcb import Block, Names, Vcpu
from lab.report import markdown, published, report, table, timeline, traced, waited
from lab.report.summary import load, summarize
from lab.run import records, runner
from lab.run.rounds import Runner
from tests.lab import sessions
from tests.lab.synthetic import Synthetic
from tests.lab.test_vcpu_trace import HALT, PAUSE, entry, leave

spec = sessions.spec


def trace(path: Path) -> None:
    """Of two vCPUs: one sleeps from 1 to 9 ms, one yields in a spin in a function of no row."""
    path.write_text(entry("0xa000", 0, 0) + entry("0xb000", 1, 0)
                    + leave("0xa000", 0, 1_000_000, HALT) + leave("0xb000", 1, 1_000_000, PAUSE)
                    + entry("0xa000", 0, 9_000_000) + entry("0xb000", 1, 9_000_000)
                    + leave("0xa000", 0, 10_000_000, HALT))


# Making traces


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An emulator that traces; what was done, in order."""
    done = list[str]()

    def begin(machine: Machine, folder: Path, events: str) -> None:
        done.append(f"begin {folder.name} {events}")
        trace(folder / qemu_trace.FILE)

    def ask(control: Control) -> int:
        done.append("ask")
        return 5

    monkeypatch.setattr(qemu_trace, "begin", begin)
    monkeypatch.setattr(qemu_trace, "end", lambda machine, events: done.append("end"))
    monkeypatch.setattr(vmcb, "blocks", lambda machine, found: [
        Block(one, -number, None) for number, one in enumerate(found)])
    monkeypatch.setattr(vmcb, "offsets", lambda control, folder, count: [0])
    monkeypatch.setattr(tsc, "ahead_ns", ask)
    return done


def played(spec: HostSpec, out: Path) -> None:
    """Two runs of one boot, with their traces."""
    what = sessions.experiment(reps=2, good="")
    assert Runner(what, out, spec, 1, Silent(), traces=out / records.TRACES).run()


def test_the_host_is_asked_when_all_runs_are_over(
    spec: HostSpec, tmp_path: Path, emulator: list[str],
) -> None:
    played(spec, tmp_path)
    runs = ("b0-r0-echo-v2-good-a0", "b0-r1-echo-v2-good-a0")
    assert emulator == [f"begin {runs[0]} svm_*", "end", f"begin {runs[1]} svm_*", "end", "ask"]
    for run in runs:
        names = vmcb.read(tmp_path / records.TRACES / run, ["0xa000", "0xb000"])
        assert names.ahead_ns == 5 and len(names.vcpus) == 2


def test_a_host_that_does_not_tell(spec: HostSpec, tmp_path: Path, emulator: list[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs count; the vCPUs of a VM are known by their TSC offset alone, and no time is."""
    def ask(control: Control) -> int:
        raise LabError("no")
    monkeypatch.setattr(tsc, "ahead_ns", ask)
    played(spec, tmp_path)
    folder = tmp_path / records.TRACES / "b0-r0-echo-v2-good-a0"
    names = vmcb.read(folder, ["0xa000"])
    assert names.ahead_ns is None and [one.vm for one in names.vcpus] == ["VM a", "VM b"]


def test_real_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.machine.backend.choose", lambda backend: backend)
    what = sessions.experiment()
    runner.check(what, "vt", trace=True)
    with pytest.raises(UsageError, match="--trace is of virtual time: say --backend vt"):
        runner.check(what, "tcg", trace=True)


def control(said: bytes) -> Control:
    class Told:
        def call(self, op: str, **arguments: Any) -> Answer:
            assert op == "exec" and arguments["argv"][:2] == ["python3", "-c"]
            return {"out": base64.b64encode(said).decode()}
    return Told()  # type: ignore[return-value]


def test_how_far_the_trace_is_ahead() -> None:
    """By the reading that was disturbed least."""
    assert tsc.ahead_ns(control(b"100 900 300\n400 1010 410\n500 9 900\n")) == 605
    for said in (b"", b"Traceback\n", b"1 2\n", b"1 2 x\n"):
        with pytest.raises(LabError, match="does not say its time"):
            tsc.ahead_ns(control(said))


# What becomes of them


NAMES = Names((Vcpu("0xa000", "g0", 0), Vcpu("0xb000", "g1", 0)), vmcb.CERTAIN, -1_000_000_000)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two schemes with two runs each in virtual time, all of which have a trace."""
    made = Synthetic(schemes=("pvqspinlock", "pmt"), vms=(2,), reps=1, boots=2,
                     value=lambda *_: 0.01)
    made.write(tmp_path)
    begun = replace(made.manifest(), backend="vt", machine="zen4")
    (tmp_path / "manifest.json").write_text(json.dumps(asdict(begun)))
    runs = [replace(one, seed=7) for one in records.runs(tmp_path)]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(asdict(one)) + "\n" for one in runs))
    for one in runs:
        folder = tmp_path / records.TRACES / one.id
        folder.mkdir(parents=True)
        trace(folder / qemu_trace.FILE)
        vmcb.write(folder, NAMES)
    return tmp_path


def test_the_first_run_of_a_cell_has_a_page(results: Path) -> None:
    pages = traced.make_all(results, PLACEHOLDERS, Silent())
    assert [page.relative_to(results / records.TRACES) for page in pages] == [
        Path(f"b0-{name}-2-r0") / timeline.PAGE for name in ("pvqspinlock", "pmt")]
    assert not list(results.rglob(qemu_trace.FILE))
    assert len(list(results.rglob(waited.FILE))) == 4
    assert traced.make_all(results, PLACEHOLDERS, Silent()) == pages


def test_tables(results: Path) -> None:
    """One of two vCPUs sleeps for 8 ms of 10, the other one yields: by no row, as no symbols."""
    traced.make_all(results, PLACEHOLDERS, Silent(), page=False)
    assert not list(results.rglob(timeline.PAGE))
    summary = summarize(load(results))
    (waits,) = summary.cell("pmt", "hackbench", 2).waits
    assert (waits.vms, waits.runs) == ("all", 2)
    assert {cause: share for cause, share in waits.causes.items() if share} == pytest.approx(
        {"runs": 15, "idle": 40, "other": 45})
    assert sum(waits.causes.values()) == pytest.approx(100)
    report.make(results)
    for text in ((results / "table.txt").read_text(), (results / report.PAGE).read_text(),
                 markdown.document(summary), published.block("x", published.trimmed(summary))):
        assert "hackbench: what vCPUs did and waited for (% of their time)" in text
        assert "In the measured time of 2 traced runs a cell." in " ".join(text.split())
    lines = table.as_text(summary).splitlines()
    assert max(map(len, lines)) <= 160
    assert any(line.split()[:4] == ["pmt", "2", "15.0", "0.0"] for line in lines)
    assert '"waits": [' in (results / "summary.json").read_text()


def test_without_traces_nothing_is_said(tmp_path: Path) -> None:
    summary = summarize(load(Synthetic().write(tmp_path)))
    assert "waited for" not in table.as_text(summary)


def test_whose_time_is_known(results: Path) -> None:
    """The whole trace where the clock is not known: no run of the table, but on its page."""
    runs = records.runs(results)
    folder = results / records.TRACES / runs[0].id
    line = traced.load(folder, "", (), None, runs[0].guests)
    assert line is not None and [one.window_ns for one in line.waits.vms] == [10_000_000] * 2
    vmcb.write(folder, replace(NAMES, ahead_ns=None))
    line = traced.load(folder, "", (), None, runs[0].guests)
    assert line is not None and not line.waits.measured
    assert "whole trace, as its measured part is not known" in timeline.waits(line).caption
    assert waited.of_runs([line.waits], ("all",)) == ()
    vmcb.write(folder, replace(NAMES, ahead_ns=10**12))  # of another boot: nothing lies in it
    line = traced.load(folder, "", (), None, runs[0].guests)
    assert line is not None and not line.waits.measured


def test_a_vm_that_the_record_does_not_name() -> None:
    names = replace(NAMES, vcpus=(*NAMES.vcpus, Vcpu("0xc000", "VM a", 0)))
    assert traced.measured(names, ()) == {}
    made = traced.measured(names, [GuestRun(f"g{number}", 1.0 + number, 2.0 + number, 1.0, 0, "")
                                   for number in range(2)])
    assert [(one.begin, one.end) for one in made.values()] == [
        (0, 10**9), (10**9, 2 * 10**9), (0, 2 * 10**9)]


def test_the_first_vm_and_the_others() -> None:
    """Where they are not alike: by the number at the end of a VM's name."""
    def one(vm: str, idle: int) -> Spent:
        return Spent(vm, 2, 100, {"idle": idle, "runs": 200 - idle}, {})
    kept = waited.Kept("", True, (one("a-0", 20), one("a-1", 40), one("a-10", 80)))
    made = waited.of_runs([kept, kept], ("all", "first", "others"))
    assert [(one.vms, one.runs, one.causes["idle"]) for one in made] == [
        ("all", 2, pytest.approx(100 * 140 / 600)), ("first", 2, 10), ("others", 2, 30)]
    assert isinstance(made[0], Waits) and waited.shares([])["idle"] == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": 1}', '{"run": "x", "measured": true}'])
def test_a_damaged_file(results: Path, text: str) -> None:
    run = records.runs(results)[0].id
    (results / records.TRACES / run / waited.FILE).write_text(text)
    with pytest.raises(UsageError, match=f"{waited.FILE} is damaged"):
        load(results)
