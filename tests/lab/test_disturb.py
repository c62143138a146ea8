# SPDX-License-Identifier: GPL-2.0-only
"""Guests that are killed, restored or tuned while they are measured."""

import asyncio
import os
import random
import re
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from disturb import Disturber, any_value
from vm import Failure, Guest

from lab.build import images
from lab.core.errors import UsageError
from lab.core.model import Disturbance, Experiment
from lab.machine.machine import HostSpec
from lab.plan import config
from lab.plan.config import Overrides
from lab.report.summary import load, summarize
from lab.report.table import notes
from lab.run import disturb, records, runner
from lab.run.runner import Options, _manifest
from tests.lab.sessions import experiment, go, spec

__all__ = ["spec"]


def disturbed(*kinds: Disturbance, command: str = "echo Time: 1.5; sleep 0.6", repeats: int = 3,
              within: int = 200, **more: Any) -> Experiment:
    """Two guests; all but the first run something else."""
    what = experiment(command, repeats=repeats, **more)
    work = replace(what.workloads[0], neighbour="sleep 0.3")
    return replace(what, workloads=(work,), disturb=kinds, disturb_ms=within)


def test_values_are_valid_and_chosen_by_the_seed() -> None:
    def some(seed: str, *values: Any) -> list[str]:
        chance = random.Random(seed)
        return [any_value(list(values), chance) for _ in range(2000)]
    drawn = some("a", "kvm", ("fixed:", 128, 1 << 22))
    assert drawn == some("a", "kvm", ("fixed:", 128, 1 << 22)) != some("b", "kvm", ("", 1, 9))
    numbers = [int(one.removeprefix("fixed:")) for one in drawn if one != "kvm"]
    assert 128 <= min(numbers) < 200 and (3 << 20) < max(numbers) <= 1 << 22
    assert 700 < len(numbers) < 1300
    assert set(some("a", ("", 0, 3))) == {"0", "1", "2", "3"}


def test_what_is_asked_for() -> None:
    what = disturbed()
    assert disturb.request(what, "r", ["a", "b"], "/p", 60.0) is None
    asked = disturb.request(replace(what, disturb=("kill",)), "r", ["a", "b", "c"], "/p", 60.0)
    assert (asked["kill"], asked["restore"], asked["files"], asked["own"]) == (
        ["b", "c"], [], [], [])
    both = replace(what, disturb=("restore", "offers"))
    asked = disturb.request(both, "r", ["a", "b"], "/p", 240.0)
    assert (asked["kill"], asked["restore"], asked["seed"]) == ([], ["a", "b"], "r")
    assert asked["limit"] == 240
    assert asked["files"][0] == ("offers", "/p/hypercalls", ("Y", "N")) and not asked["own"]
    asked = disturb.request(replace(what, disturb=("parameters",)), "r", ["a"], "/p", 60.0)
    assert len(asked["files"]) == len(disturb.HOST)
    assert ("parameters", "extend", ("global", "off", "ecs", "kernel")) in asked["own"]


def test_killed_guests_are_no_error_and_are_booted_again(spec: HostSpec, tmp_path: Path) -> None:
    what = disturbed("kill", vms=(3,), reps=2, repeats=5)
    assert go(what, spec, tmp_path)
    runs = [run for run in records.runs(tmp_path) if run.valid]
    assert [run.disturbed for run in runs] == [{"kill": 2}] * 2
    for run in runs:
        first, *others = run.guests
        assert first.status == 0 and (tmp_path / first.output).read_text() == "Time: 1.5\n"
        assert [one.status for one in others] == [None, None]
        text = (tmp_path / "raw" / run.id / disturb.FILE).read_text()
        assert sorted(line.split()[1:] for line in text.splitlines()) == [
            ["kill", "good-1"], ["kill", "good-2"]]
    boots = [boot for boot in records.boots(tmp_path) if boot.guest == "good-1"]
    assert len(boots) >= 2 and all(boot.ok for boot in boots)
    assert sum(1 for boot in records.boots(tmp_path) if boot.guest == "good-0") == 1
    made = _manifest(what, Options(), "local", images.PLACEHOLDERS)
    records.write_json(tmp_path / records.MANIFEST, made)
    summary = summarize(load(tmp_path))
    assert summary.cell("good", "echo", 3).disturbed == {"kill": 4}
    assert any(note.endswith("in the valid runs: kill 4 times.") for note in notes(summary))


def test_a_restored_guest_goes_on(spec: HostSpec, tmp_path: Path) -> None:
    what = disturbed("restore", reps=2)
    assert go(what, spec, tmp_path)
    runs = [run for run in records.runs(tmp_path) if run.valid]
    assert [run.disturbed for run in runs] == [{"restore": 2}] * 2
    assert (tmp_path / runs[0].guests[0].output).read_text() == "Time: 1.5\n"
    log = (tmp_path / "boots/0/guest-good-0.console.log").read_text()
    assert log.count("booting") == 1 and log.count("goes on") >= 2
    assert len(records.boots(tmp_path)) == 3, "a restored guest was booted again"


def test_a_restored_guest_stays_tied(spec: HostSpec, tmp_path: Path) -> None:
    """The fake's first vCPU begins the command anew in the QEMU that goes on."""
    command = (f"{sys.executable} -c 'import os; print(os.sched_getaffinity(0))';"
               " echo Time: 1.5; sleep 0.6")
    what = replace(disturbed("restore", command=command, vms=(1,)), pin=True)
    assert go(what, spec, tmp_path)
    run = records.runs(tmp_path)[-1]
    tied = {min(os.sched_getaffinity(0))}
    assert (tmp_path / run.guests[0].output).read_text() == f"{tied}\nTime: 1.5\n"


@pytest.mark.parametrize(("mode", "variant", "reason"), [
    ("lost", "test", "it did not come back within 2 s"),
    ("lost", "lockdep", "it did not come back within 6 s"),
    ("unsaved", "test", "QMP migrate: no room"),
    ("torn", "test", "guest good-0 died: its virtual machine ended with status 1"),
])
def test_a_guest_that_does_not_come_back(
    spec: HostSpec, tmp_path: Path, mode: str, variant: str, reason: str,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "lost":
        monkeypatch.setattr(disturb, "RESTORE_LIMIT", 2.0)
    what = disturbed("restore", vms=(1,), good=mode, repeats=0, timeout=120)
    what = replace(what, variant=variant)
    began = time.monotonic()
    assert not go(what, spec, tmp_path)
    assert time.monotonic() - began < 60, "the run went on without the guest"
    (run,) = records.runs(tmp_path)
    assert run.reason == f"guest good-0 was saved and not restored: {reason}"
    assert [boot.ok for boot in records.boots(tmp_path) if boot.guest] == [False]


def test_a_run_that_nothing_disturbed_is_invalid(
    spec: HostSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.run.judge.MIN_OVERLAP", 0.0)
    what = disturbed("kill", "restore", command="echo Time: 1", within=3_600_000, repeats=0)
    assert not go(what, spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert run.reason == "the guests were not disturbed meanwhile: no kill and no restore"


@pytest.fixture
def parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the host's parameters."""
    folder = tmp_path / "parameters"
    folder.mkdir()
    for name in (*disturb.HOST, *disturb.OFFERS):
        (folder / name).write_text(f"{name}\n")
    monkeypatch.setattr("lab.run.parameters.PARAMETERS", str(folder))
    return folder


def test_parameters_are_changed_and_put_back(
    spec: HostSpec, tmp_path: Path, parameters: Path
) -> None:
    what = disturbed("parameters", "offers", command="sleep 3; echo Time: 1", vms=(1,), timeout=20)
    what = replace(what, workloads=(replace(what.workloads[0], neighbour=""),))
    assert go(what, spec, tmp_path)
    run = records.runs(tmp_path)[-1]
    assert all(file.read_text() == f"{file.name}\n" for file in parameters.iterdir())
    lines = (tmp_path / "raw" / run.id / disturb.FILE).read_text().splitlines()
    times = [float(line.split()[0]) for line in lines]
    gaps = [new - old for old, new in pairwise(times)]
    assert sum(run.disturbed.values()) == len(times) > 5
    assert min(gaps) > 0.08 and median(gaps) < 0.2, "every 100 ms"
    assert all(re.fullmatch(r"\S+ (parameters|offers) host \S+ \S+", line) for line in lines)


def test_a_value_that_is_refused_makes_the_run_invalid(
    spec: HostSpec, tmp_path: Path, parameters: Path
) -> None:
    for file in parameters.iterdir():
        file.unlink()
        file.symlink_to("/proc/self/oom_score_adj")  # takes numbers up to 1000
    what = replace(disturbed("offers", repeats=0, vms=(1,)), workloads=experiment(
        "sleep 0.6; echo Time: 1").workloads)
    assert not go(what, spec, tmp_path)
    (run,) = records.runs(tmp_path)
    assert re.match(r".*/(hypercalls|shootdown) did not take [YN]: .*Invalid argument", run.reason)


def test_a_vm_takes_its_own_parameters_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vm.VMS", tmp_path)
    guest = Guest("g", tmp_path)
    monkeypatch.setattr(guest, "proc", type("Process", (), {"pid": 7, "returncode": None}))
    with pytest.raises(Failure, match="there is no folder of guest g"):
        guest.tune("yield", "hint")
    own = tmp_path / "7-12" / "pvsync"
    own.mkdir(parents=True)
    for name, mode in (("yield", 0o600), ("extend_us", 0o600), ("counters", 0o400)):
        (own / name).write_text("global\n")
        (own / name).chmod(mode)
    (own / "cpu_waits").write_text("0 5 12\nlongest 7\n")
    assert guest.parameters() == {"yield": "global", "extend_us": "global"}
    guest.tune("extend_us", "70")
    assert guest.parameters()["extend_us"].startswith("70")

    async def change() -> list[Any]:
        plan = {"seed": "s", "within": 0, "limit": 1, "kill": [], "restore": [], "every": 0.01,
                "files": [], "own": [["parameters", "yield", ["strong"]]]}
        (own / "yield").write_text("hint")
        one = Disturber([guest], {"g": {"error": ""}}, plan)
        async with asyncio.timeout(60):
            while len(one.events) < 6:
                await asyncio.sleep(0.01)
        assert (own / "yield").read_text() == "strong"
        return await one.end()
    events = asyncio.run(change())
    assert events[0][1:] == ["parameters", "g yield strong"]
    assert (own / "yield").read_text().startswith("hint")


def test_lines_go_on_in_the_next_qemu(tmp_path: Path) -> None:
    async def listen() -> list[list[str]]:
        guest, old, new = Guest("g", tmp_path), asyncio.StreamReader(), asyncio.StreamReader()
        guest.successor = asyncio.get_running_loop().create_future()
        old.feed_data(b"began t\nen")
        old.feed_eof()
        new.feed_data(b"ded t 0 5\npong x\n")
        new.feed_eof()
        task = asyncio.create_task(guest._listen(old))
        await asyncio.sleep(0.05)
        assert not task.done() and not guest.pong.is_set()
        guest.successor.set_result(new)
        await task
        assert guest.pong.is_set()
        return [guest.messages.get_nowait()[1] for _ in range(guest.messages.qsize())]
    assert asyncio.run(listen()) == [["began", "t"], ["ended", "t", "0", "5"], ["gone"]]


FILE = """
about = "a"
schemes = ["ticket"]
workloads = ["{workload}"]
vms = [{vms}]
vcpus = 2
pcpus = 2
reps = 1
boots = 1
disturb = {disturb}
"""


@pytest.mark.parametrize(("disturb", "vms", "workload", "message"), [
    ('["kil"]', 2, "burn-beside-fuzz", "disturb[0] must be one of parameters, offers, kill,"),
    ('["kill"]', 1, "burn-beside-fuzz", "kill takes several VMs, and workloads with a neighbour"),
    ('["kill"]', 2, "hackbench", "kill takes several VMs, and workloads with a neighbour"),
    ('"kill"', 2, "hackbench", "disturb must be a list"),
    ('[]\ndisturb_ms = -1', 2, "hackbench", "disturb_ms must be from 0 to 3600000, not -1"),
])
def test_wrong_experiments(
    tmp_path: Path, disturb: str, vms: int, workload: str, message: str
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE.format(disturb=disturb, vms=vms, workload=workload))
    with pytest.raises(UsageError, match=re.escape(message)):
        config.experiment(str(file))


def test_on_the_command_line() -> None:
    changed = config.experiment("demo", Overrides(disturb=("restore",), disturb_ms=70))
    assert (changed.disturb, changed.disturb_ms) == (("restore",), 70)
    plain = config.experiment("demo")
    assert plain.disturb == () and runner.host_memory(changed) == \
        runner.host_memory(plain) + 2 * max(plain.vms) * plain.guest_mem
    with pytest.raises(UsageError, match="must be one of"):
        config.experiment("demo", Overrides(disturb=("hang",)))
