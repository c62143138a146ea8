# SPDX-License-Identifier: GPL-2.0-only
"""The whole path from plan to records, with real hostd and machines that are fakes."""

import asyncio
import json
import os
import runpy
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.build import images
from lab.core.errors import UsageError
from lab.machine.machine import HOSTD, HostSpec
from lab.plan.schedule import MIN_OVERLAP
from lab.run import records
from lab.run.fleet import boot_order
from lab.run.runner import Options, _manifest, alone
from tests.lab.sessions import experiment, go, requests, spec

__all__ = ["spec"]


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


def test_guests_boot_in_the_seeds_order() -> None:
    plain = boot_order(("a", "b"), 2, None)
    assert plain == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    orders = {seed: boot_order(("a", "b"), 2, seed) for seed in range(20)}
    assert all(sorted(order) == sorted(plain) for order in orders.values())
    assert orders[3] == boot_order(("a", "b"), 2, 3) and len(set(map(tuple, orders.values()))) > 5


def test_only_one_lab_in_a_directory(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(UsageError, match="another run"), alone(tmp_path):
        pass
