# SPDX-License-Identifier: GPL-2.0-only
"""Findings of a hunt: their kinds, their seeds, and what a report says of them."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lab.core.model import BootRecord, RunRecord
from lab.report import findings, report
from tests.lab.synthetic import Synthetic

RUN = RunRecord("b3-r0-races-locks-v2-guest-all-a0", 3, 0, 0, "guest-all", "races-locks", 2, 3, 4,
                False, "", (), 0.0, seed=1003001)
SPLAT = "the console of guest guest-all-0 says: BUG: spinlock bad magic"


@pytest.mark.parametrize(("reason", "kind"), [
    (SPLAT, "splat"),
    ("the host's console says: Kernel panic - not syncing: x", "splat"),
    ("the log of guest a-0 says: WARNING: CPU: 1", "splat"),
    ("the host triple-faulted (see qemu.log)", "splat"),
    ("guest a-0 did not end its run within 20 s", "hang"),
    ("guest a-0 did not boot", "hang"),
    ("the host was silent for 80 s after it was asked to round", "hang"),
    ("the host ended with status -11", "death"),
    ("the command ended with status 1 in guest a-0", "wrong result"),
    ("a-0: no acquisitions in the output (it is empty)", "wrong result"),
    ("guest a-0 does not have in force what its scheme asks for: lock, wanted a, found b",
     "wrong result"),
])
def test_kinds(reason: str, kind: str) -> None:
    assert findings.kind(reason) == kind


def test_each_has_the_seed_of_its_boot() -> None:
    good = replace(RUN, id="b4-r0-x-v2-a-a0", boot=4, valid=True, seed=1004001)
    other = replace(good, id="b4-r0-x-v2-b-a0", scheme="b")
    unbegun = replace(RUN, id="b5-r0-x-v2-a-a0", boot=5, seed=None)
    boots = [BootRecord(3, "guest-all-0", "guest-all", False, SPLAT, 1.0),
             BootRecord(4, "pmt-0", "pmt", False, "the log of guest pmt-0 says: Oops", 1.0),
             BootRecord(5, "", "", False, "the host did not come up", 1.0),
             BootRecord(4, "guest-all-1", "guest-all", False, "it did not stop", 1.0),
             BootRecord(4, "", "", True, "", 1.0)]
    runs = [(RUN, SPLAT), (good, ""), (other, ""), (unbegun, "it was not tried")]
    found = findings.found(runs, boots)
    assert [(one.kind, one.seed, one.run, one.scheme) for one in found] == [
        ("splat", 1003001, RUN.id, "guest-all"), ("splat", 1004001, other.id, "pmt"),
        ("hang", 1004001, good.id, "guest-all")]


def test_a_report_names_seeds(tmp_path: Path) -> None:
    Synthetic(reps=1, boots=1, invalid={("pmt", 2): SPLAT}).write(tmp_path)
    file = tmp_path / "runs.jsonl"
    assert report.make(tmp_path, page=False).results.findings() == []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line | {"seed": 7}) + "\n" for line in lines))
    report.make(tmp_path, page=False)
    (found,) = json.loads((tmp_path / "summary.json").read_text())["findings"]
    assert (found["kind"], found["seed"], found["scheme"]) == ("splat", 7, "pmt")
    text = " ".join((tmp_path / "table.txt").read_text().split())
    assert "1 finding by 1 seed; to see one again: ./pvsync replay DIR RUN" in text
    assert f"splat, seed 7, {found['run']}: {SPLAT}." in text


def test_a_long_list_is_cut() -> None:
    one = findings.Finding("hang", 1, "r", "a", "x")
    lines = findings.notes([replace(one, seed=seed) for seed in range(50)], "d")
    assert lines[0].startswith("50 findings by 50 seeds") and len(lines) == 2 + findings.MOST_SHOWN
    assert lines[-1] == "  and 10 more, in summary.json." and not findings.notes([], "d")
    assert asdict(one)["kind"] == "hang"
