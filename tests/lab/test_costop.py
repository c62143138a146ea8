# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor --co-stop`: figures against brute force, and the collector on a fake tracefs."""

import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core import paths
from lab.core.errors import LabError
from lab.operate import doctor, sched_events
from lab.operate.costop import Account, Costop, Event, Lost, State, Switch, Times, Wake
from tests.lab import test_doctor
from tests.lab.test_doctor import run

VMS = {1: (10, 11, 12), 2: (20, 21), 3: (30,)}
SLEEPS, WAITS, RUNS, UNKNOWN = State.SLEEPS, State.WAITS, State.RUNS, State.UNKNOWN


def account(events: list[Event], states: Mapping[int, State], end: int) -> dict[int, Costop]:
    taken = Account(VMS, 0, states)
    for event in events:
        taken.take(event)
    return taken.result(end)


# Figures

def test_a_vcpu_runs_beside_one_that_waits() -> None:
    one = account([Switch(40, 0, 20, True, 99), Switch(70, 0, 99, False, 20)],
                  {20: RUNS, 21: RUNS}, 100)[2]
    assert one.vcpus == (Times(70, 30, 0, 30), Times(100, 0, 30, 0))
    assert (one.ran_beside, one.waited_beside, one.unknown, one.lost) == (0.15, 0.15, 0.0, 0)


def test_one_that_sleeps_holds_nobody_up_until_it_is_woken() -> None:
    events: list[Event] = [Switch(10, 0, 20, False, 0), Wake(60, 1, 20), Switch(80, 0, 0, True, 20),
                           Wake(90, 1, 20)]
    one = account(events, {20: RUNS, 21: RUNS}, 100)[2]
    assert one.vcpus == (Times(30, 20, 0, 20), Times(100, 0, 20, 0))


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    one = account([Wake(50, 0, 20)], {21: RUNS}, 100)[2]
    assert (one.unknown, one.known_ns, one.vcpus[1].ran_ns) == (0.5, 50, 50)
    none = account([], {21: RUNS}, 100)[2]
    assert (none.ran_beside, none.waited_beside, none.unknown) == (None, None, 1.0)
    lost = account([Lost(1, 7), Wake(50, 0, 20), Switch(60, 0, 21, True, 9)],
                   {20: RUNS, 21: RUNS}, 100)[2]
    assert (lost.lost, lost.unknown) == (7, 0.6)


def states_at(moment: int, events: list[Event], first: Mapping[int, State],
              thread: int) -> State:
    """Brute force: all events up to a moment, for one thread."""
    state = first.get(thread, UNKNOWN)
    for event in events:
        if isinstance(event, Lost):
            continue
        if event.at_ns > moment:
            break
        if isinstance(event, Wake):
            state = WAITS if event.thread == thread and state is not RUNS else state
            continue
        if event.left == thread:
            state = WAITS if event.runnable else SLEEPS
        if event.next == thread:
            state = RUNS
    return state


def brute(events: list[Event], first: Mapping[int, State], end: int, vm: int) -> Costop:
    """Nanosecond by nanosecond."""
    times = [Times() for _ in VMS[vm]]
    known = 0
    for moment in range(end):
        now = [states_at(moment, events, first, thread) for thread in VMS[vm]]
        if UNKNOWN in now:
            continue
        known += 1
        for place, state in enumerate(now):
            others = now[:place] + now[place + 1:]
            one = times[place]
            one.ran_ns += state is RUNS
            one.waited_ns += state is WAITS
            one.ran_beside_ns += state is RUNS and WAITS in others
            one.waited_beside_ns += state is WAITS and RUNS in others
    return Costop(tuple(times), known, end - known, 0)


def random_events(chance: random.Random, end: int) -> list[Event]:
    """Also impossible ones: the figures must not depend on that they make sense."""
    threads = [99, *(thread for found in VMS.values() for thread in found)]
    found: list[Event] = []
    for at in sorted(chance.choices(range(end), k=chance.randrange(30))):
        if chance.random() < 0.4:
            found.append(Wake(at, 0, chance.choice(threads)))
        else:
            found.append(Switch(at, chance.randrange(3), chance.choice(threads),
                                chance.random() < 0.5, chance.choice(threads)))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_any_events_give_what_brute_force_gives(seed: int) -> None:
    chance = random.Random(seed)
    end = 60
    events = random_events(chance, end)
    first = {thread: chance.choice([SLEEPS, WAITS, RUNS, UNKNOWN])
             for found in VMS.values() for thread in found if chance.random() < 0.9}
    seen = account(events, first, end)
    assert seen == {vm: brute(events, first, end, vm) for vm in VMS}
    for one in seen.values():
        assert one.known_ns + one.unknown_ns == end
        for times in one.vcpus:
            assert times.ran_beside_ns <= times.ran_ns
            assert times.waited_beside_ns <= times.waited_ns
            assert times.ran_ns + times.waited_ns <= one.known_ns


def test_it_keeps_no_events() -> None:
    taken = Account(VMS, 0, {})
    before = len(repr(taken))
    for at in range(5000):
        taken.take(Switch(at, 0, 10, True, 11))
    assert len(repr(taken)) < before + 200


# Lines

SWITCH = ("       CPU 0/KVM-8       [001] d..2.  1234.567891: sched_switch: prev_comm=CPU 0/KVM"
          " prev_pid=8 prev_prio=120 prev_state=R+ ==> next_comm=a b next_pid=9 next_prio=-1")
WAKE = ("          <idle>-0       [000] dNh3.    12.000001: sched_wakeup: comm=CPU 1/KVM pid=9"
        " prio=120 target_cpu=000")


@pytest.mark.parametrize(("line", "event"), [
    (SWITCH, Switch(1234_567_891_000, 1, 8, True, 9)),
    (SWITCH.replace("R+", "S"), Switch(1234_567_891_000, 1, 8, False, 9)),
    (SWITCH.replace("a b", "x prev_pid=7"), Switch(1234_567_891_000, 1, 8, True, 9)),
    (SWITCH.replace("d..2. ", ""), Switch(1234_567_891_000, 1, 8, True, 9)),
    (WAKE, Wake(12_000_001_000, 0, 9)),
    (WAKE.replace("target", "success=1 target"), Wake(12_000_001_000, 0, 9)),
    ("CPU:3 [LOST 42 EVENTS]", Lost(3, 42)), ("CPU:3 [LOST EVENTS]", Lost(3, 1)),
    ("", None), ("# tracer: nop", None), (SWITCH[:-30], None), (WAKE[20:40], None),
    (SWITCH.replace("sched_switch", "sched_waking"), None),
    (SWITCH.replace("[001]", "[\u0661]"), None)])
def test_lines(line: str, event: Event | None) -> None:
    assert sched_events.parse(line) == event


@pytest.mark.parametrize("seed", range(20))
def test_damaged_lines_are_left_out(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        line = list(chance.choice([SWITCH, WAKE]))
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(line))
            line[place:place + chance.randrange(4)] = chance.choices("\0 9=:[]\udcffR", k=2)
        event = sched_events.parse("".join(line))
        assert event is None or isinstance(event, Switch | Wake)


# The collector

FILES = ("tracing_on", "trace_clock", "buffer_size_kb", "set_event_pid", "trace_pipe",
         "events/sched/sched_switch/enable", "events/sched/sched_wakeup/enable")


def switch(at_s: float, left: int, state: str, following: int) -> str:
    return (f"  x-1  [000] d..2. {at_s:.6f}: sched_switch: prev_comm=x prev_pid={left}"
            f" prev_prio=120 prev_state={state} ==> next_comm=y next_pid={following}"
            " next_prio=120\n")


class Tracefs:
    """A kernel that makes the files of an instance; `pipe` is what it has traced."""

    def __init__(self, fake: test_doctor.Fake, patch: pytest.MonkeyPatch) -> None:
        self.fake, self.pipe = fake, ""
        self.folder = fake.root / "sys/kernel/tracing"
        self.own = self.folder / f"instances/pvsync-{os.getpid()}"
        self.seen: dict[str, str] = {}
        (self.folder / "instances").mkdir(parents=True)
        (self.folder / "events/sched").mkdir(parents=True)
        for tid in (8, 9):
            fake.put(f"proc/7/task/{tid}/stat", f"{tid} (CPU 0/KVM) S 1 1\n")
        real = Path.mkdir

        def mkdir(path: Path, *args: object, **kwargs: object) -> None:
            real(path, *args, **kwargs)  # type: ignore[arg-type]
            if path.parent == self.folder / "instances" and not args and not kwargs:
                self.fill(path)

        patch.setattr(Path, "mkdir", mkdir)
        patch.setattr(sched_events, "remove", self.remove)

    def fill(self, folder: Path) -> None:
        for name in FILES:
            self.fake.put(str((folder / name).relative_to(self.fake.root)), "")
        (folder / "trace_pipe").write_text(self.pipe)

    def remove(self, folder: Path) -> None:
        if folder == self.own:
            self.seen = {name: (folder / name).read_text() for name in FILES
                         if (folder / name).is_file()}
        shutil.rmtree(folder)

    def left(self) -> list[str]:
        return sorted(one.name for one in (self.folder / "instances").iterdir())


@pytest.fixture
def fake(tmp_path: Path) -> test_doctor.Fake:
    return test_doctor.Fake(tmp_path)


@pytest.fixture
def tracefs(fake: test_doctor.Fake, monkeypatch: pytest.MonkeyPatch) -> Tracefs:
    return Tracefs(fake, monkeypatch)


def test_it_traces_the_vcpus_and_leaves_nothing(tracefs: Tracefs) -> None:
    now = time.monotonic()
    tracefs.pipe = "damaged\n" + "".join((
        switch(now, 1, "S", 8), switch(now, 1, "S", 9), switch(now, 9, "R", 1),
        switch(now + 90, 9, "S", 1)))
    (one,) = sched_events.collect(tracefs.fake.host, 0.2).values()
    assert (one.ran_beside, one.waited_beside, one.unknown, one.lost) == (0.5, 0.5, 0.0, 0)
    assert one.known_ns == 200_000_000
    assert tracefs.seen == {
        "tracing_on": "1", "trace_clock": "mono", "buffer_size_kb": "2048",
        "set_event_pid": "8 9", "trace_pipe": tracefs.pipe,
        "events/sched/sched_switch/enable": "1", "events/sched/sched_wakeup/enable": "1"}
    assert tracefs.left() == []


def test_stale_instances_are_removed_and_no_others(tracefs: Tracefs) -> None:
    tracefs.fake.put("proc/77/comm", "pvsync\n")
    for name in ("pvsync-77", "pvsync-78", "pvsync-x", "mine", tracefs.own.name):
        (tracefs.folder / "instances" / name).mkdir()
    sched_events.collect(tracefs.fake.host, 0.01)
    assert tracefs.left() == ["mine", "pvsync-77", "pvsync-x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(5, "damaged")])
def test_nothing_is_left_when_it_fails(tracefs: Tracefs, error: BaseException,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(os, "read", read)
    with pytest.raises((KeyboardInterrupt, LabError)):
        sched_events.collect(tracefs.fake.host, 1.0)
    assert tracefs.left() == [] and tracefs.seen["tracing_on"] == "1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_take_it_away(tmp_path: Path, number: signal.Signals) -> None:
    script = ("import sys, pytest\nfrom pathlib import Path\n"
              "import signal\nfrom lab.cli import main\n"
              "from tests.lab.test_costop import Tracefs, run, test_doctor\n"
              "fake, patch = test_doctor.Fake(Path(sys.argv[1])), pytest.MonkeyPatch()\n"
              "Tracefs(fake, patch)\nsignal.signal(signal.SIGTERM, main._interrupt)\n"
              "sys.exit(run(fake, patch, '--once', '--co-stop', '60'))\n")
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], text=True,
                             stderr=subprocess.PIPE, env={"PYTHONPATH": str(paths.ROOT)})
    pipe = tmp_path / f"sys/kernel/tracing/instances/pvsync-{child.pid}/tracing_on"
    until = time.monotonic() + 60
    while not (pipe.is_file() and pipe.read_text() == "1"):
        assert time.monotonic() < until and child.poll() is None
        time.sleep(0.05)
    child.send_signal(number)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (0, "") and not pipe.parent.exists()


def refused(tracefs: Tracefs) -> str:
    with pytest.raises(LabError) as error:
        sched_events.collect(tracefs.fake.host, 0.01)
    assert "\n" not in str(error.value) and tracefs.left() == []
    return str(error.value)


def test_errors(tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tracefs, "fill", lambda folder: None)
        assert "no event sched:sched_switch" in refused(tracefs)
    with monkeypatch.context() as patch:
        def denied(*_: object) -> int:
            raise PermissionError(1, "Operation not permitted", "/x/trace_pipe")

        patch.setattr(os, "open", denied)
        patch.setattr(sched_events, "remove",
                      lambda folder: subprocess.run(["rm", "-r", folder], check=True))
        assert refused(tracefs) == "/x/trace_pipe cannot be used: run pvsync as root"
    tracefs.fake.put("sys/kernel/security/lockdown", "none integrity [confidentiality]\n")
    assert "lockdown" in refused(tracefs)
    tracefs.fake.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    sched_events.collect(tracefs.fake.host, 0.01)
    (tracefs.fake.root / "sys/kernel/security/lockdown").unlink()
    (tracefs.folder / "events/sched").rmdir()
    (tracefs.folder / "events").rmdir()
    assert "run `mount -t tracefs tracefs" in refused(tracefs)


def test_no_tracing_at_all(fake: test_doctor.Fake) -> None:
    with pytest.raises(LabError, match="this kernel has no tracing"):
        sched_events.collect(fake.host, 0.01)


# What is told

TRACED = Costop((Times(60, 20, 20, 20), Times(80, 0, 20, 0)), 100, 25, 0)


def test_how_it_is_told(fake: test_doctor.Fake) -> None:
    look = replace(fake.look(), traced={7: TRACED})
    text = doctor.text(look)
    assert "\n              ran 20 %, waited 10 %; 20 % unknown\n" in text.replace("9.9", "10")
    assert "estimated from tracepoints" in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 60 and "events were lost" not in text
    assert "\n1 event was lost" in doctor.text(replace(look, traced={7: replace(TRACED, lost=1)}))
    assert "5 events were lost" in doctor.text(replace(look, traced={7: replace(TRACED, lost=5)}))
    assert "one vCPU has no sibling" in doctor.text(replace(look, traced={}))
    assert json.loads(doctor.as_json(look))["vms"][0]["costop_traced"] == {
        "estimated_from": "tracepoints", "lost": 0, "ran_beside": 0.2, "waited_beside": 0.1,
        "unknown": 0.2}
    (row,) = csv.DictReader(io.StringIO(doctor.head(True) + doctor.rows(look, 0.0)))
    assert (row["traced_ran_beside"], row["traced_unknown"], row["traced_lost"]) == (
        "0.2", "0.2", "0")


def test_the_command(tracefs: Tracefs, monkeypatch: pytest.MonkeyPatch,
                     capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tracefs.fake, monkeypatch, "--once", "-s", "0.1", "--co-stop", "0.1") == 0
    assert "estimated from tracepoints" in capsys.readouterr().out.replace("\n", " ")
    (tracefs.folder / "instances").rmdir()
    assert run(tracefs.fake, monkeypatch, "--once", "--co-stop", "0.1") == 1
    assert "too old for --co-stop" in capsys.readouterr().err
