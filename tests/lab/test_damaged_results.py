# SPDX-License-Identifier: GPL-2.0-only
"""Results that a machine has damaged or lost: refused, or made again."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.places import Place, one_sentence, place

__all__ = ["place"]


@pytest.fixture(scope="module")
def complete() -> Iterator[Path]:
    """A directory that has all its runs."""
    place = Place(Path(tempfile.mkdtemp(prefix="faults-")))
    assert place.run("--out", str(place.out))[0] == 0
    yield place.out
    place.close()


@pytest.fixture
def made(place: Place, complete: Path) -> Place:
    """The same to be damaged."""
    shutil.copytree(complete, place.out)
    return place


@pytest.mark.parametrize(("file", "data", "words"), [
    ("runs.jsonl", b"\x89PNG\r\n", "runs.jsonl, line 1, is no valid JSON"),
    ("runs.jsonl", b'{"id": 5}\n', "runs.jsonl, line 1, is no RunRecord"),
    ("boots.jsonl", b"<html>", "boots.jsonl, line 1, is no valid JSON"),
    ("manifest.json", b'{"experiment":', "manifest.json is no valid JSON"),
])
def test_damaged_results_are_not_resumed(made: Place, file: str, data: bytes, words: str) -> None:
    """Nothing is booted to find out hours later that there can be no report."""
    runs = made.out / "runs.jsonl"
    runs.write_text("".join(runs.read_text().splitlines(keepends=True)[:-1]))
    (made.out / file).write_bytes(data)
    status, errors = made.run("--resume", str(made.out))
    assert status == 2 and words in one_sentence(errors)
    assert (made.out / file).read_bytes() == data
    assert len(list((made.out / "boots").iterdir())) == 1


def test_lost_outputs_are_made_again(made: Place) -> None:
    """What a machine that went down had not on its disk yet."""
    good = made.runs()
    lost: Any = [run for run in good if run.valid][1]
    for guest in lost.guests:
        (made.out / guest.output).unlink()
    (made.out / "boots.jsonl").write_bytes((made.out / "boots.jsonl").read_bytes()[:-9])
    status, errors = made.run("--resume", str(made.out))
    assert status == 0, errors
    assert made.runs()[:len(good)] == good and len(made.runs()) > len(good)
