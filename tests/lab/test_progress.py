# SPDX-License-Identifier: GPL-2.0-only
"""What is shown while things take their time."""

import io
import time

import pytest
from rich.console import Console
from rich.progress import Progress as RichProgress

from lab.core.progress import Plain, Silent, _RichStage, shown, silence


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines() -> None:
    out, clock = io.StringIO(), Clock()
    with Plain(out, clock).stage("runs", total=4) as stage:
        stage.text("first")
        clock.now = 6.0
        stage.advance()
        clock.now = 7.0
        stage.text("too soon to say")
        clock.now = 66.0
        stage.text("pmt, 3 VMs")
    assert out.getvalue().splitlines() == [
        "runs: started",
        "runs: 1/4, about 18 s left first",
        "runs: 1/4, about 3 min 18 s left pmt, 3 VMs",
        "runs: done after 1 min 06 s",
    ]


def test_what_was_done_before_tells_nothing_of_the_speed() -> None:
    out, clock = io.StringIO(), Clock()
    with Plain(out, clock).stage("runs", total=108) as stage:
        stage.before(54)
        clock.now = 6.0
        stage.text("x")
        clock.now = 12.0
        stage.advance(2)
    assert out.getvalue().splitlines()[1:3] == [
        "runs: 54/108 x", "runs: 56/108, about 5 min 12 s left x"]


def test_more_steps_than_expected_have_no_time_left() -> None:
    out, clock = io.StringIO(), Clock()
    with Plain(out, clock).stage("kernel", total=2) as stage:
        clock.now = 6.0
        stage.advance(3)
    assert "kernel: 3, more than the 2 expected" in out.getvalue().splitlines()


def test_plain_says_when_it_stopped() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="x"), Plain(out).stage("build"):
        raise ValueError("x")
    assert "build: stopped after 0 s" in out.getvalue()


def test_plain_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as progress:
        progress.say("one [line]")
    assert capsys.readouterr().err == "one [line]\n"


def drawn(screen: io.StringIO, words: str) -> None:
    """Wait for it: bars are drawn ten times a second, if the CPUs are not with others."""
    end = time.monotonic() + 20
    while words not in screen.getvalue() and time.monotonic() < end:
        time.sleep(0.05)


def test_bars_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with shown(console) as progress, progress.stage("runs", total=3) as stage:
        stage.advance()
        stage.text("[not markup]")
        stage.total(5)
        drawn(out, "1/5")
        progress.say("kept [line]")
    text = out.getvalue()
    assert "kept [line]" in text and "done" in text
    assert "[not markup]" in text and "1/5" in text


def test_what_is_left_may_be_told() -> None:
    out, now = io.StringIO(), [0.0]
    with Plain(out, lambda: now[0]).stage("runs", 4) as stage:
        stage.advance()
        for seconds, told in ((6.0, None), (12.0, 90.0)):
            stage.left(told)
            now[0] = seconds
            stage.text("x")
        now[0] = 30.0
        stage.text("y")
    assert out.getvalue().splitlines()[1:-1] == [
        "runs: 1/4 x", "runs: 1/4, about 1 min 24 s left x", "runs: 1/4, about 1 min 06 s left y"]
    screen = io.StringIO()
    with (shown(Console(file=screen, force_terminal=True, width=120)) as progress,
          progress.stage("runs", total=3) as stage):
        stage.left(None)
        stage.left(3930)  # told in minutes, however late the screen is drawn
        drawn(screen, "1 h 05 min")
    assert "1 h 05 min" in screen.getvalue()


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    silence(True)
    try:
        with shown() as progress, progress.stage("build"):
            progress.say("hello")
    finally:
        silence(False)
    assert capsys.readouterr() == ("", "")


def test_silent() -> None:
    with Silent().stage("x", 3) as stage:
        stage.advance()
        stage.text("y")
        stage.total(2)
    Silent().say("z")


def test_bars_leave_out_what_was_done_before() -> None:
    bars = RichProgress(disable=True)
    with _RichStage(bars, "runs", 108) as stage:
        stage.before(54)
        (task,) = bars.tasks
        assert (task.completed, task.speed) == (54, None)
