# SPDX-License-Identifier: GPL-2.0-only
"""What is shown while things take their time."""

import io
import time

import pytest
from rich.console import Console

from lab.core.progress import Plain, Silent, shown


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


def test_plain_says_when_it_stopped() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="x"), Plain(out).stage("build"):
        raise ValueError("x")
    assert "build: stopped after 0 s" in out.getvalue()


def test_plain_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as progress:
        progress.say("one [line]")
    assert capsys.readouterr().err == "one [line]\n"


def test_bars_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with shown(console) as progress, progress.stage("runs", total=3) as stage:
        stage.advance()
        stage.text("[not markup]")
        stage.total(5)
        time.sleep(0.3)  # the bars are drawn ten times a second
        progress.say("kept [line]")
    text = out.getvalue()
    assert "kept [line]" in text and "done" in text
    assert "[not markup]" in text and "1/5" in text


def test_silent() -> None:
    with Silent().stage("x", 3) as stage:
        stage.advance()
        stage.text("y")
        stage.total(2)
    Silent().say("z")
