# SPDX-License-Identifier: GPL-2.0-only
"""Damaged records and result directories; `test_fuzz.py` says what has to come out."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.decode import DecodeError, decode, read_json, read_toml
from lab.core.errors import UsageError
from lab.core.model import BootRecord, GuestRun, RunRecord
from lab.report import table
from lab.report.summary import as_json, load, summarize
from lab.run import parse
from tests.lab.damage import any_or_damaged, place
from tests.lab.synthetic import Counted, Synthetic

__all__ = ["place"]


FLOAT = st.floats(allow_nan=False, allow_infinity=False)
RUNS = st.builds(
    RunRecord, id=st.text(), boot=st.integers(0, 99), rep=st.integers(0, 99),
    attempt=st.integers(0, 99), scheme=st.text(), workload=st.text(), vms=st.integers(1, 64),
    vcpus=st.integers(1, 64), pcpus=st.integers(1, 64), valid=st.booleans(), reason=st.text(),
    overlap=FLOAT,
    guests=st.lists(st.builds(
        GuestRun, guest=st.text(), began=FLOAT, ended=st.none() | FLOAT, elapsed=FLOAT,
        status=st.none() | st.integers(0, 255), output=st.text()), max_size=3).map(tuple))


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
