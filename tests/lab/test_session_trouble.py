# SPDX-License-Identifier: GPL-2.0-only
"""Guests, hosts and labs that fail: what the records say, and what is done about it."""

import asyncio
import re
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.core.model import RunRecord
from lab.machine.control import HostLost, Refused
from lab.machine.machine import HOSTD, HostSpec
from lab.run import records
from tests.lab.sessions import experiment, fail, go, spec

__all__ = ["spec"]


def test_what_breaks_one_lane_stops_all(spec: HostSpec, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """With no record of runs that only the stop has ended, so that they can be resumed."""
    appended = records.append

    def full(file: Path, record: object) -> None:
        if isinstance(record, RunRecord) and record.boot == 0:
            raise OSError(28, "No space left on device")
        appended(file, record)  # type: ignore[arg-type]
    monkeypatch.setattr(records, "append", full)
    what = replace(experiment("sleep 1; echo Time: 1.5", repeats=0), boots=8)
    with pytest.raises(OSError, match="No space left"):
        go(what, spec, tmp_path, jobs=2)
    assert all(run.valid for run in records.runs(tmp_path))
    assert len(list((tmp_path / "boots").iterdir())) < 8


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


@pytest.mark.parametrize(("mode", "words"), [
    ("die", "died"), ("splat", "scheduling while atomic"), ("noboot", "did not boot"),
    ("hang", "did not end its run within 3 s"),  # the limit of its command
])
def test_bad_guests_are_invalid(spec: HostSpec, tmp_path: Path, mode: str, words: str,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    """And good ones beside them valid, however long one waits for the other."""
    monkeypatch.setattr("lab.run.judge.MIN_OVERLAP", 0.0)
    if mode == "noboot":
        monkeypatch.setattr("lab.run.fleet.BOOT_LIMIT", 5.0)
    what = experiment("sleep 0.1", timeout=3, good="", bad=mode)
    assert not go(what, spec, tmp_path)
    bad = [run for run in records.runs(tmp_path) if run.scheme == "bad"]
    assert len(bad) == 2 and not any(run.valid for run in bad)
    assert all(words in run.reason for run in bad), [run.reason for run in bad]
    assert [run.valid for run in records.runs(tmp_path) if run.scheme == "good"] == [True]
    assert any(not boot.ok and boot.scheme == "bad" for boot in records.boots(tmp_path))


def test_what_a_guest_did_that_did_not_end(spec: HostSpec, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads are asked for before they are killed; a run that ends has no such file."""
    monkeypatch.setattr("lab.run.judge.MIN_OVERLAP", 0.0)
    assert not go(experiment("sleep 0.1", timeout=3, good="", bad="hang", vms=(1,), repeats=0),
                  spec, tmp_path)
    kept = {file.parent.name.split("-v")[1]: file.read_text()
            for file in (tmp_path / "raw").rglob("*.tasks")}
    assert list(kept) == ["1-bad-a0"], kept.keys()
    assert re.search(r"^task \d+ of \d+: \S+\nState:\t\w", kept["1-bad-a0"], re.M)
    assert "\nsyscall: " in kept["1-bad-a0"] and "\nwchan: " in kept["1-bad-a0"]


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
    monkeypatch.setattr("lab.run.judge.MIN_OVERLAP", 1.01)
    assert not go(experiment(a="", vms=(2,), repeats=2), spec, tmp_path)
    runs = records.runs(tmp_path)
    assert len(runs) == 3 and not any(run.valid for run in runs)
    assert all(re.fullmatch(r"only \d+% of the measured time was overlapped", run.reason)
               for run in runs), [run.reason for run in runs]


def test_a_guest_that_cannot_be_tied_did_not_boot(
    spec: HostSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "pin", repeat(Refused("no such thread")))
    assert not go(replace(experiment(vms=(1,), repeats=0), pin=True), spec, tmp_path)
    assert [run.reason for run in records.runs(tmp_path)] == ["guest good-0 did not boot"]
    assert "no such thread" in [boot.reason for boot in records.boots(tmp_path)]


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


SCRIPT = """
import sys
from pathlib import Path
from lab.machine.machine import Machine
from lab.core.progress import Silent
from lab.run.rounds import Runner
from tests.lab.sessions import FAKE, HostSpec, experiment
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
