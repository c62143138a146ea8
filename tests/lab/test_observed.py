# SPDX-License-Identifier: GPL-2.0-only
"""From the texts of snapshots to figures, by values computed by hand."""

import random
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core.model import GuestRun, Observe, RunRecord
from lab.observe import counters, figures, histogram, observed
from lab.observe.cpu_waits import Waited
from lab.observe.flushes import Flushes, Times
from lab.observe.histogram import Bins
from lab.observe.observed import Change, Observation, Snapshot
from tests.lab.synthetic import sections

FILES = {
    "/sys/kernel/debug/pvsync/tlb_latency": [
        "mechanism kvmtlb", "calls 3", "wall_ns 95 80", "ran_ns 23 8", "7 1 2", "8 1 1", "80 1 0"],
    "/sys/kernel/debug/pvsync/counters": ["lock_acquisitions 4711", "lock_wait_ns 90"],
    "/sys/kernel/debug/pvsync/lock_waits": ["0 2 0", "9 100 30000", "64 1 18446744073709551615"],
}
TEXT = sections(FILES)
TIMED = {"kvmtlb": Flushes(3, Times(95, 80, {7: 1, 8: 1, 80: 1}), Times(23, 8, {7: 2, 8: 1}))}
WHOLE = Snapshot(
    {"lock_acquisitions": 4711, "lock_wait_ns": 90},
    {0: (2, 0), 9: (100, 30000), 64: (1, 18446744073709551615)},
    {},
    TIMED,
)


def with_counters(*lines: str) -> Snapshot:
    """A snapshot in which the file of counters reads like this."""
    return observed.parse(sections({**FILES, "/sys/kernel/debug/pvsync/counters": list(lines)}))


def test_a_whole_snapshot() -> None:
    assert observed.parse(TEXT) == WHOLE


def test_the_hosts_snapshot() -> None:
    text = sections({"/x/counters": ["spin_events 3"],
                     "/c/pvsync-pmt~2-0/cpu.stat": ["usage_usec 1500000", "user_usec 3",
                                                    "core_sched.force_idle_usec 0"],
                     "/c/pvsync-pmt~2-1/cpu.stat": ["user_usec 3"]})
    seen = observed.parse(text)
    assert seen == Snapshot({"spin_events": 3}, None, {"pvsync-pmt~2-0": 1500000})


def test_a_vms_own_counters_are_not_the_hosts() -> None:
    text = sections({"/x/counters": ["spin_events 3", "preempt_user 9"],
                     "vm/a~2-0/counters": ["preempt_user 5"], "vm/a~2-1/counters": ["preempt_us"]})
    seen = observed.parse(text)
    assert seen.counters == {"spin_events": 3, "preempt_user": 9}
    assert seen.vms == {"a~2-0": {"preempt_user": 5}, "a~2-1": {}}
    reversed_text = sections({"vm/a/counters": ["preempt_user 5"], "/x/counters": ["b 1"]})
    assert observed.parse(reversed_text).counters == {"b": 1}


def test_waits_of_each_vm_for_a_cpu() -> None:
    text = sections({"/x/counters": ["a 3"], "vm/a~2-0/cpu_waits": ["3 2 9000", "longest 7000"],
                     "vm/a~2-0/counters": ["b 5"], "vm/a~2-1/cpu_waits": ["3 2 9000", "longest"],
                     "/x/cpu_waits": ["longest 8"], "vm/a~2-2/cpu_waits": ["longest 0"]})
    seen = observed.parse(text)
    assert seen == Snapshot({"a": 3}, None, {}, vms={"a~2-0": {"b": 5}}, cpu_waits={
        "a~2-0": Waited({3: (2, 9000)}, 7000), "a~2-2": Waited({}, 0)})
    before = Snapshot({}, None, {}, cpu_waits={"a~2-0": Waited({3: (1, 5000)}, 5000)})
    assert observed.between(before, seen).cpu_waits == {
        "a~2-0": Waited({3: (1, 4000)}, 7000), "a~2-2": None}


@pytest.mark.parametrize("missing", FILES)
def test_a_kernel_may_lack_a_file(missing: str) -> None:
    seen = observed.parse(sections({path: rows for path, rows in FILES.items() if path != missing}))
    assert seen == {
        "counters": replace(WHOLE, counters={}),
        "lock_waits": replace(WHOLE, waits=None),
        "tlb_latency": replace(WHOLE, flushes=None),
    }[missing.rpartition("/")[2]]


def test_no_waits_yet_are_not_an_unknown_number_of_them() -> None:
    assert observed.parse(sections({"/x/lock_waits": []})).waits == {}
    assert observed.parse("").waits is None


def test_cut_short_anywhere_gives_no_wrong_value() -> None:
    for at in range(len(TEXT)):
        seen = observed.parse(TEXT[:at])
        assert seen.counters.items() <= WHOLE.counters.items()
        assert seen.waits is None or seen.waits.items() <= (WHOLE.waits or {}).items()
        assert seen.flushes in (None, TIMED)
    assert observed.parse(sections(dict(reversed(FILES.items())))).flushes is None


def test_a_beginning_that_is_lost() -> None:
    assert observed.parse(TEXT[TEXT.index("90"):]) == replace(WHOLE, counters={}, flushes=None)


@pytest.mark.parametrize(("lines", "counted"), [
    (("a 1", "b 2", "b"), {"a": 1, "b": 2}),
    (("a 1", "b 2", "b x", "\ufffd\ufffd"), {"a": 1, "b": 2}),
    (("a 1", "[ 9.1] BUG: soft lockup", "b 2"), {}),
    (("a 1", "b 2c 3", "d 4"), {}),
    (("a 1", "b 2", "a 5"), {}),
    (("a -1", "b 2"), {}),
    (("a 1", "b " + "9" * 5000), {"a": 1}),
    (("a 1", "b \u0663"), {"a": 1}),
])
def test_malformed_lines(lines: tuple[str, ...], counted: dict[str, int]) -> None:
    assert with_counters(*lines) == replace(WHOLE, counters=counted)


def test_a_file_that_comes_in_two_pieces() -> None:
    first, second = (sections({"/x/counters": [line]}) for line in ("a 1", "b 2"))
    assert observed.parse(first + sections({"/x/other": ["a 9"]}) + second).counters == {
        "a": 1, "b": 2}
    assert observed.parse(first + first).counters == {}


def test_binary_junk() -> None:
    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(TEXT.encode())
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        observed.parse(data.decode(errors="replace"))
    assert observed.parse(rng.randbytes(5000).decode(errors="replace")) == observed.parse("")


def test_difference() -> None:
    before = Snapshot({"a": 5, "b": 9, "gone": 1}, {3: (1, 6), 5: (2, 40)}, {"g": 7}, {})
    after = Snapshot({"a": 8, "b": 8, "new": 1}, {3: (4, 21), 5: (2, 40), 7: (1, 99)},
                     {"g": 10, "h": 1}, TIMED)
    assert observed.between(before, after) == Change(
        {"a": 3, "b": None, "gone": None, "new": None}, {3: (3, 15), 7: (1, 99)},
        {"g": 3, "h": None}, TIMED)
    assert observed.between(replace(before, flushes=None), after).flushes is None
    vms = [replace(side, vms=own) for side, own in (
        (before, {"x": {"a": 1, "b": 2}, "gone": {"a": 1}}), (after, {"x": {"a": 4, "b": 1}}))]
    assert observed.between(*vms).vms == {"x": {"a": 3, "b": None}, "gone": {"a": None}}


@pytest.mark.parametrize("waits", [{3: (0, 6)}, {3: (1, 5)}, {}, None])
def test_a_histogram_that_went_backwards_is_unknown(waits: Bins | None) -> None:
    before = Snapshot({}, {3: (1, 6)}, {"g": 5})
    change = observed.between(before, Snapshot({}, waits, {"g": 4}))
    assert change.waits is None and change.cpu_usec == {"g": None}


def guest(wait: int, stolen: int, halted: int, **more: int | None) -> Change:
    return Change({"lock_acquisitions": 10, "lock_wait_ns": wait, "lock_stolen_ns": stolen,
                   "lock_halted_ns": halted, **more}, None, {})


def run_of(*guests: Change, host: dict[str, int | None] | None = None,
           cpu_s: tuple[float | None, ...] = (), seconds: float = 4.0) -> Observation:
    return Observation(guests, host or {}, cpu_s, 2 * seconds, seconds, ())


def test_spinning() -> None:
    one, two = guest(900, 300, 100), guest(100, 0, 100)
    assert figures.spinning(run_of(one, two, cpu_s=(2e-6, 3e-6))) == pytest.approx(500 / 5000)
    assert figures.spinning(run_of(one, cpu_s=(2e-6,))) == pytest.approx(0.25)
    for unknown in (guest(1, 0, 0, lock_halted_ns=None), guest(1, 0, 0, lock_stolen_ns=None),
                    guest(1, 0, 0, lock_wait_ns=None), Change({}, None, {})):
        assert figures.spinning(run_of(one, unknown, cpu_s=(1, 1))) is None
    assert figures.spinning(run_of(one, two, cpu_s=(1, None))) is None
    assert figures.spinning(run_of(guest(0, 0, 0, lock_acquisitions=0), cpu_s=(1,))) is None
    assert figures.spinning(run_of(guest(0, 0, 0), cpu_s=(0,))) is None


def test_share_deviation() -> None:
    assert figures.share_deviation(run_of(cpu_s=(1.0, 2.0, 3.0))) == pytest.approx(0.5)
    assert figures.share_deviation(run_of(cpu_s=(2.0, 2.0, 5.0))) == pytest.approx(2 / 3)
    for unknown in ((), (1.0,), (1.0, None, 2.0), (0.0, 0.0)):
        assert figures.share_deviation(run_of(cpu_s=unknown)) is None


def test_pause_figures() -> None:
    counted: dict[str, int | None] = {
        "spin_filter": 150, "spin_soft": 50, "spin_windows": 1_638_400, "epochs": 3,
        "spin_handling_ns": 400_000, "epoch_spun_ns": 30, "epoch_handling_ns": 20,
        "epoch_cpu_ns": 1000, "pause_exits": 900, "pause_spins": 90, "pause_cycles": 9000,
        "pick_resource": 50, "pick_lock": 25, "pick_yielded": 10, "pick_section": 5,
        "pick_none": 10}
    seen = run_of(host=counted)
    named = dict(zip(figures.PAUSE_FIGURES, figures.pause_figures(seen), strict=True))
    assert named == pytest.approx({
        "spins/s": 50, "window": 8192, "handling us": 2, "epochs": 3, "inefficiency %": 5,
        "PAUSEs/spin": 10, "cycles/PAUSE": 10, "resource %": 50, "lock %": 25, "yielded %": 10,
        "section %": 5, "nobody %": 10})
    assert figures.pause_figures(run_of()) == (None,) * len(figures.PAUSE_FIGURES)
    idle = figures.pause_figures(run_of(host=dict.fromkeys(counted, 0)))
    assert idle == (0, None, None, 0, *(None,) * 8)


def test_spin_figures() -> None:
    counted: dict[str, int | None] = {
        "spin_events": 200, "spin_candidates": 500, "spin_ns": 160_000_000, "yield_attempted": 80,
        "yield_refused": 20, "yield_denied": 3, "yield_picked": 40, "yield_moved": 4,
        "yield_ran": 8}
    seen = run_of(host=counted, cpu_s=(1.0, 3.0))
    named = dict(zip(figures.SPIN_FIGURES, figures.spin_figures(seen), strict=True))
    assert named == pytest.approx({
        "events/s": 50, "candidates/event": 2.5, "attempted": 80, "accepted %": 75,
        "picked %": 50, "moved %": 5, "ran %": 10, "denied": 3, "handling %": 2, "deviation %": 50})
    none = figures.spin_figures(run_of())
    assert none == (None,) * len(figures.SPIN_FIGURES)
    idle = figures.spin_figures(run_of(host=dict.fromkeys(counted, 0)))
    assert idle == (0, None, 0, None, None, None, None, 0, 0, None)


def test_flush_figures() -> None:
    counted: dict[str, int | None] = {
        "tlb_calls": 100, "tlb_running": 20, "tlb_preempted": 80, "tlb_halted": 90,
        "tlb_in_host": 10, "tlb_merged": 50, "tlb_full": 70, "tlb_pages": 16, "tlb_refused": 1,
        "tlb_awaited": 6, "tlb_ns": 1_600_000}
    seen = run_of(host=counted, seconds=4.0)
    named = dict(zip(figures.FLUSH_FIGURES, figures.flush_figures(seen), strict=True))
    assert named == pytest.approx({
        "calls/s": 25, "targets/call": 2, "running %": 10, "preempted %": 40, "halted %": 45,
        "in host %": 5, "merged %": 25, "awaited %": 3, "full": 70, "pages": 16, "refused": 1,
        "us/call": 16, "handling %": 0.02})
    assert figures.flush_figures(run_of()) == (None,) * len(figures.FLUSH_FIGURES)
    idle = figures.flush_figures(run_of(host=dict.fromkeys(counted, 0)))
    assert idle == (0, None, None, None, None, None, None, None, 0, 0, 0, None, 0)
    lost = figures.flush_figures(run_of(host=counted | {"tlb_halted": None}))
    assert lost[1:6] == (None,) * 5 and lost[0] == 25


def test_a_run() -> None:
    guests = (GuestRun("pmt-0", 10.0, 12.0, 2.0, 0, ""), GuestRun("pmt-1", 10.5, 14.0, 3.5, 0, ""))
    run = RunRecord("r", 0, 0, 0, "pmt", "w", 2, 2, 3, True, "", guests, 1.0)
    made = {"pmt-0": Change({"a": 1}, None, {}, {}), "pmt-1": Change({"a": 2}, None, {}, TIMED),
            "host": Change({"b": 3}, None, {"pvsync-pmt-1": 2_500_000, "pvsync-x": 1})}
    seen = observed.observation(run, made.__getitem__, ["pmt-0", "pmt-1"])
    assert seen == Observation(
        (made["pmt-0"], made["pmt-1"]), {"b": 3}, (None, 2.5), 12.0, 4.0, ({}, TIMED), ({}, {}),
        epochs=((), ()), cpu_waits=(None, None))
    beside = observed.observation(run, made.__getitem__, ["pmt-0"])
    assert beside == replace(seen, flushes=({},))
    made["host"] = replace(made["host"], vms={"pmt-1": {"c": 3}, "else": {"c": 9}})
    own = observed.observation(run, made.__getitem__, ["pmt-0"])
    assert own == replace(beside, vms=({}, {"c": 3}))
    waited: dict[str, Waited | None] = {"pmt-1": Waited({}, 0), "else": Waited({}, 1)}
    made["host"] = replace(made["host"], cpu_waits=waited)
    told = observed.observation(run, made.__getitem__, ["pmt-0"])
    assert told == replace(own, cpu_waits=(None, Waited({}, 0)))


def test_sums() -> None:
    assert figures.total([{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": None}]) == {
        "a": 5, "b": None, "c": None}
    assert figures.total([]) == {}
    assert histogram.total([{9: (1, 300), 3: (1, 5)}, {9: (2, 700)}]) == (
        (3, 1, 5), (9, 3, 1000))
    assert histogram.total([{9: (1, 300)}, None]) == ()
    assert figures.middle([None, 3.0, 1.0, None, 8.0]) == 3.0
    assert figures.middle([None]) is None


def test_descriptions_are_read_from_the_kernels_list(tmp_path: Path) -> None:
    text = ('/* with PVSYNC_COUNTER(name, about) */\nPVSYNC_COUNTER(a_b, "one")\n'
            'PVSYNC_COUNTER_NS(c,\n\t"two " "\\"three\\"")\n'
            '#define PVSYNC_COUNTER(name, about) x\n')
    assert counters.parse(text) == {"a_b": "one", "c": 'two "three"'}
    (tmp_path / "list.h").write_text(text)
    assert list(counters.descriptions(tmp_path / "list.h")) == ["a_b", "c"]


def test_the_kernels_list() -> None:
    """All of it is read, and counters of time and of cycles say so in KVM's statistics, too."""
    listed = counters.descriptions()
    assert listed["lock_acquisitions"].startswith("spinlock acquisitions")
    text = counters.LIST.read_text()
    kinds = {name: kind for kind, name in re.findall(r"^PVSYNC_COUNTER(\w*)\((\w+),", text, re.M)}
    assert list(listed) == list(kinds)
    for name, kind in kinds.items():
        assert (kind == "_NS") == name.endswith("_ns"), name
        assert (kind == "_CYCLES") == ("cycles" in listed[name]), name


def test_commands_quote_and_name_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "DEBUGFS", "/a b")
    switched = "for file in '/a b/lock_stat' '/a b/tlb_stat' '/a b/park_stat'; do"
    assert switched in observed.switch_on(True)
    files = shlex.split(observed.guest_snapshot(True, "after"))
    assert files[4:7] == ["/a b/tlb_latency", "/a b/lock_waits", "/a b/counters"]
    assert "/sys/fs/cgroup/pvsync-x-0/cpu.stat" in observed.host_snapshot({"x-0": "", "x-1": ""})


def shell(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True,
                          check=True).stdout


@pytest.mark.parametrize(("observe", "switched", "read"), [
    ("locks", "100", ["lock_waits", "counters"]),
    ("tlb", "010", ["tlb_latency", "counters"]),
    ("ecs", "001", ["counters"]),
    (True, "111", ["tlb_latency", "lock_waits", "counters"]),
])
def test_what_is_observed_is_switched_on_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observe: Observe, switched: str,
    read: list[str]
) -> None:
    folder = tmp_path / "debug fs"
    monkeypatch.setattr(observed, "DEBUGFS", str(folder))
    folder.mkdir()
    switches = ("lock_stat", "tlb_stat", "park_stat")
    for file in (*switches, "lock_waits", "tlb_latency", "counters"):
        (folder / file).write_text("0\n")
    shell(observed.switch_on(observe))
    assert "".join((folder / what).read_text()[0] for what in switches) == switched
    (folder / "tlb_latency").write_text("mechanism ipi\n")
    for when, cleared in (("after", False), ("before", observe in ("tlb", True))):
        text = shell(observed.guest_snapshot(observe, when))
        assert observed.HEADING.findall(text) == [f"{folder}/{file}" for file in read]
        assert ((folder / "tlb_latency").read_text() == "0\n") is cleared


def test_the_hosts_snapshot_has_each_vms_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "DEBUGFS", str(tmp_path / "pvsync"))
    monkeypatch.setattr(observed, "CGROUPS", str(tmp_path / "groups"))
    for file, text in (("pvsync/counters", "a 3\n"),
                       ("groups/pvsync-x-1/cpu.stat", "usage_usec 7\n"),
                       ("vm s/12-5/pvsync/counters", "a 1\n"),
                       ("vm s/13-5/pvsync/counters", "a 2\nb 8\n")):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    folders = {f"x-{n}": str(tmp_path / f"vm s/{pid}-5") for n, pid in enumerate((12, 13, 14))}
    seen = observed.parse(shell(f"{observed.host_snapshot(folders | {'x-3': ''})}; true"))
    assert seen == Snapshot({"a": 3}, None, {"pvsync-x-1": 7},
                            vms={"x-0": {"a": 1}, "x-1": {"a": 2, "b": 8}, "x-2": {}})


def test_waits_for_a_cpu_are_cleared_before_a_run(tmp_path: Path) -> None:
    for pid in (12, 13):
        (tmp_path / f"vm s/{pid}-5/pvsync").mkdir(parents=True)
    file = tmp_path / "vm s/12-5/pvsync/cpu_waits"
    file.write_text("3 2 9000\nlongest 7000\n")
    folders = {f"x-{n}": str(tmp_path / f"vm s/{pid}-5") for n, pid in enumerate((12, 13, 14))}
    seen = observed.parse(shell(f"{observed.host_snapshot(folders, 'after')}; true"))
    assert seen.cpu_waits == {"x-0": Waited({3: (2, 9000)}, 7000)}
    assert file.read_text().endswith("longest 7000\n")
    shell(f"{observed.host_snapshot(folders, 'before')}; true")
    assert file.read_text() == "0\n"
    assert not (tmp_path / "vm s/13-5/pvsync/cpu_waits").exists()


def test_the_hosts_first_snapshot_has_what_was_left_after_clearing(tmp_path: Path) -> None:
    """A wait that ends meanwhile is no wait of the run."""
    (tmp_path / "pvsync").mkdir()
    (tmp_path / "pvsync/cpu_waits").write_text("longest 0\n")
    command = observed.host_snapshot({"x-0": str(tmp_path)}, "before")
    clear, keep, rest = command.split("; ", 2)
    assert "/pvsync/epochs" in keep
    assert shell(f"{clear}; cat {tmp_path}/pvsync/cpu_waits") == "0\n"
    (tmp_path / "pvsync/cpu_waits").write_text("1 1 1500\nlongest 1500\n")
    assert observed.parse(shell(f"{rest}; true")).cpu_waits == {"x-0": Waited({1: (1, 1500)}, 1500)}


def test_switching_on_fails_when_one_of_them_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "DEBUGFS", str(tmp_path))
    (tmp_path / "tlb_stat").write_text("0\n")
    (tmp_path / "lock_stat").mkdir()
    assert subprocess.run(["sh", "-c", observed.switch_on(True)], stderr=subprocess.DEVNULL,
                          check=False).returncode
    (tmp_path / "lock_stat").rmdir()
    assert subprocess.run(["sh", "-c", observed.switch_on(True)], check=False).returncode == 0
    assert (tmp_path / "tlb_stat").read_text() == "1\n" and not (tmp_path / "lock_stat").exists()
