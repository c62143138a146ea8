# SPDX-License-Identifier: GPL-2.0-only
"""Everything that reads a text which a user, a guest, a host or a full disk may have damaged.

Either the value comes out that was written, or "unknown", or the lab's own error; never
another exception and never another value. `--examples N` makes up more.
"""

import asyncio
import json
import math
import runpy
import shutil
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.build import base, series
from lab.core import paths
from lab.core.decode import DecodeError, decode, read_json, read_toml
from lab.core.errors import LabError, UsageError
from lab.core.model import BootRecord, GuestRun, RunRecord
from lab.machine import backend, console
from lab.machine.control import Control, HostLost, Refused
from lab.machine.machine import HOSTD
from lab.observe import counters, cpu_waits, figures, flushes, observed, top, vms, windows
from lab.plan import config, kconfig
from lab.report import table
from lab.report.summary import as_json, load, summarize
from lab.run import parse
from tests import run_all
from tests.lab.damage import any_or_damaged, damaged, interleaved
from tests.lab.synthetic import Counted, Synthetic, cpu_wait_lines, latency_lines, sections

DATA = Path(__file__).parent / "data"
LINE = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b""))
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(0, 10**20 - 1)
RUNS = st.builds(
    RunRecord, id=st.text(), boot=st.integers(0, 99), rep=st.integers(0, 99),
    attempt=st.integers(0, 99), scheme=st.text(), workload=st.text(), vms=st.integers(1, 64),
    vcpus=st.integers(1, 64), pcpus=st.integers(1, 64), valid=st.booleans(), reason=st.text(),
    overlap=FLOAT,
    guests=st.lists(st.builds(
        GuestRun, guest=st.text(), began=FLOAT, ended=st.none() | FLOAT, elapsed=FLOAT,
        status=st.none() | st.integers(0, 255), output=st.text()), max_size=3).map(tuple))


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """One folder for all examples of a property: pytest's own would be made anew for each."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


# Consoles


@given(st.binary())
def test_any_console(data: bytes) -> None:
    found = console.scan(data)
    assert all(0 < len(one.text) <= 160 for one in found)
    assert [one.line for one in found] == sorted({one.line for one in found})


@given(st.lists(LINE), st.lists(LINE), st.sampled_from([b"", b"\x1bc", b"\x1b[0m", b"\0\0"]))
def test_trouble_is_found_among_anything(before: list[bytes], after: list[bytes],
                                         sign: bytes) -> None:
    text = b"\n".join([*before, sign + b"BUG: scheduling while atomic", *after])
    assert "BUG: scheduling while atomic" in {one.text for one in console.scan(text)}


@given(st.lists(st.one_of(LINE, st.sampled_from([
    b"[  1.0] BUG: bad", b"[  1.0] WARNING: Spectre", b"Oops", b"\xe2\x82\xac"]))),
    st.lists(st.integers(0, 400)))
def test_a_console_that_is_read_in_pieces(lines: list[bytes], cuts: list[int]) -> None:
    text, tail, found, begin = b"\n".join(lines), b"", set(), 0
    for end in [*sorted(cuts), len(text)]:
        some, tail = console.follow(tail, text[begin:end])
        found |= {one.text for one in some}
        begin = max(begin, end)
    assert found >= {one.text for one in console.scan(text)}


# Workloads' outputs


RECORDED = [(name, file) for name, file in (
    ("hackbench", "hackbench.out"), ("hackbench", "hackbench-noise.out"),
    ("sysbench-threads", "sysbench-threads.out"), ("dbench-tmpfs", "dbench-tmpfs.out"),
    ("stress-futex", "stress-futex.out"), ("stress-tlb", "stress-tlb.out"),
    ("web-server", "wrk.out"), ("locktorture", "locktorture.out"))]


@pytest.mark.parametrize(("name", "file"), RECORDED)
def test_outputs_cut_at_every_byte(name: str, file: str) -> None:
    workload, data = config.workloads()[name], (DATA / file).read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte in b"\r\n"]
    whole = {parse.figure(workload, parse.as_text(data[:end]), None).value for end in ends}
    assert any(whole)
    for end in range(len(data)):
        found = parse.figure(workload, parse.as_text(data[:end]), None)
        assert found.value in whole and (found.value is None) == bool(found.reason), end


@given(st.data(), st.sampled_from(RECORDED))
def test_damaged_outputs(data: st.DataObject, recorded: tuple[str, str]) -> None:
    name, file = recorded
    text = parse.as_text(data.draw(any_or_damaged((DATA / file).read_bytes())))
    found = parse.figure(config.workloads()[name], text, None)
    assert found.reason.isprintable()
    assert found.reason if found.value is None else 0 < found.value < math.inf


@pytest.mark.parametrize("text", ["1_0", "١", "nan", "inf", "0x1", "1,5", "", "1e999", "-"])
def test_what_is_no_figure(text: str) -> None:
    workload = replace(config.workloads()["hackbench"], pattern=r"Time: (?P<value>.*)")
    assert parse.figure(workload, f"Time: {text}\n", None).value is None
    optional = replace(workload, pattern=r"Time: (?P<value>x)?")
    assert parse.figure(optional, "Time: 5\n", None).value is None


# Records


@given(RUNS)
def test_a_record_and_back(run: RunRecord) -> None:
    assert decode(RunRecord, read_json(json.dumps(asdict(run)))) == run


@given(st.text() | st.sampled_from(["[" * 99_999, "9" * 5000, '{"a": 1, "a": 2}', "NaN"]))
def test_any_json(text: str) -> None:
    with suppress(json.JSONDecodeError, DecodeError):
        decode(BootRecord, read_json(text))


@given(st.text() | st.sampled_from(["a = " + "[" * 9999, "a = " + "9" * 5000, "a = 1\na = 2"]))
def test_any_toml(text: str) -> None:
    with suppress(DecodeError):
        read_toml(text)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "9" * 30, "9" * 400, "9" * 5000])
def test_numbers_that_are_none(value: str) -> None:
    text = json.dumps(asdict(BootRecord(1, "", "", True, "", 7.5)))
    for old in ("1", "7.5"):
        with pytest.raises(DecodeError):
            decode(BootRecord, read_json(text.replace(old, value, 1)))


def test_no_key_twice() -> None:
    with pytest.raises(DecodeError, match="the key 'boot' comes twice"):
        read_json('{"boot": 1, "boot": 2}')


def test_records_cut_at_every_byte(tmp_path: Path) -> None:
    Synthetic(schemes=("a",), vms=(2,), reps=3, boots=1).write(tmp_path)
    file, whole = tmp_path / "runs.jsonl", parse.runs(tmp_path).records
    data = file.read_bytes()
    for end in range(len(data)):
        file.write_bytes(data[:end])
        found = parse.runs(tmp_path)
        assert found.records == whole[:len(found.records)]
        assert len(found.records) == data[:end + 1].count(b"\n")
        assert len(found.warnings) == (end > 0 and data[end - 1:end] != b"\n"
                                       and data[end:end + 1] != b"\n")


@pytest.fixture(scope="module")
def results(place: Path) -> Path:
    """A small observed directory with windows."""
    def counted(label: str, vms: int) -> Counted:
        counts = {f"preempt_{kind}": 5 for kind in ("lock", "user", "kernel")}
        return Counted(
            {"lock_acquisitions": 9, "lock_wait_ns": 700, "lock_stolen_ns": 2, "lock_halted_ns": 3},
            {9: (4, 1200)}, counts | {"spin_events": 3, "tlb_calls": 4}, (10**6,) * vms,
            {"ipi": [(900, 800), (70, 60)]}, (counts,) * vms, ((10**5,) * vms,) * 3, 2,
            cpu_waits=(({12: (9, 27_000_000)}, 4_000_000),) * vms)
    made = Synthetic(schemes=("pvqspinlock", "pmt"), vms=(1, 2), reps=1, boots=1, counted=counted,
                     window_ms=100)
    return made.write(place / "whole")


@given(st.data())
def test_a_damaged_directory(results: Path, data: st.DataObject) -> None:
    """A report with plain numbers, or one sentence on what is damaged."""
    directory = results.with_name("damaged")
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(results, directory)
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    ends = data.draw(st.sampled_from(["manifest.json", "runs.jsonl", "boots.jsonl", "raw"]))
    file = data.draw(st.sampled_from([one for one in files if ends in str(one)]))
    file.write_bytes(data.draw(any_or_damaged(file.read_bytes())))
    try:
        summary = summarize(load(directory))
    except UsageError as error:
        assert file.name in str(error), error
    else:
        json.loads(as_json(summary))
        table.as_text(summary).encode()


def test_a_run_that_is_there_twice(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "twice")
    file = tmp_path / "twice" / "runs.jsonl"
    file.write_text(file.read_text() * 2)
    with pytest.raises(UsageError, match=r"runs\.jsonl: run b0-pvqspinlock-1-r0 is there twice"):
        load(tmp_path / "twice")


@pytest.mark.parametrize(("old", "new", "message"), [
    ('"pcpus": 2', '"pcpus": 0', "pcpus must be above 0"),
    ('"reps": 1', '"reps": -1', "reps must be above 0"),
    ('"vms": [1, 2]', '"vms": [1, 0]', "vms must be above 0"),
    ('"vms": [1, 2]', '"vms": []', "vms must be above 0"),
    ("(?P<value>", "(?P<other>", "pattern needs a group"),
    ('"name": "hackbench"', '"name": "../x"', "the name is no name of a file"),
])
def test_manifests_that_cannot_be(results: Path, tmp_path: Path, old: str, new: str,
                                  message: str) -> None:
    text = (results / "manifest.json").read_text()
    assert old in text
    (tmp_path / "manifest.json").write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=message):
        parse.manifest(tmp_path)


# Snapshots, flush times, windows


SNAPSHOT = sections({
    "debug/tlb_latency": latency_lines({"ipi": [(900, 800), (7, 6)], "kvmtlb": [(5000, 40)]}),
    "debug/lock_waits": ["9 12 3400", "10 7 5000"],
    "debug/counters": ["lock_acquisitions 1234", "lock_wait_ns 98765", "preempt_lock 3"],
    "vm/a-0/cpu_waits": ["4 17 200000", "23 1 4300000000", "longest 4300000000"],
    "vm/a-0/counters": ["extend_granted 17", "preempt_lock 12"],
    "/groups/pvsync-a-0/cpu.stat": ["usage_usec 987654", "user_usec 3"],
})
RUN = RunRecord("r", 0, 0, 0, "a", "w", 2, 2, 2, True, "",
                (GuestRun("a-0", 10.0, 12.5, 2.5, 0, ""),
                 GuestRun("a-1", 10.05, 12.0, 1.95, 0, "")), 1.0)


def test_snapshots_cut_at_every_byte() -> None:
    whole = observed.parse(SNAPSHOT)
    assert whole.flushes and whole.waits and whole.cpu_waits and len(whole.counters) == 3
    for end in range(len(SNAPSHOT)):
        found = observed.parse(SNAPSHOT[:end])
        assert found.counters.items() <= whole.counters.items()
        assert found.cpu_usec.items() <= whole.cpu_usec.items()
        assert found.vms.get("a-0", {}).items() <= whole.vms["a-0"].items()
        assert (found.waits or {}).items() <= whole.waits.items()
        assert found.cpu_waits in ({}, whole.cpu_waits)
        assert found.flushes in (None, whole.flushes)


@given(st.text() | any_or_damaged(SNAPSHOT.encode()).map(lambda d: d.decode(errors="replace")),
       damaged(SNAPSHOT.encode()).map(lambda d: d.decode(errors="replace")))
def test_figures_of_damaged_snapshots(before: str, after: str) -> None:
    change = observed.between(observed.parse(before), observed.parse(after))
    seen = observed.observation(RUN, lambda _: change, ("a-0", "a-1"))
    numbers = [figures.spinning(seen), figures.share_deviation(seen),
               *figures.spin_figures(seen), *figures.flush_figures(seen),
               *figures.extend_figures(seen), *figures.park_figures(seen),
               *figures.preempted(seen).kinds.values()]
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert all(value is None or value >= 0 for value in change.counters.values())
    flushes.figures(flushes.merged(seen.flushes))
    cpu_waits.figures([(seen.cpu_waits, seen.seconds)])


@given(interleaved(SNAPSHOT.splitlines(), SNAPSHOT.replace("1234", "5678").splitlines()))
def test_two_guests_in_one_snapshot(lines: list[str]) -> None:
    found = observed.parse("".join(f"{line}\n" for line in lines))
    known = {"lock_acquisitions": {1234, 5678}, "lock_wait_ns": {98765}, "preempt_lock": {3, 12},
             "longest": {4300000000}, "extend_granted": {17}, "usage_usec": {987654},
             "user_usec": {3}}
    assert all(value in known[name] for name, value in found.counters.items())


WAITS = st.lists(st.integers(0, 10**11))


@given(WAITS, WAITS)
def test_waits_for_a_cpu_and_back(before: list[int], later: list[int]) -> None:
    """What a VM waited in a run comes out as it was, with bounds that hold."""
    first, second = (cpu_waits.parse(cpu_wait_lines(one)) for one in (before, before + later))
    found = cpu_waits.between(first, second)
    assert found and sum(waits for waits, _ in found.bins.values()) == len(later)
    assert sum(ns for _, ns in found.bins.values()) == sum(later)
    assert max(later, default=0) <= found.longest_ns <= max(before + later, default=0)
    seen = cpu_waits.figures([((found, found), 2.0)])
    assert seen and seen.per_s == len(later) and seen.longest_ms == found.longest_ns / 1e6
    assert seen.p99_ms is None or sum(ns > 1e6 * seen.p99_ms for ns in later) <= len(later) / 100


@given(st.lists(st.text(max_size=20) | st.sampled_from(
    ["0 1 1", "23 9 9", "24 1 1", "3 0 0", "longest 0", "longest 7", "9 " + "9" * 20 + " 1"])))
def test_any_waits_for_a_cpu(lines: list[str]) -> None:
    found = cpu_waits.parse(lines)
    assert found is None or lines[-1].startswith("longest ")
    cpu_waits.figures([((found,), 0.0), ((cpu_waits.between(found, found),), 1.0)])
    cpu_waits.figures([((found,), 0.0)])


LENGTHS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=9)


@given(st.dictionaries(st.sampled_from(["ipi", "kvmtlb", "shoot4u"]), LENGTHS))
def test_flush_times_and_back(values: dict[str, list[tuple[int, int]]]) -> None:
    found = flushes.parse(latency_lines(values))
    assert found is not None and set(found) == set(values)
    for name, pairs in values.items():
        assert found[name].calls == len(pairs)
        assert found[name].wall.sum_ns == sum(wall for wall, _ in pairs)
        assert flushes.percentile(found[name].ran, 100) <= max(r for _, r in pairs)


@given(st.lists(st.text(max_size=20) | st.sampled_from(
    ["mechanism a", "calls 1", "wall_ns 1 1", "ran_ns 1 1", "8 1 1", "9 1 1", "9" * 20 + " 1 1"])))
def test_any_flush_times(lines: list[str]) -> None:
    found = flushes.parse(lines)
    flushes.figures(flushes.between({}, found))
    flushes.figures(flushes.between(found, found))


SAMPLES = st.lists(st.tuples(st.integers(0, 10**9), COUNT, st.none() | COUNT, COUNT, COUNT),
                   min_size=2, max_size=6, unique_by=lambda row: row[0])


@given(SAMPLES)
def test_windows_and_back(rows: list[tuple[int, int, int | None, int, int]]) -> None:
    """Whatever the host noted comes out as it was, or not at all."""
    noted = [[row[0] / 1e3, *row[1:]] for row in sorted(rows)]
    run = replace(RUN, guests=tuple(replace(one, began=0.0, ended=1e6) for one in RUN.guests))
    found = windows.parse(windows.as_text(("a-0", "a-1"), noted), run)
    columns = list(zip(*noted, strict=True))
    rises = all(list(column) == sorted(column) for column in (columns[1], columns[3]))
    assert (found is not None) == rises
    if found:
        assert list(found.times) == list(columns[0])
        assert list(found.used) == list(zip(columns[1], columns[3], strict=True))
        windows.figures([found])


WINDOWS = windows.as_text(("a-0", "a-1"), [[10.05 + n / 10, 1000 * n, n, 900 * n, 0]
                                           for n in range(12)])


def test_windows_cut_at_every_byte() -> None:
    whole = windows.parse(WINDOWS, RUN)
    assert whole
    for end in range(len(WINDOWS)):
        found = windows.parse(WINDOWS[:end], RUN)
        assert found is None or found.used == whole.used[:len(found.used)]


@given(any_or_damaged(WINDOWS.encode()))
def test_damaged_windows(data: bytes) -> None:
    found = windows.figures([windows.parse(data.decode(errors="replace"), RUN)])
    assert found is None or all(math.isfinite(value) for value in asdict(found).values()
                                if value is not None)


# What the host says


@given(st.binary() | st.sampled_from([
    b'{"id": [], "ok": true}', b'{"id": {}, "ok": true}', b'{"id": null}', b"[" * 99_999, b"1",
    b'{"event": "up"}', b'{"id": 1, "id": 2}', b'{"id": true, "ok": true}', b"9" * 5000]))
def test_any_line_from_the_host(place: Path, line: bytes) -> None:
    ours, theirs = socket.socketpair()
    control = Control(ours, place / "log")
    with theirs:
        future = control.submit("hello")
        theirs.recv(999)
        theirs.sendall(line.replace(b"\n", b"") + b"\n" + b'{"id": 1, "ok": true, "x": 5}\n')
        with suppress(Refused):
            assert control.wait(future, 10, "answer")["ok"]
    control.close()


HOSTD_NAMES = runpy.run_path(str(HOSTD))
DAEMON: Any = HOSTD_NAMES["Daemon"]
GUEST: Any = HOSTD_NAMES["Guest"]
FAILURE: Any = HOSTD_NAMES["Failure"]


class Writer:
    """Keeps what hostd answers."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.lines.append(data)

    async def drain(self) -> None:
        pass


@given(st.binary() | damaged(b'{"id": 7, "op": "read", "path": "/none", "offset": 0}')
       | st.sampled_from([b'{"id": 1, "op": "guest"}', b'{"id": 1, "op": []}', b"[" * 99_999,
                          b'{"id": 1, "op": "read", "path": 5}', b'{"op": "round"}']))
def test_hostd_answers_whatever_it_is_asked(place: Path, line: bytes) -> None:
    writer = Writer()
    asyncio.run(DAEMON(place).answer(line, writer))
    (answer,) = writer.lines
    assert isinstance(json.loads(answer)["ok"], bool)


WORD = st.sampled_from(["out", "end", "done", "t", "1", "x", "gone", "aGk=", "a", "====", "é"])


@given(st.lists(st.lists(WORD, min_size=1, max_size=4)))
@example([["done", "t"], ["end", "t"]])
@example([["done", "t", "0", "5"], ["out", "t", "a"], ["end", "t"]])
def test_hostd_with_a_guest_that_babbles(place: Path, lines: list[list[str]]) -> None:
    """A good answer has a status, a time and base64; anything else is a refusal."""
    async def ask() -> dict[str, Any]:
        daemon, writer, guest = DAEMON(place), Writer(), GUEST("g", place)
        guest.agent = Writer()
        daemon.guests["g"] = guest
        for words in [*lines, ["gone"]]:
            guest.messages.put_nowait((0.0, words))
        request = {"id": 1, "op": "guest_exec", "name": "g", "tag": "t", "command": "true"}
        await daemon.answer(json.dumps(request).encode(), writer)
        return dict(json.loads(writer.lines[0]))
    answer = asyncio.run(ask())
    assert not answer["ok"] or (isinstance(answer["status"], int) and answer["elapsed"] >= 0)


@given(st.text() | COUNT.map(lambda n: f"usage_usec {n}\n"))
def test_hostd_reads_any_number(place: Path, text: str) -> None:
    (place / "stat").write_text(text)
    HOSTD_NAMES["number_in"](str(place / "stat"), "usage_usec")


def test_an_answer_that_never_comes(tmp_path: Path) -> None:
    future: Future[dict[str, Any]] = Future()
    ours, theirs = socket.socketpair()
    control = Control(ours, tmp_path / "log")
    with theirs, pytest.raises(HostLost, match="silent"):
        control.wait(future, 0.01, "answer")
    control.close()


# What this machine says


@given(st.text())
def test_any_text_of_this_machine(text: str) -> None:
    backend.cpu_flags(text)
    counters.parse(text)
    counters.pairs(text.split("\n"))
    vms.schedstat(text)
    vms.switches(text)
    assert vms.vm_number(text).isdigit() or not vms.vm_number(text)
    assert vms.vm_name(text, text).isprintable()
    run_all.closing(text)
    series.parse_offsets("x.patch", text)


@given(st.dictionaries(st.sampled_from(["7-1", "8-2", "9-3"]), st.tuples(
    *[st.sampled_from(["", "12 34 5\n", "nonvoluntary_ctxt_switches:\t7\n", "9" * 5000, "-name\0x",
                       "preempt_lock 5\n", "\ud7ff"])] * 6)))
def test_any_virtual_machines(place: Path, machines: dict[str, tuple[str, ...]]) -> None:
    root = Path(tempfile.mkdtemp(dir=place))
    (root / "debug/kvm").mkdir(parents=True)
    for name, texts in machines.items():
        folder, process = root / "debug/kvm" / name, root / "proc" / name[0]
        files = [folder / "vcpu0/pid", folder / "pvsync/counters", process / "cmdline",
                 process / "comm", process / "task/12/schedstat", process / "task/12/status"]
        for file, text in zip(files, texts, strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    seen = vms.read(root / "debug", root / "proc")
    assert set(seen) == set(machines)
    top.render(top.rows(seen, seen, 1.0), 1.0)
    shutil.rmtree(root)


@given(st.data())
def test_any_pytest_report(place: Path, data: st.DataObject) -> None:
    good = (b'<testsuites><testsuite tests="3" failures="1" errors="0" skipped="1">'
            b'</testsuite></testsuites>')
    (place / "x.xml").write_bytes(data.draw(any_or_damaged(good)))
    run_all.junit(place / "x.xml")


# What users write


FILES = [*sorted(config.EXPERIMENTS.glob("*.toml"))[:4],
         *sorted(config.WORKLOADS.glob("*.toml"))[:4],
         config.SCHEMES, kconfig.CONFIGS / "variants.toml", paths.KERNEL / "BASE",
         *series.patch_files(series.SERIES)[:2]]


@given(st.data(), st.sampled_from(FILES))
def test_files_that_users_write(place: Path, data: st.DataObject, good: Path) -> None:
    folder = place / good.parent.name
    folder.mkdir(exist_ok=True)
    file = folder / good.name
    file.write_bytes(data.draw(any_or_damaged(good.read_bytes())))
    with suppress(LabError):
        if good.parent == config.EXPERIMENTS:
            config.experiment(str(file))
        elif good.parent == config.WORKLOADS:
            config.workloads(folder)
        elif good.parent == series.SERIES:
            series.parse_patch(file)
        else:
            {"schemes.toml": config.schemes, "variants.toml": kconfig.variants,
             "BASE": base.read_base}[good.name](file)
    file.unlink()


@given(st.text())
def test_any_kconfig(text: str) -> None:
    with suppress(UsageError):
        settings = kconfig.parse_fragment(text, "x")
        again = kconfig.parse_fragment(kconfig.allconfig(settings), "y")
        assert {name: one.value for name, one in again.items()} == {
            name: one.value for name, one in settings.items()}
