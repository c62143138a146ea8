# SPDX-License-Identifier: GPL-2.0-only
"""What VMs take over sharing without loss: from a group's CPU time to the table."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from vm import Failure, Guest

from lab.core.model import Workload
from lab.report import markdown, opening, published, report, table
from lab.report.summary import Summary, as_json, load, summarize
from tests.lab.synthetic import HACKBENCH, THROUGHPUT, Synthetic

LOSS = {"a": 1.2, "b": 1.0}
RATES = {"a": 1 / 1.2, "b": 1.0}
CAPTION = "time over what sharing without loss takes, on average over 1 workload"


def times(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
    """2 CPUs: `a` takes a fifth more than N times one VM's time at several VMs, `b` does not."""
    return (vms * LOSS[scheme] if vms > 1 else 1) * (1 + 1e-4 * rng.random())


def rates(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
    """The same as rates."""
    return (RATES[scheme] / vms if vms > 1 else 1) * (1 + 1e-4 * rng.random())


def made(directory: Path, busy: float | None, workload: Workload = HACKBENCH,
         vms: tuple[int, ...] = (1, 2, 3)) -> Summary:
    value = times if workload.better == "lower" else rates
    return summarize(load(Synthetic(("a", "b"), workload, vms=vms, value=value, busy=busy, reps=1,
                                    boots=5).write(directory)))


@pytest.mark.parametrize("workload", [HACKBENCH, THROUGHPUT])
@pytest.mark.parametrize(("busy", "two", "three"), [
    (2.0, 1.2, 1.2), (None, 1.2, 1.2), (1.5, 1.6, 1.6), (1.0, 2.4, 2.4), (0.5, 2.4, 3.6)])
def test_times(tmp_path: Path, workload: Workload, busy: float | None, two: float,
               three: float) -> None:
    """N VMs that keep B of 2 CPUs busy alone need N * B / 2 times as long, but once at least."""
    found = {(one.scheme, one.vms): one for one in made(tmp_path, busy, workload).ideals}
    assert [*found] == [("a", 2), ("a", 3), ("b", 2), ("b", 3)]
    for vms, expected in ((2, two), (3, three)):
        a, b = found["a", vms], found["b", vms]
        assert 1 / a.speedup == pytest.approx(expected, rel=1e-3)
        assert 1 / b.speedup == pytest.approx(expected / 1.2, rel=1e-3)
        assert a.interval and a.interval[0] < a.speedup < a.interval[1]


def test_it_is_said(tmp_path: Path) -> None:
    summary = made(tmp_path, 1.5)
    grid = opening.ideals(summary)
    assert grid and (grid.caption, grid.columns) == (CAPTION, ["2 VMs", "3 VMs"])
    assert [label for label, _ in grid.rows] == ["a", "b"] and grid.rows[0][1][0] == \
        "1.60 [1.60, 1.60]"
    assert "CPUs that one VM alone keeps busy: hackbench 1.50" in grid.notes[0]
    assert "Nothing that only cures waiting brings more than a's figure" in grid.notes[1]
    assert f"**{CAPTION}**" in "\n".join(markdown.verdict(summary))
    assert CAPTION in report.html(summary, [])
    assert CAPTION in " ".join(table.as_text(summary).split())
    assert len(json.loads(as_json(summary))["ideals"]) == 4
    kept = published.trimmed(summary).summary()
    assert opening.ideals(kept) == grid


def test_where_the_cpu_time_is_not_known(tmp_path: Path) -> None:
    grid = opening.ideals(made(tmp_path, None))
    assert grid and len(grid.notes) == 1 and "times the overcommit" in grid.notes[0]


@pytest.mark.parametrize(("cpu", "busy"), [(9.0, 2.0), (2.0, 1.5), (1.5, 1.0), (0.75, 0.5)])
def test_the_start_of_a_program_takes_one_cpu(tmp_path: Path, cpu: float, busy: float) -> None:
    """Half a second of a run of 1.5 s is the program's start."""
    directory = Synthetic(("a",), vms=(1,), value=lambda *_: 1.0, reps=1, boots=3).write(tmp_path)
    lines = [json.loads(line) for line in (directory / "runs.jsonl").read_text().splitlines()]
    for line in lines:
        line["guests"][0] |= {"ended": line["guests"][0]["began"] + 1.5, "cpu": cpu}
    (directory / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert summarize(load(directory)).cell("a", "hackbench", 1).busy == pytest.approx(busy)


def test_nothing_without_one_vm(tmp_path: Path) -> None:
    summary = made(tmp_path, 2.0, vms=(2, 3))
    assert not summary.ideals and opening.ideals(summary) is None


def test_all_vms_have_to_be_known(tmp_path: Path) -> None:
    directory = Synthetic(("a",), vms=(1, 2), value=lambda *_: 1.0, busy=1.5, reps=1,
                          boots=3).write(tmp_path)
    lines = [json.loads(line) for line in (directory / "runs.jsonl").read_text().splitlines()]
    for line in lines:
        if line["vms"] == 2:
            line["guests"][1]["cpu"] = None
    (directory / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = summarize(load(directory))
    assert summary.cell("a", "hackbench", 1).busy == pytest.approx(1.5)
    assert summary.cell("a", "hackbench", 2).busy is None


class Agent:
    """Answers `go` as a guest does, while its group's time goes on."""

    def __init__(self, guest: Guest, stat: Path, last: list[str]) -> None:
        self.guest, self.stat, self.last = guest, stat, last

    def write(self, line: bytes) -> None:
        assert line == b"go t repeat\n"
        asyncio.get_running_loop().create_task(self.goes_on())

    async def goes_on(self) -> None:
        self.guest._heard(["began", "t"])
        await asyncio.sleep(0.01)
        self.stat.write_text("usage_usec 1250000\nuser_usec 0\n")
        self.guest._heard(self.last)


def measured(folder: Path, last: list[str], group: bool = True) -> dict[str, Any]:
    """What a guest's measured command leaves behind."""
    async def run() -> dict[str, Any]:
        guest, stat, note = Guest("g", folder), folder / "cpu.stat", dict[str, Any]()
        stat.write_text("usage_usec 1000000\nuser_usec 0\n")
        guest.cgroup = folder if group else None
        guest.agent = Agent(guest, stat, last)  # type: ignore[assignment]
        await guest.measure(note, "t", "repeat")
        return note
    return asyncio.run(run())


def test_the_group_tells_its_cpu_time(tmp_path: Path) -> None:
    note = measured(tmp_path, ["ended", "t", "0", "70000"])
    assert (note["cpu"], note["status"], note["elapsed"]) == (0.25, 0, 0.07)
    assert note["began"] < note["ended"]


def test_without_a_group_nothing_is_known(tmp_path: Path) -> None:
    note = measured(tmp_path, ["ended", "t", "3", "70000"], group=False)
    assert "cpu" not in note and note["status"] == 3


def test_a_guest_that_dies_tells_nothing(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="guest g died"):
        measured(tmp_path, ["gone"])
