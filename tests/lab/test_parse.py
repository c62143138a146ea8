# SPDX-License-Identifier: GPL-2.0-only
"""Outputs and records, recorded, cut short and damaged."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from lab.core.errors import UsageError
from lab.core.model import BootRecord
from lab.plan import config
from lab.run import parse
from tests.lab.synthetic import Synthetic

DATA = Path(__file__).parent / "data"


def figure(workload: str, file: str, elapsed: float | None = None) -> parse.Figure:
    return parse.figure(config.workloads()[workload], parse.read_text(DATA / file), elapsed)


@pytest.mark.parametrize(
    ("workload", "file", "value"),
    [
        ("hackbench", "hackbench.out", 0.112),
        ("hackbench", "hackbench-noise.out", 0.734),
        ("sysbench-threads", "sysbench-threads.out", 0.0933),
        ("dbench-tmpfs", "dbench-tmpfs.out", 1268.3),
        ("stress-futex", "stress-futex.out", 93938.23),
        ("stress-tlb", "stress-tlb.out", 1496.08),
        ("web-server", "wrk.out", 24819.98),
        ("locktorture", "locktorture.out", 1842204),
        ("locktorture-long", "locktorture.out", 1842204),
        ("locktorture-hotplug", "locktorture-hotplug.out", 350918),
        ("rcutorture", "rcutorture.out", 32),
    ],
)
def test_recorded_outputs(workload: str, file: str, value: float) -> None:
    assert figure(workload, file) == parse.Figure(value)


@pytest.mark.parametrize(
    ("workload", "file", "reason"),
    [
        ("hackbench", "hackbench-cut.out", "no time in the output (it ends: "),
        ("hackbench", "hackbench-panic.out", "Kernel panic - not syncing: Fatal exception"),
        ("hackbench", "sysbench-threads.out", "no time in the output"),
        ("locktorture", "locktorture-failure.out", "no acquisitions in the output"),
        ("locktorture-hotplug", "locktorture.out", "no acquisitions in the output"),
        ("rcutorture", "locktorture.out", "no versions in the output"),
        ("web-server", "wrk-errors.out", "no requests in the output"),
        ("web-server", "wrk-refused.out", "no requests in the output"),
    ],
)
def test_outputs_without_a_figure(workload: str, file: str, reason: str) -> None:
    found = figure(workload, file)
    assert found.value is None
    assert reason in found.reason
    assert found.reason.isprintable()


def test_carriage_returns_end_lines(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"50 %\rTime: 1.5\rTime: 2.5\r\n")
    text = parse.read_text(tmp_path / "out")
    assert text == "50 %\nTime: 1.5\nTime: 2.5\n"
    assert parse.figure(config.workloads()["hackbench"], text, None).value == 2.5


def test_silence_is_failure() -> None:
    workload = config.workloads()["hackbench"]
    assert parse.figure(workload, "", 1.0).reason == "no time in the output (it is empty)"


def test_last_match_counts() -> None:
    workload = config.workloads()["hackbench"]
    assert parse.figure(workload, "Time: 1.5\nTime: 2.5\n", None).value == 2.5


def test_a_cut_line_does_not_count() -> None:
    workload = config.workloads()["hackbench"]
    assert parse.figure(workload, "Time: 1.5\nTime: 0.2", None).value == 1.5
    found = parse.figure(workload, "Time: 0.2", None)
    assert found.reason == "no time in a whole line of the output (it is: Time: 0.2)"


@pytest.mark.parametrize("text", ["Time: 0.000\n", "Time: 0\n"])
def test_zero_is_no_figure(text: str) -> None:
    found = parse.figure(config.workloads()["hackbench"], text, None)
    assert found.value is None and "cannot be" in found.reason


def test_elapsed_time() -> None:
    workload = config.command_workload("true")
    assert parse.figure(workload, "", 2.5).value == 2.5
    assert "missing" in parse.figure(workload, "", None).reason
    assert parse.figure(workload, "", float("nan")).value is None
    assert parse.figure(workload, "", -1.0).value is None


def test_records_round_trip(tmp_path: Path) -> None:
    made = Synthetic(invalid={("pmt", 1): "why"})
    made.write(tmp_path)
    runs = parse.runs(tmp_path)
    assert parse.manifest(tmp_path) == made.manifest()
    assert len(runs.records) == 3 * 3 * 10 + 1 and not runs.warnings
    assert runs.records[-1].reason == "why" and not runs.records[-1].valid
    assert parse.boots(tmp_path).records[1] == BootRecord(1, "", "", True, "", 4.0)


@pytest.mark.parametrize("tail", [b'{"id": "b0', b'{"', b"\0\0\0\0"])
def test_cut_line_is_left_out_with_a_warning(tmp_path: Path, tail: bytes) -> None:
    Synthetic().write(tmp_path)
    file = tmp_path / "runs.jsonl"
    whole, text = parse.runs(tmp_path).records, file.read_bytes()
    file.write_bytes(text + tail)
    found = parse.runs(tmp_path)
    assert found.records == whole
    assert found.warnings == ("runs.jsonl, line 91, was cut short and is left out",)
    # A resumed run goes on in the next line.
    file.write_bytes(text + tail + b"\n" + text)
    found = parse.runs(tmp_path)
    assert found.records == whole + whole and len(found.warnings) == 1


def test_whole_last_line_counts_without_its_end(tmp_path: Path) -> None:
    Synthetic().write(tmp_path)
    file = tmp_path / "runs.jsonl"
    whole = parse.runs(tmp_path)
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert parse.runs(tmp_path) == whole


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"garbage\n", "line 2, is no valid JSON"),
        (b"\xff\xfe\0\x01\n", "line 2, is no valid JSON"),
        (b"\n", "line 2, is no valid JSON"),
        (b"[]\n", "line 2, is no RunRecord: the data must be a table"),
        (b'{"id": 3}\n', "line 2, is no RunRecord: id must be a string"),
    ],
)
def test_garbage_inside_is_an_error(tmp_path: Path, line: bytes, message: str) -> None:
    Synthetic().write(tmp_path)
    file = tmp_path / "runs.jsonl"
    first, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([first, line, *rest]))
    with pytest.raises(UsageError) as caught:
        parse.runs(tmp_path)
    assert message in str(caught.value) and "runs.jsonl" in str(caught.value)


def test_no_runs_yet(tmp_path: Path) -> None:
    assert parse.runs(tmp_path).records == () == parse.boots(tmp_path).records


def test_bad_manifests(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no directory"):
        parse.manifest(tmp_path / "none")
    with pytest.raises(UsageError, match=r"no result directory: it has no manifest\.json"):
        parse.manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UsageError, match="is no valid JSON"):
        parse.manifest(tmp_path)
    broken = {**asdict(Synthetic().manifest()), "vms": [1, "2"]}
    (tmp_path / "manifest.json").write_text(json.dumps(broken))
    with pytest.raises(UsageError, match=r"no manifest: vms\[1\] must be an integer"):
        parse.manifest(tmp_path)
