# SPDX-License-Identifier: GPL-2.0-only
"""The whole path from plan to records, with real hostd and machines that are fakes."""

import asyncio
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, repeat
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from lab.build import images
from lab.core.errors import LabError, UsageError
from lab.core.model import Experiment, RunRecord, Scheme, Workload
from lab.core.progress import Silent
from lab.machine.control import Answer, Control, HostLost, Refused
from lab.machine.machine import HOSTD, HostSpec, Machine
from lab.observe import observed, windows
from lab.plan.schedule import MIN_OVERLAP
from lab.report.summary import load, summarize
from lab.run import records
from lab.run.fleet import boot_order
from lab.run.rounds import Runner
from lab.run.runner import Options, _manifest, alone
from tests.lab.synthetic import latency_lines

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


def test_all_valid(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment(a="", b="", vms=(1, 2), reps=2, repeats=5)
    assert go(what, spec, tmp_path)
    runs = [run for run in records.runs(tmp_path) if "overlapped" not in run.reason]
    assert len(runs) == 8 and all(run.valid and run.overlap >= MIN_OVERLAP for run in runs)
    assert {len(run.guests) for run in runs} == {1, 2}
    assert all(run.stalled is not None and 0 <= run.stalled < 60 for run in runs)
    for run in runs:
        for guest in run.guests:
            assert guest.status == 0 and guest.elapsed and 0.25 < guest.elapsed < 5
            assert (tmp_path / guest.output).read_text() == "Time: 1.5\n"
    boots = records.boots(tmp_path)
    assert [b.guest for b in boots if not b.guest] == [""] and all(b.ok for b in boots)
    assert {b.guest for b in boots} == {"", "a-0", "a-1", "b-0", "b-1"}
    assert (tmp_path / "boots/0/guest-a-0.dmesg.txt").read_text().startswith("[")
    assert "booting" in (tmp_path / "boots/0/guest-a-0.console.log").read_text()


def test_hosts_side_by_side(spec: HostSpec, tmp_path: Path) -> None:
    """As many boots as without, each with its plan's number, and no run twice or left out."""
    what = replace(experiment(a="", repeats=5), boots=3)
    assert go(what, spec, tmp_path, jobs=2)
    valid = [run for run in records.runs(tmp_path) if run.valid]
    assert sorted(run.id.partition("-")[0] for run in valid) == ["b0", "b1", "b2"]
    assert sorted(run.boot for run in valid) == [0, 1, 2]
    assert all(run.id.startswith(f"b{run.boot}-") for run in valid)
    hosts = [boot for boot in records.boots(tmp_path) if not boot.guest]
    assert sorted(boot.boot for boot in hosts) == [0, 1, 2] and all(boot.ok for boot in hosts)


def test_what_breaks_one_lane_stops_all(spec: HostSpec, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """With no record of runs that only the stop has ended, so that they can be resumed."""
    appended = records.append

    def full(file: Path, record: object) -> None:
        if isinstance(record, RunRecord) and record.boot == 0:
            raise OSError(28, "No space left on device")
        appended(file, record)  # type: ignore[arg-type]
    monkeypatch.setattr(records, "append", full)
    what = replace(experiment("sleep 1; echo Time: 1.5", repeats=0), boots=4)
    with pytest.raises(OSError, match="No space left"):
        go(what, spec, tmp_path, jobs=2)
    assert all(run.valid for run in records.runs(tmp_path))
    assert len(list((tmp_path / "boots").iterdir())) < 4


def test_schemes_share_guests(spec: HostSpec, tmp_path: Path,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three do: fewer boots, runs of each with its own parameters, and their outputs."""
    parameter = tmp_path / "extend"
    parameter.write_text("off\n")
    monkeypatch.setattr("lab.run.parameters.parameter_file", lambda name: str(parameter))
    what = experiment(f"cat {parameter}; echo; echo Time: 1.5; sleep 0.3", a="", b="", c="",
                      vms=(1,))
    a, b, c = what.schemes
    what = replace(what, schemes=(a, b, replace(c, host={"extend": "ecs"})), share=("a", "c"))
    out = tmp_path / "out"
    assert go(what, spec, out)
    assert {boot.guest for boot in records.boots(out) if boot.guest} == {"a-0", "b-0"}
    said = {run.scheme: (out / run.guests[0].output).read_text().split()[0]
            for run in records.runs(out) if run.valid}
    assert said == {"a": "off", "b": "off", "c": "ecs"}


def test_a_scheme_has_a_limit_for_its_boots(spec: HostSpec, tmp_path: Path) -> None:
    """Its guest, silent on purpose, is given up long before others would be."""
    what = experiment(good="", silent="noboot", vms=(1,), repeats=0)
    good, silent = what.schemes
    what = replace(what, schemes=(good, replace(silent, boot_s=3.0)))
    began = time.monotonic()
    assert not go(what, spec, tmp_path)
    assert time.monotonic() - began < 40, "twice the limit is 120 s"
    assert [run.valid for run in sorted(records.runs(tmp_path), key=lambda run: run.scheme)] == [
        True, False]
    told = [boot.reason for boot in records.boots(tmp_path) if boot.scheme == "silent"]
    assert told and all("did not answer within 3 s" in reason for reason in told)


def test_the_host_has_its_parameters_back(spec: HostSpec, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no boot resets it, and the last scheme has set them."""
    parameter = tmp_path / "extend"
    parameter.write_text("off\n")
    monkeypatch.setattr("lab.run.parameters.parameter_file", lambda name: str(parameter))
    what = experiment(f"cat {parameter}; echo; echo Time: 1.5; sleep 0.3")
    what = replace(what, schemes=(replace(what.schemes[0], host={"extend": "ecs"}),))
    assert go(what, spec, tmp_path / "out")
    (run, *_) = (one for one in records.runs(tmp_path / "out") if one.valid)
    assert (tmp_path / "out" / run.guests[0].output).read_text().startswith("ecs\n")
    assert parameter.read_text() == "off\n"


@pytest.mark.parametrize(("mode", "words"), [
    ("die", "died"), ("splat", "scheduling while atomic"), ("noboot", "did not boot"),
    ("hang", "did not end its run within 3 s"),  # the limit of its command
])
def test_bad_guests_are_invalid(spec: HostSpec, tmp_path: Path, mode: str, words: str,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    """And good ones beside them valid, however long one waits for the other."""
    monkeypatch.setattr("lab.run.session.MIN_OVERLAP", 0.0)
    if mode == "noboot":
        monkeypatch.setattr("lab.run.fleet.BOOT_LIMIT", 5.0)
    what = experiment("sleep 0.1", timeout=3, good="", bad=mode)
    assert not go(what, spec, tmp_path)
    bad = [run for run in records.runs(tmp_path) if run.scheme == "bad"]
    assert len(bad) == 2 and not any(run.valid for run in bad)
    assert all(words in run.reason for run in bad), [run.reason for run in bad]
    assert [run.valid for run in records.runs(tmp_path) if run.scheme == "good"] == [True]
    assert any(not boot.ok and boot.scheme == "bad" for boot in records.boots(tmp_path))


def test_a_fault_ends_a_boot(spec: HostSpec, tmp_path: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not when the time for boots is over."""
    monkeypatch.setattr("lab.run.fleet.LOOK_S", 0.2)
    began = time.monotonic()
    assert not go(experiment(good="", bad="oops", vms=(1,), repeats=0), spec, tmp_path)
    assert time.monotonic() - began < 40, "twice the limit is 120 s"
    assert [run.valid for run in records.runs(tmp_path) if run.scheme == "good"] == [True]
    bad = [boot for boot in records.boots(tmp_path) if boot.guest == "bad-0"]
    assert len(bad) == 2 and not any(boot.ok for boot in bad)
    assert all("NULL pointer" in boot.reason and boot.seconds < 20 for boot in bad), bad


def test_runs_that_hardly_overlap_are_invalid(spec: HostSpec, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Here none overlaps enough: each is repeated as often as stated, and none is averaged in."""
    monkeypatch.setattr("lab.run.session.MIN_OVERLAP", 1.01)
    assert not go(experiment(a="", vms=(2,), repeats=2), spec, tmp_path)
    runs = records.runs(tmp_path)
    assert len(runs) == 3 and not any(run.valid for run in runs)
    assert all(re.fullmatch(r"only \d+% of the measured time was overlapped", run.reason)
               for run in runs), [run.reason for run in runs]


def test_neighbours_run_another_command(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment("sleep 0.3; echo Time: 1.5", vms=(2,), repeats=5)
    what = replace(what, workloads=(replace(what.workloads[0], neighbour="sleep 0.1; echo load"),))
    assert go(what, spec, tmp_path)
    run = records.runs(tmp_path)[-1]
    said = [(tmp_path / guest.output).read_text() for guest in run.guests]
    assert said == ["Time: 1.5\n", "load\n"]


def test_the_other_guests_have_other_arguments(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment(vms=(2,), repeats=5)
    what = replace(what, schemes=(replace(
        what.schemes[0], guest=("pvsync.ecs=count",), neighbour=("mine=1",)),))
    assert go(what, spec, tmp_path)
    asked = [line for line in (tmp_path / "boots/0/host-control.log").read_text().splitlines()
             if '"op": "start"' in line]
    assert len(asked) == 2
    own, other = sorted(asked, key=lambda line: '"good-1"' in line)
    assert "pvsync.ecs=count" in own and "mine=1" not in own
    assert "mine=1" in other and "pvsync.ecs" not in other


def test_guests_of_a_scheme_may_have_another_kernel(spec: HostSpec, tmp_path: Path) -> None:
    others = images.GuestFiles("off", Path("/dev/zero"), Path("/dev/full"))
    what = experiment(a="", b="", vms=(1,), repeats=5)
    first, second = what.schemes
    what = replace(what, schemes=(first, replace(second, variant="off")))
    assert go(what, replace(spec, others=(others,)), tmp_path)
    asked = {request["name"]: request["argv"] for line in
             (tmp_path / "boots/0/host-control.log").read_text().splitlines()
             if '"op": "start"' in line for request in [json.loads(line[line.index("{"):])]}
    kernels = {name: argv[argv.index("-kernel") + 1] for name, argv in asked.items()}
    assert kernels == {"a-0": "/dev/null", "b-0": "/dev/zero"}
    roots = {name: argv[argv.index("-drive") + 1].split(",")[1] for name, argv in asked.items()}
    assert roots == {"a-0": "file=/dev/null", "b-0": "file=/dev/full"}


def test_windows_of_a_run(spec: HostSpec, tmp_path: Path, kernel: Path) -> None:
    for number, guest in enumerate(("a-0", "a-1")):
        (kernel / f"pvsync-{guest}").mkdir()
        (kernel / f"pvsync-{guest}" / "cpu.stat").write_text(f"user_usec 3\nusage_usec {number}2\n")
    what = replace(experiment(a="", repeats=5), window_ms=20)
    assert go(what, spec, tmp_path)
    run = records.runs(tmp_path)[-1]
    text = (tmp_path / "raw" / run.id / windows.FILE).read_text()
    head, *rows = (line.split() for line in text.splitlines())
    assert head == ["seconds", *(f"a-{n}:{what}" for n in (0, 1)
                                 for what in (windows.USED, windows.GRANTED))]
    assert {tuple(row[1:]) for row in rows} == {("2", "-", "12", "-")}
    times = [float(row[0]) for row in rows]
    lengths = [new - old for old, new in pairwise(times)]
    assert len(rows) >= 8 and median(lengths) == pytest.approx(0.02, abs=0.005)
    ends = [guest.ended for guest in run.guests if guest.ended]
    assert times[0] <= min(guest.began or 0 for guest in run.guests) + 0.2 < max(ends)
    assert times[-1] <= max(ends) + 0.2
    seen = windows.parse(text, run)
    assert seen and len(seen.times) >= 5
    assert sorted(file.name for file in (tmp_path / "raw" / run.id).iterdir()) == [
        "a-0.out", "a-1.out", windows.FILE]


@pytest.mark.parametrize("pin", [True, False])
def test_vcpus_are_tied_to_cpus(spec: HostSpec, tmp_path: Path, pin: bool) -> None:
    """The fake's last vCPU runs the commands."""
    cpus = sorted(os.sched_getaffinity(0))
    what = replace(experiment(f"{sys.executable} -c 'import os; print(os.sched_getaffinity(0))';"
                              " echo Time: 1; sleep 0.3", vms=(2,), repeats=5), pin=pin)
    assert go(what, spec, tmp_path)
    run = records.runs(tmp_path)[-1]
    wanted = {cpus[1 % len(cpus)]} if pin else set(cpus)
    for guest in run.guests:
        assert (tmp_path / guest.output).read_text() == f"{wanted}\nTime: 1\n"
    assert requests(tmp_path).count("pin") == 2 * pin
    assert _manifest(what, Options(), "local", images.PLACEHOLDERS).pin is pin


def fail(monkeypatch: pytest.MonkeyPatch, op: str, errors: Iterable[LabError]) -> None:
    """Have the host answer the next operations of this kind so, as long as there are errors."""
    call, left = Control.call, iter(errors)

    def answer(self: Control, asked: str, **arguments: Any) -> Answer:
        if asked == op and (error := next(left, None)):
            raise error
        return call(self, asked, **arguments)
    monkeypatch.setattr(Control, "call", answer)


def test_a_guest_that_cannot_be_tied_did_not_boot(
    spec: HostSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "pin", repeat(Refused("no such thread")))
    assert not go(replace(experiment(vms=(1,), repeats=0), pin=True), spec, tmp_path)
    assert [run.reason for run in records.runs(tmp_path)] == ["guest good-0 did not boot"]
    assert "no such thread" in [boot.reason for boot in records.boots(tmp_path)]


def test_more_vcpus_than_cpus_begin_from_the_first(tmp_path: Path) -> None:
    cpus, done = sorted(os.sched_getaffinity(0)), threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(len(cpus) + 1)]
    for thread in threads:
        thread.start()

    async def qmp(command: str) -> list[dict[str, int | None]]:
        assert command == "query-cpus-fast"
        return [{"cpu-index": place, "thread-id": thread.native_id}
                for place, thread in reversed(list(enumerate(threads)))]

    try:
        hostd = runpy.run_path(str(HOSTD))
        daemon: Any = hostd["Daemon"](tmp_path)
        daemon.guests["g"] = hostd["Guest"]("g", tmp_path)
        daemon.guests["g"].qmp = qmp
        answer = asyncio.run(daemon.op_pin("g"))
        tied = [os.sched_getaffinity(thread.native_id or -1) for thread in threads]
    finally:
        done.set()
    assert tied == [{cpu} for cpu in (*cpus, cpus[0])]
    assert answer == {"cpus": dict(enumerate((*cpus, cpus[0])))}
    assert os.sched_getaffinity(0) == set(cpus)


def test_a_guest_that_does_not_stop_is_ended(tmp_path: Path) -> None:
    """And named; the others stop, and what it says late is nobody's answer."""
    hostd = runpy.run_path(str(HOSTD))
    daemon: Any = hostd["Daemon"](tmp_path)
    asked: dict[str, list[str]] = {"good": [], "stuck": []}
    for name, said in asked.items():
        guest = daemon.guests[name] = hostd["Guest"](name, tmp_path / name)

        async def qmp(command: str, name: str = name, said: list[str] = said) -> None:
            said.append(command)
            if name == "stuck":
                await asyncio.sleep(60)
        guest.qmp = qmp
    with pytest.raises(hostd["Failure"], match=r"guest stuck did not stop within 0\.1 s"):
        asyncio.run(daemon.op_switch([], timeout=0.1))
    assert list(daemon.guests) == ["good"] and daemon.guests["good"].stopped
    asyncio.run(daemon.op_switch([], timeout=0.1))
    asyncio.run(daemon.op_switch(["good"], timeout=0.1))
    assert asked == {"good": ["stop", "cont"], "stuck": ["stop"]}
    with pytest.raises(hostd["Failure"], match="there is no guest stuck"):
        asyncio.run(daemon.op_switch(["stuck"], timeout=0.1))


def test_a_host_that_is_silent_at_the_end(spec: HostSpec, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Its boot is no good one, though nothing is wrong with what it has said."""
    fail(monkeypatch, "dmesg", [HostLost("the host was silent")])
    assert go(experiment(repeats=5), spec, tmp_path)
    host = [boot for boot in records.boots(tmp_path) if not boot.guest]
    assert [(boot.ok, boot.reason) for boot in host] == [(False, "the host was silent")]


def test_a_host_that_refuses_while_guests_boot(spec: HostSpec, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """It is booted again, and the run is made there."""
    fail(monkeypatch, "switch", [Refused("QEMU of guest good-0 did not go on within 60 s")])
    assert go(experiment(repeats=5), spec, tmp_path)
    host = [boot for boot in records.boots(tmp_path) if not boot.guest]
    assert [boot.ok for boot in host] == [False, True]
    assert "did not go on" in host[0].reason


def test_a_guest_that_fails_before_it_is_measured(spec: HostSpec, tmp_path: Path) -> None:
    """Its first run is for getting ready; one that hangs in it is not measured."""
    what = experiment("sleep 0.1", timeout=1, reps=2, repeats=0, bad="hang", vms=(1,))
    assert not go(what, spec, tmp_path)
    asked = (tmp_path / "boots/0/host-control.log").read_text().splitlines()
    rounds = [line for line in asked if '"op": "round"' in line]
    assert rounds and all('"tag": "warm"' in line for line in rounds)
    assert {run.reason for run in records.runs(tmp_path)} == {
        "guest bad-0 did not end its run within 1 s"}


class SlowGuest:
    """Stands for a guest in hostd; takes its time to stop."""

    name = "g"
    killed = False

    def send(self, *words: str) -> None:
        pass

    async def expect(self, verb: str, ident: str) -> tuple[float, list[str]]:
        await asyncio.sleep(0.5 if verb == "stopped" else 0.1)
        return time.monotonic(), ["0", "0"]

    async def output(self, ident: str) -> str:
        return ""


def test_nothing_is_noted_once_the_guests_are_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("other 1\nwanted 12\nlast 3\n")
    daemon: Any = runpy.run_path(str(HOSTD))["Daemon"](tmp_path)
    daemon.guests["g"] = SlowGuest()
    files = [[str(tmp_path / "file"), name] for name in ("wanted", "last", "missing")]
    files.append([str(tmp_path / "none"), "wanted"])
    watch = {"files": files, "interval": 0.02}
    answer = asyncio.run(daemon.op_round(["g"], "t", "true", 5, watch=watch))
    times = [one[0] for one in answer["samples"]]
    assert all(one[1:] == [12, 3, None, None] for one in answer["samples"])
    assert len(times) > 3 and times[-1] <= answer["guests"]["g"]["ended"] + 0.1
    assert asyncio.run(daemon.op_round(["g"], "t", "true", 5))["samples"] == []


def test_a_vm_without_settings_of_its_own(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment(repeats=0)
    what = replace(what, schemes=(replace(what.schemes[0], host={"vm.yield": "strong"}),))
    assert not go(what, spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert run.reason.startswith("host parameter vm.yield of scheme good cannot be set:"
                                 " there is no folder of guest good-0")


def test_status_of_the_command(spec: HostSpec, tmp_path: Path) -> None:
    assert not go(experiment("echo no; exit 3", repeats=0), spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert "status 3" in run.reason and run.guests[0].status == 3


def test_failed_setup(spec: HostSpec, tmp_path: Path) -> None:
    assert not go(experiment(setup="echo missing >&1; false", repeats=0), spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert run.reason.startswith("the setup of echo failed") and "missing" in run.reason


def test_repeat_after_a_dead_guest(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment(shaky=f"once:{tmp_path}/seen", vms=(1,))
    assert go(what, spec, tmp_path / "out")
    assert [run.valid for run in records.runs(tmp_path / "out")] == [False, True]
    boots = [b for b in records.boots(tmp_path / "out") if b.guest]
    assert [b.ok for b in boots] == [False, True]


def test_a_host_that_lost_two_guests_is_booted_again(spec: HostSpec, tmp_path: Path) -> None:
    assert not go(experiment("sleep 0.1", bad="die", vms=(1,), repeats=2), spec, tmp_path)
    hosts = [boot for boot in records.boots(tmp_path) if not boot.guest]
    assert [boot.ok for boot in hosts] == [False, True], records.runs(tmp_path)
    assert hosts[0].reason == "2 guests failed in this boot"
    assert [run.boot for run in records.runs(tmp_path)] == [0, 0, 1]


def test_gives_a_hopeless_cell_up(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment("sleep 0.1", timeout=1, bad="die", vms=(1,), reps=4, repeats=1)
    assert not go(what, spec, tmp_path)
    reasons = [run.reason for run in records.runs(tmp_path)]
    assert len(reasons) == 2 * 2 + 2
    assert all("before it failed" in reason for reason in reasons[4:])


def test_resume_runs_only_what_is_missing(spec: HostSpec, tmp_path: Path) -> None:
    what = experiment(a="", vms=(1,), reps=3)
    assert go(what, spec, tmp_path)
    lines = (tmp_path / "runs.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "runs.jsonl").write_text(lines[0] + lines[1][:40])
    assert go(what, spec, tmp_path)
    runs = records.runs(tmp_path)
    assert [run.valid for run in runs] == [True] * 3 and len({run.id for run in runs}) == 3
    assert runs[1].boot == 1 and (tmp_path / "boots/1").is_dir()
    json.loads((tmp_path / "runs.jsonl").read_text().splitlines()[-1])


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


def test_observed_runs_keep_snapshots(spec: HostSpec, tmp_path: Path, kernel: Path) -> None:
    for guest in ("a-0", "a-1"):
        (kernel / f"pvsync-{guest}").mkdir()
        (kernel / f"pvsync-{guest}" / "cpu.stat").write_text("usage_usec 12\nuser_usec 3\n")
    assert go(counting(kernel, a=""), spec, tmp_path)
    run = records.runs(tmp_path)[-1]
    folder = tmp_path / "raw" / run.id
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [f"{name}.{when}.txt" for name in ("a-0", "a-1", "host") for when in ("before", "after")]
        + ["a-0.out", "a-1.out"])

    def snapshot(name: str, when: str) -> observed.Snapshot:
        return observed.parse((folder / f"{name}.{when}.txt").read_text())

    assert snapshot("a-1", "before").counters["lock_contended"] in (5, 7)  # 7 in a repeat
    for name in ("a-0", "a-1"):
        after = snapshot(name, "after")
        assert (after.counters, after.waits) == ({"lock_contended": 7}, {9: (1, 300)})
    host = snapshot("host", "after")
    assert host.counters == {"lock_contended": 7}
    assert host.cpu_usec == {"pvsync-a-0": 12, "pvsync-a-1": 12}


def test_the_summary_finds_what_was_observed(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    what = replace(counting(kernel, a=""), vms=(1,), max_repeats=0)
    assert go(what, spec, tmp_path)
    made = _manifest(what, Options(), "local", images.PLACEHOLDERS)
    records.write_json(tmp_path / records.MANIFEST, made)
    seen = summarize(load(tmp_path)).cell("a", "echo", 1).observed
    assert seen and (seen.counters, seen.host) == ({"lock_contended": 2}, {"lock_contended": 2})


def test_snapshots_surround_the_round_of_running_guests(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    what = replace(counting(kernel, a=""), reps=2)
    assert go(what, spec, tmp_path)
    asked = requests(tmp_path)
    proof = ["in-force", "in-force"]
    around = ["switch", *proof, "read", "before", "before", "exec", "round",
              "after", "after", "exec", *proof, "switch"]
    places = [i for i in range(len(asked)) if asked[i:i + len(around)] == around]
    assert len(places) == len(records.runs(tmp_path))
    assert (kernel / "lock_stat").read_text() == "1\n"
    assert asked.count("setup") == 2 and asked.index("setup") < asked.index("round") < places[0]


def test_nothing_is_observed_unless_it_is_wanted(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    assert go(replace(counting(kernel, a=""), observe=False), spec, tmp_path)
    assert not {"before", "after", "exec", "setup"} & set(requests(tmp_path))
    assert not list(tmp_path.glob("raw/*/*.txt")) and (kernel / "lock_stat").read_text() == "0\n"


def test_flush_times_are_cleared_before_each_run(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    latency = kernel / "tlb_latency"
    latency.write_text("mechanism of old\n")
    lines = "\\n".join(latency_lines({"ipi": [(900, 800)]}))
    command = f"head -n 99 {latency}; printf '{lines}\\n' >{latency}; echo Time: 1; sleep 0.2"
    what = replace(experiment(command, a="", vms=(1,), reps=3, repeats=5), observe="tlb")
    assert go(what, spec, tmp_path)
    assert (kernel / "tlb_stat").read_text() == "1\n"
    assert (kernel / "lock_stat").read_text() == "0\n"
    for run in records.runs(tmp_path):
        folder = tmp_path / "raw" / run.id
        assert (folder / "a-0.out").read_text() == "0\nTime: 1\n"
        after = observed.parse((folder / "a-0.after.txt").read_text())
        assert after.flushes and after.flushes["ipi"].wall.max_ns == 900
        assert after.waits is None and after.counters == {"lock_contended": 5}


def test_a_kernel_without_counters_is_observed_too(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    for file in kernel.iterdir():
        file.unlink()
    assert go(replace(experiment(a="", repeats=5), observe=True), spec, tmp_path)
    assert not (kernel / "lock_stat").exists()
    folder = tmp_path / "raw" / records.runs(tmp_path)[-1].id
    assert (folder / "a-0.before.txt").read_text() == ""
    host = (folder / "host.after.txt").read_text()
    assert host.startswith("==> /proc/meminfo <==\n") and not observed.parse(host).counters


def test_counting_that_cannot_be_switched_on(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    (kernel / "lock_stat").unlink()
    (kernel / "lock_stat").mkdir()
    assert not go(replace(counting(kernel, a=""), max_repeats=0), spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert run.reason.startswith("the start of the counting failed in guest a-0")


def test_a_guest_without_an_answer_makes_an_observed_run_invalid(
    spec: HostSpec, tmp_path: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.run.fleet.SETTLE", 2.0)
    what = counting(kernel, bad="mute", good="")
    assert not go(replace(what, vms=(1,), max_repeats=0), spec, tmp_path)
    reasons = {run.scheme: run.reason for run in records.runs(tmp_path)}
    assert reasons == {"bad": "guest bad-0 did not end the command in 2 s", "good": ""}


def test_a_round_that_failed_keeps_its_own_reason(
    spec: HostSpec, tmp_path: Path, kernel: Path
) -> None:
    assert not go(replace(counting(kernel, bad="die"), vms=(1,), max_repeats=0), spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert "died" in run.reason and len(run.guests) == 1
    assert sorted(file.name for file in (tmp_path / "raw" / run.id).iterdir()) == [
        "bad-0.before.txt", "bad-0.out", "host.before.txt"]


def test_guests_boot_in_the_seeds_order() -> None:
    plain = boot_order(("a", "b"), 2, None)
    assert plain == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    orders = {seed: boot_order(("a", "b"), 2, seed) for seed in range(20)}
    assert all(sorted(order) == sorted(plain) for order in orders.values())
    assert orders[3] == boot_order(("a", "b"), 2, 3) and len(set(map(tuple, orders.values()))) > 5


def test_only_one_lab_in_a_directory(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(UsageError, match="another run"), alone(tmp_path):
        pass


SCRIPT = """
import sys
from pathlib import Path
from lab.machine.machine import Machine
from lab.core.progress import Silent
from lab.run.rounds import Runner
from tests.lab.test_session import FAKE, HostSpec, experiment
start = Machine.start
Machine.start = lambda self, t=0: {**start(self, 20), "kvm": True, "cgroups": False}
null = Path("/dev/null")
spec = HostSpec("local", 2, 64, null, null, null, null, (sys.executable, str(FAKE)))
Runner(experiment("sleep 60", timeout=90), Path(sys.argv[1]), spec, 1, Silent()).run()
"""


def process_name(process: psutil.Process) -> str:
    """Name of a process; empty when it has ended in the meantime."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""



@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running(tmp_path: Path, number: int) -> None:
    root = Path(__file__).resolve().parents[2]
    lab = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=root,
                           stderr=subprocess.DEVNULL)
    tree: list[psutil.Process] = []
    end = time.monotonic() + 60
    names: list[str] = []
    while "sleep" not in names:
        assert lab.poll() is None and time.monotonic() < end, names
        tree = psutil.Process(lab.pid).children(recursive=True)
        names = [process_name(process) for process in tree]
        time.sleep(0.1)
    assert len(tree) >= 3
    # The commands inside a real guest end with it; the fakes' children are not ours to end.
    machines = [p for p, name in zip(tree, names, strict=True) if name not in ("sh", "sleep", "")]
    lab.send_signal(number)
    lab.wait(60)
    _, alive = psutil.wait_procs(machines, timeout=10)
    for process in tree:
        if process.is_running():
            process.kill()
    assert not alive


