# SPDX-License-Identifier: GPL-2.0-only
"""Whether guests saw the marks of preempted vCPUs that their host says it gives."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core.model import Scheme
from lab.machine.machine import HostSpec
from lab.observe import marks
from lab.observe.marks import Tally, unseen
from lab.observe.preemptions import KINDS
from lab.run import records
from tests.lab.sessions import experiment, go, spec

__all__ = ["spec"]
NOTHING = Tally(0, 0, 0, 0, 0, 100.0)
LOST = Tally(looks=2000, seen=0, marked=1000, delay_ns=20_000_000_000, turns=2000, uptime_s=120.0)
"""20 s of two vCPUs, each without a CPU half of the time, for 10 ms at once; half are marked."""


def vm(lost: int, unmarked: int, *threads: tuple[int, int], uptime: str = "7.25") -> str:
    """What a host says of a VM: vCPUs preempted, and the waits and turns of its threads."""
    counted = dict.fromkeys((f"preempt_{kind}" for kind in (*KINDS, "yielded")), 0)
    counted |= {"preempt_user": lost, "preempt_unmarked": unmarked, "yield_unmarked": 0}
    return "".join((*(f"{name} {n}\n" for name, n in counted.items()),
                    *(f"5 {delay} {turns}\n" for delay, turns in threads), f"uptime {uptime}\n"))


def said(*vms: str) -> str:
    """The same of several, g-0 and on."""
    return "".join(f"==> g-{i} <==\n{text}" for i, text in enumerate(vms))


def test_what_is_read() -> None:
    text = said(vm(30, 4, (7, 2), (9, 3)), vm(1, 1, (1, 1)), "", vm(5, 0), vm(5, 0, (1, 1)))
    told = {"g-0": "lock pmt\nmark_looks 50\nmark_seen 6\n", "g-1": "mark_looks 2\nmark_seen 0\n",
            "g-2": "mark_looks 2\nmark_seen 0\n", "g-3": "mark_looks 2\nmark_seen 0\n",
            "g-4": "lock pmt\n"}
    assert marks.tallies(text, told) == {"g-0": Tally(50, 6, 26, 16, 5, 7.25),
                                         "g-1": Tally(2, 0, 0, 1, 1, 7.25)}
    assert marks.tallies("", told) == {} == marks.tallies(text, {})


def test_the_hosts_command(tmp_path: Path) -> None:
    """With a folder as KVM has them, whose vCPU's thread is one of this machine."""
    folder = tmp_path / "12-3"
    (folder / "pvsync").mkdir(parents=True)
    (folder / "pvsync/counters").write_text(vm(3, 1).partition("uptime")[0])
    (folder / "vcpu0").mkdir()
    (folder / "vcpu0/pid").write_text("1\n")
    command = marks.host_command({"g-0": str(folder), "g-1": "/nowhere"})
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    found = marks.tallies(done.stdout, dict.fromkeys(("g-0", "g-1"), "mark_looks 9\nmark_seen 0"))
    assert found.keys() == {"g-0"} and found["g-0"].marked == 2 and found["g-0"].turns > 0


@pytest.mark.parametrize(("host", "value"), [
    ({}, ""), ({"mark": "kvm"}, ""), ({"mark": "yield"}, ""), ({"vm.mark": "exit"}, "exit"),
    ({"mark": "exit", "vm.mark": "kvm"}, ""), ({"extend": "ecs"}, ""),
])
def test_who_promises(host: dict[str, str], value: str) -> None:
    assert marks.promised(host) == value


def test_no_mark_where_hundreds_are_to_be_seen() -> None:
    """A quarter of the looks."""
    told = unseen({"g-0": NOTHING}, {"g-0": LOST}, 2)
    assert told == ("the host says that it marks preempted vCPUs, but its guests saw no mark in"
                    " 2000 looks, where some 500 vCPUs with a mark were to be seen")


@pytest.mark.parametrize("changes", [
    {"seen": 1}, {"looks": 0}, {"looks": 100}, {"marked": 0}, {"marked": 50}, {"turns": 0},
    {"delay_ns": 0}, {"delay_ns": 1_000_000_000}, {"uptime_s": 100.0},
], ids=str)
def test_nothing_to_be_demanded(changes: dict[str, float]) -> None:
    """A mark; too few looks, marks or waits for one to be certain; no time at all."""
    assert not unseen({"g-0": NOTHING}, {"g-0": replace(LOST, **changes)}, 2)  # type: ignore[arg-type]


def test_guests_count_together() -> None:
    few = replace(LOST, looks=300)
    one, both = {"g-0": few}, {"g-0": few, "g-1": few}
    assert not unseen(dict.fromkeys(one, NOTHING), one, 2)
    assert unseen(dict.fromkeys(both, NOTHING), both, 2)
    assert not unseen(dict.fromkeys(both, NOTHING), both | {"g-1": replace(few, seen=1)}, 2)


def test_guests_whose_numbers_went_back_or_are_missing() -> None:
    """They were booted anew, restored or killed meanwhile; the others are judged."""
    assert not unseen({"g-0": LOST}, {"g-0": NOTHING}, 2)
    assert not unseen({}, {"g-0": LOST}, 2) and not unseen({"g-0": NOTHING}, {}, 2)
    before = {"g-0": LOST, "g-1": NOTHING}
    assert unseen(before, {"g-0": NOTHING, "g-1": LOST}, 2)


def test_waits_that_last_count_once() -> None:
    """As many looks at ten waits of 2 s each find nothing new."""
    assert not unseen({"g-0": NOTHING}, {"g-0": replace(LOST, marked=20, turns=20)}, 2)


def promising(marked: str) -> Scheme:
    """Whose host marks, and whose guest adds so many looks and marks each time."""
    return Scheme("marked", "", (f"fake_marks={marked}",), {"mark": "exit"}, label="marked")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that preempts and marks 1,000 vCPUs each time that it is asked."""
    parameter, asked = tmp_path / "mark", tmp_path / "asked"
    parameter.write_text("kvm\n")
    asked.write_text("")
    monkeypatch.setattr("lab.run.parameters.parameter_file", lambda name: str(parameter))
    texts = [tmp_path / f"said-{n}" for n in range(20)]
    for n, text in enumerate(texts):
        waits = (n * 20_000_000_000, n * 2000)
        text.write_text("==> marked-0 <==\n" + vm(n * 1000, 0, waits, uptime=f"{n * 20}.00"))
    file = shlex.quote(str(asked))
    command = f"echo x >>{file}; cat {shlex.quote(str(tmp_path))}/said-$(wc -l <{file})"
    monkeypatch.setattr("lab.observe.marks.host_command", lambda folders: command)


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(("marked", "reason"), [
    ("2000:0", "its guests saw no mark in 2000 looks"), ("2000:1", ""), ("20:0", ""), ("", "")])
def test_runs(spec: HostSpec, tmp_path: Path, marked: str, reason: str) -> None:
    what = replace(experiment(vms=(1,), repeats=0), schemes=(promising(marked),))
    assert go(what, spec, tmp_path / "out") == (not reason)
    (run,) = records.runs(tmp_path / "out")
    assert reason in run.reason and bool(run.reason) == bool(reason)


@pytest.mark.usefixtures("host")
def test_parameters_that_change_meanwhile_promise_nothing(spec: HostSpec, tmp_path: Path) -> None:
    what = replace(experiment(vms=(1,), repeats=0), schemes=(promising("2000:0"),),
                   disturb=("parameters",), disturb_ms=50)
    go(what, spec, tmp_path / "out")
    assert all("saw no mark" not in run.reason for run in records.runs(tmp_path / "out"))
