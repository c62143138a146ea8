# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of a mutant, with a Makefile that copies the source instead of compiling it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import mutants
from tests.binaries import Outcome
from tests.mutants import Mutant, Suite, Verdict

COPY = """
$(BUILD)/%: $(OVERLAY)/kernel/code.c
	@! grep -q nonsense $<
	@mkdir -p $(@D)
	@cp $< $@
"""
SOURCE = "first\nsecond\nsecond\n"
BASE = "third\n"
PROGRAMS = ("gcc/blind", "gcc/sharp")


def run(program: Path, _arguments: Sequence[str], seconds: int | None) -> Outcome:
    """The first program sees nothing; the other one sees a bad word in the source or the base."""
    assert seconds == mutants.SECONDS
    base = program.parent.parent / "base" / "header.h"
    bad = program.name == "sharp" and "bad" in program.read_text() + base.read_text()
    return Outcome(0, 1, "not ok it is bad\n") if bad else Outcome(1, 0, "ok it\n")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    files = {"overlay/kernel/code.c": SOURCE, "base/header.h": BASE, "tests/Makefile": COPY}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutants, "OVERLAY", tmp_path / "overlay")
    return Suite(tmp_path / "tests", run, tmp_path / "base")


def change(old: str, new: str, file: str = "kernel/code.c") -> Mutant:
    return Mutant(f"{old} to {new}", file, old, new, PROGRAMS)


@pytest.mark.parametrize(("mutant", "verdict"), [
    (change("first", "bad"), Verdict(True, "gcc/sharp: it is bad")),
    (change("third", "bad", "base/header.h"), Verdict(True, "gcc/sharp: it is bad")),
    (change("first", "fine"), Verdict(False, mutants.MISSED)),
    (change("second", "bad"),
     Verdict(False, "NOT TRIED: its `old` stands 2 times in kernel/code.c, not once")),
])
def test_each_verdict(suite: Suite, mutant: Mutant, verdict: Verdict, tmp_path: Path) -> None:
    assert mutants.attempt(suite, mutant) == verdict
    # The tree and the base have stayed as they are.
    assert (tmp_path / "overlay/kernel/code.c").read_text() == SOURCE
    assert (tmp_path / "base/header.h").read_text() == BASE


def test_what_does_not_compile_is_no_success(suite: Suite) -> None:
    verdict = mutants.attempt(suite, change("first", "nonsense"))
    assert not verdict.noticed
    assert verdict.how.startswith("NOT TRIED, it does not compile:\n")


@pytest.mark.parametrize(("control", "only", "count"), [
    ("first", "", (2, 1)), ("bad", "", (1, 2)), ("first", "bad", (2, 0)),
])
def test_counts(suite: Suite, control: str, only: str, count: tuple[int, int]) -> None:
    table = [change("first", "bad"), change("first", "fine")]
    assert mutants.run(suite, [change("first", control)], table, only) == count
