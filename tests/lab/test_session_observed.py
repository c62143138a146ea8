# SPDX-License-Identifier: GPL-2.0-only
"""What sessions note while guests run: snapshots of counters, and windows."""

import asyncio
import runpy
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lab.build import images
from lab.machine.machine import HOSTD, HostSpec
from lab.observe import observed, windows
from lab.report.summary import load, summarize
from lab.run import records
from lab.run.runner import Options, _manifest
from tests.lab.sessions import counting, experiment, go, kernel, requests, spec
from tests.lab.synthetic import latency_lines

__all__ = ["kernel", "spec"]


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

    def used_us(self) -> int | None:
        return None


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
    around = ["read", "before", "before", "exec", "round", "after", "after", "exec", *proof,
              "switch"]
    places = [i for i in range(len(asked)) if asked[i:i + len(around)] == around]
    assert len(places) == len(records.runs(tmp_path)) == 2
    # The first run follows one that warms up. After it the guests stand still until the second.
    first, second = places
    assert asked[first - 3:first] == ["switch", *proof] and asked[second - 1] == "switch"
    assert asked.count("in-force") == 3 * len(proof)
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
