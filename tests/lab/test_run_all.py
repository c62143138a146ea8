# SPDX-License-Identifier: GPL-2.0-only
"""The runner of all tests: it has to notice what breaks."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psutil
import pytest

from tests import run_all, soak_report
from tests.run_all import Count, Stage


def stage(
    code: str, count: Literal["pytest", "closing", "status"] = "closing", timeout_s: float = 30,
    whole: bool = False,
) -> Stage:
    return Stage("it", (sys.executable, "-c", code), count, timeout_s, whole)


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("a\n3 passed, 0 failed\n", Count(3)),
        ("3 passed, 1 failed, 2 skipped\n", Count(3, 1, 2)),
        ("\x1b[32m3 passed, 0 failed\x1b[0m\n", Count(3)),
        ("3 passed, 0 failed\n4 passed, 1 failed\n", Count(4, 1)),
        ("3 passed, 0 failed\n" + "more\n" * 5, None),
        ("3 passed\n", None),
        ("x 3 passed, 0 failed\n", None),
        ("", None),
    ],
)
def test_closing_line(output: str, count: Count | None) -> None:
    assert run_all.closing(output) == count


@pytest.mark.parametrize(
    ("code", "count", "broken"),
    [
        ("print('2 passed, 0 failed')", Count(2), ""),
        ("print('2 passed, 1 failed'); exit(1)", Count(2, 1), ""),
        ("print('2 passed, 1 failed')", Count(2, 1), "status 0 though checks failed"),
        ("print('2 passed, 0 failed'); exit(3)", Count(2, 1), "status 3 though no check failed"),
        ("print('all is well')", Count(0, 1), "gave no count (status 0)"),
        ("print('0 passed, 0 failed')", Count(0, 1), "ran no check at all"),
        ("import os; os.abort()", Count(0, 1), "gave no count (status -6)"),
    ],
)
def test_stages(tmp_path: Path, code: str, count: Count, broken: str) -> None:
    assert run_all.run_stage(stage(code), tmp_path) == (count, broken)


def test_stage_by_status(tmp_path: Path) -> None:
    assert run_all.run_stage(stage("", "status"), tmp_path) == (Count(1), "")
    assert run_all.run_stage(stage("exit(4)", "status"), tmp_path) == (Count(0, 1), "status 4")


def test_skipped_check_of_a_whole_stage_has_failed(tmp_path: Path) -> None:
    text = "print('3 passed, 0 failed, 2 skipped')"
    assert run_all.run_stage(stage(text), tmp_path) == (Count(3, 0, 2), "")
    count, broken = run_all.run_stage(stage(text, whole=True), tmp_path)
    assert count == Count(3, 2) and "skipped" in broken


def test_stage_that_hangs_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    count, broken = run_all.run_stage(stage("import time; time.sleep(60)", timeout_s=0.5), tmp_path)
    assert time.monotonic() - began < 30
    assert count == Count(0, 1) and "more than 0 s and was ended" in broken


def test_stages_that_are_not_over_in_time_have_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """All together; what each gave is said, also of those that had no time left."""
    began = time.monotonic()
    stages = [stage("import time; time.sleep(60)"), stage("import time; time.sleep(60)")]
    assert run_all.run_all(stages, whole_s=1) == Count(0, 2)
    assert time.monotonic() - began < 30
    assert capsys.readouterr().out.count("more than 1 s and was ended") == 2


def test_stage_that_is_not_there(tmp_path: Path) -> None:
    count, broken = run_all.run_stage(Stage("x", ("/none/such",), "closing"), tmp_path)
    assert count == Count(0, 1) and "No such file" in broken


def test_pytest_counts(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 0\n"
        "@pytest.mark.skip\ndef test_c(): pass\n"
        "@pytest.fixture\ndef broken(): raise ValueError\n"
        "def test_d(broken): pass\n"
    )
    xml = tmp_path / "out.xml"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(tmp_path),
         f"--junit-xml={xml}", str(tmp_path)],
        check=False, capture_output=True,
    )
    assert run_all.junit(xml) == Count(1, 2, 1)
    xml.write_text(xml.read_text()[:100])
    assert run_all.junit(xml) is None
    assert run_all.junit(tmp_path / "none.xml") is None


def test_whole_run_ends_in_one_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [stage("print('2 passed, 0 failed, 1 skipped')"), stage("print('?')")]
    monkeypatch.setattr(run_all, "stages", lambda: made)
    assert run_all.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 1 failed, 1 skipped"
    monkeypatch.setattr(run_all, "stages", lambda: made[:1])
    assert run_all.main([]) == 0


SLOW = """
import time
def test_a(): pass
def test_b(): time.sleep(60)
"""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As under `main`: a shell starts what runs in the background with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_stage_found_before_its_end_is_kept(
    tmp_path: Path, stopped: bool
) -> None:
    """That is out of time, or is stopped by Ctrl-C."""
    (tmp_path / "test_slow.py").write_text(SLOW)
    slow = Stage("slow", (sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir",
                          str(tmp_path), str(tmp_path)), "pytest", 90 if stopped else 8)
    report = tmp_path / "soak.md"
    report.write_text("")
    if stopped:
        timer = threading.Timer(8, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run_all.run_all([slow], report)
    else:
        began = time.monotonic()
        assert run_all.run_all([slow], report) == Count(1, 1)
        assert time.monotonic() - began < 40
    text = report.read_text()
    assert "| test_a |" in text and ("was stopped" if stopped else "more than 8 s") in text


def test_report_that_vanished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = stage("print('2 passed, 0 failed')")
    assert run_all.run_all([good], tmp_path / "none" / "soak.md") == Count(2)
    said = capsys.readouterr().out
    assert "soak.md cannot be written: No such file or directory" in said and "## it" in said


XML = """<testsuites><testsuite tests="3" failures="1" skipped="1">
<testcase name="one" time="1.4"/><testcase name="two" time="2"><failure message="a |
b">long</failure></testcase><testcase name="three" time="0"><skipped message="why"/></testcase>
</testsuite></testsuites>"""


def test_report_of_a_soak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write = f"import sys; open(sys.argv[-1].partition('=')[2], 'w').write({XML!r}); exit(1)"
    good, bad = stage("print('2 passed, 0 failed')"), stage(write, "pytest")
    report = tmp_path / "soak.md"
    report.write_text(soak_report.head(60))
    assert run_all.run_all([good, bad, stage("import os; os.abort()")], report) == Count(3, 2, 1)
    _, _, closing = capsys.readouterr().out.partition("=== all stages\n")
    assert "    two: a | b\n" in closing
    text = report.read_text()
    assert "Length of a check: 60 s." in text and text.count("## it") == 3
    assert "2 passed, 0 failed, in" in text and "1 passed, 1 failed, 1 skipped, in" in text
    assert "| one | 1 | passed |  |" in text and "| two | 2 | failed | a \\| b |" in text
    assert "| three | 0 | skipped | why |" in text
    assert "0 passed, 1 failed; gave no count (status -6), in" in text


def test_report_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments in (["--report", "x"], ["--soak", "9", "--report", f"{tmp_path}/file/x"]):
        with pytest.raises(SystemExit) as ended:
            run_all.main(arguments)
        assert ended.value.code == 2


def test_soak_is_a_list_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_all.main(["--soak", "60", "--list"]) == 0
    lab, models, locks, kernel, vmx = capsys.readouterr().out.splitlines()
    assert "tests/lab/test_fuzz.py" in lab and "tests/lab/test_fuzz_records.py" in lab
    assert lab.endswith(" --examples 300")
    assert models.endswith("tests/models") and locks.endswith("soak DURATION=60")
    assert kernel.endswith("--soak 60")
    assert vmx.endswith(run_all.ISOLATION)


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--only", "nope"], ["--soak", "0"], ["--soak", "x"]):
        with pytest.raises(SystemExit) as caught:
            run_all.main(arguments)
        assert caught.value.code == 2
    assert run_all.main(["--list"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "images", "ruff", "lab", "mypy", "series", "models", "policy", "kernel-vt", "programs",
        "locks", "kernel", "vmx"]


def test_no_file_of_tests_is_left_out() -> None:
    """Or run twice: one stage has all of a folder but what the next one has."""
    lab, programs = (stage.command for stage in run_all.stages()
                     if stage.name in ("lab", "programs"))
    assert lab[-3:] == ("tests/lab", "--ignore", run_all.PROGRAMS)
    assert programs[-1] == run_all.PROGRAMS and (run_all.ROOT / run_all.PROGRAMS).is_dir()
    virtual, real = (stage.command for stage in run_all.stages()
                     if stage.name in ("kernel-vt", "kernel"))
    assert real == (*run_all.KERNEL, "not virtual") and "tests/kernel" in real
    assert virtual[:len(real)] == (*run_all.KERNEL, "virtual")


MEETS = """
import pathlib, sys, time
here, there = (pathlib.Path({folder!r}, name) for name in ({own!r}, {other!r}))
print("first of", {own!r}, flush=True)
here.touch()
end = time.monotonic() + 30
while not there.exists() and time.monotonic() < end:
    time.sleep(0.02)
print("second of", {own!r}, flush=True)
print(int(there.exists()), "passed, 0 failed")
"""
"""A stage that passes while another one runs."""


def test_stages_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They do run at once, what they print is not mixed, and one that breaks is counted."""
    pair = [Stage(own, (sys.executable, "-c", MEETS.format(
                folder=str(tmp_path), own=own, other=other)), "closing", beside=True)
            for own, other in (("a", "b"), ("b", "a"))]
    gone = Stage("gone", ("/none/such",), "status", beside=True)
    late = replace(stage("print('x', flush=True); import time; time.sleep(60)", timeout_s=1),
                   name="late", beside=True)
    assert run_all.run_all([*pair, gone, late, stage("print('2 passed, 0 failed')")]) == Count(4, 2)
    said = capsys.readouterr().out
    for name in "ab":
        assert f"first of {name}\nsecond of {name}\n1 passed, 0 failed\n" in said
    assert "No such file" in said and "more than 1 s and was ended" in said
    assert said.splitlines()[-1] == "4 passed, 2 failed"


def test_stages_beside_each_other_end_with_the_whole_run(
    capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    slow = [replace(stage("import time; time.sleep(60)"), name=name, beside=True) for name in "abc"]
    assert run_all.run_all(slow, whole_s=1) == Count(0, 3)
    assert time.monotonic() - began < 30
    assert capsys.readouterr().out.count("and was ended") == 6


LIMIT = 60.0
"""Seconds for what takes a few on an idle machine."""
TALKS = """
echo $$ >{mark}
while :; do echo; sleep 0.05; done
"""
"""A stage. What waits for its output sees a signal that came before it waited, too."""
STOPPED = """
import subprocess, sys, time
from tests import run_all
start = subprocess.Popen.__init__
def slowly(self, *words, **options):
    start(self, *words, **options)
    time.sleep({delay})
subprocess.Popen.__init__ = slowly
run_all.stages = lambda: [run_all.Stage("s", ("sh", "-c", {code!r}), "status", beside={beside})]
sys.exit(run_all.main([]))
"""


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_leaves_nothing(
    tmp_path: Path, number: signal.Signals, delay: int, beside: bool
) -> None:
    """Also one that a shell started in the background, where SIGINT is to be ignored.

    Nor one that is stopped while it is still starting the stage.
    """
    mark = tmp_path / "pid"
    code = STOPPED.format(delay=delay, beside=beside, code=TALKS.format(mark=mark))
    run = subprocess.Popen(
        [sys.executable, "-c", code], cwd=run_all.ROOT, stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))  # noqa: PLW1509
    end = time.monotonic() + LIMIT
    while not (mark.exists() and mark.read_text().strip()):
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    child = int(mark.read_text())
    run.send_signal(number)
    assert run.wait(LIMIT) == 130
    assert not psutil.pid_exists(child)
