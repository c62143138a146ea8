# SPDX-License-Identifier: GPL-2.0-only
"""Progress on everything over a few seconds: bars on a terminal, lines elsewhere.

A `Progress` hands out stages, each a context manager:

    with progress.stage("kernel", total=2100) as stage:
        stage.advance()
        stage.text("CC kernel/fork.o")

Without a total the stage shows a pulse and its elapsed time. `progress.say()`
leaves a permanent line above the bars.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

PLAIN_INTERVAL_S = 5.0
"""Least time between two lines of one stage when there is no terminal."""

_silent = False


def silence(silent: bool) -> None:
    """Whether `shown` is to show nothing, as --quiet asks for."""
    global _silent  # noqa: PLW0603 (one screen, and one wish of its user)
    _silent = silent


class Stage(Protocol):
    """One piece of work that is under way."""

    def before(self, amount: int) -> None:
        """So many were done before it began: they tell nothing of how long the rest takes."""

    def advance(self, amount: int = 1) -> None:
        """So many units of the stage's total are done."""

    def text(self, text: str) -> None:
        """What is being worked on now."""

    def total(self, total: int) -> None:
        """The total became known, or changed."""

    def left(self, seconds: float | None) -> None:
        """So long it takes from now on, or that is not known; else it follows from what is done."""


class Progress(Protocol):
    """Where stages are shown."""

    def stage(self, name: str, total: int | None = None) -> "_StageManager":
        """Open a stage; use as a context manager."""

    def say(self, text: str) -> None:
        """Print one line that stays."""


class _StageManager(Protocol):
    def __enter__(self) -> Stage: ...
    def __exit__(self, *exc: object) -> bool | None: ...


class _SilentStage:
    def before(self, amount: int) -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        pass

    def text(self, text: str) -> None:
        pass

    def total(self, total: int) -> None:
        pass

    def left(self, seconds: float | None) -> None:
        pass

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class Silent:
    """Shows nothing; for tests and for callers that have no screen."""

    def stage(self, name: str, total: int | None = None) -> _StageManager:
        return _SilentStage()

    def say(self, text: str) -> None:
        pass


class _PlainStage:
    """Prints a line at the start, at most one every few seconds, one at the end."""

    def __init__(self, name: str, total: int | None, out: TextIO, clock: Callable[[], float]):
        self._name, self._total, self._out, self._clock = name, total, out, clock
        self._done = self._before = 0
        self._text = ""
        self._left: Callable[[], float | None] = self._by_speed
        self._began = self._shown = clock()

    def before(self, amount: int) -> None:
        self._done = self._before = amount

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        self._maybe()

    def text(self, text: str) -> None:
        self._text = text
        self._maybe()

    def total(self, total: int) -> None:
        self._total = total

    def left(self, seconds: float | None) -> None:
        end = None if seconds is None else self._clock() + seconds
        self._left = lambda: None if end is None else max(0.0, end - self._clock())

    def __enter__(self) -> Stage:
        self._line("started")
        return self

    def __exit__(self, *exc: object) -> None:
        elapsed = self._clock() - self._began
        self._line(f"{'stopped' if exc and exc[0] else 'done'} after {duration(elapsed)}")

    def _maybe(self) -> None:
        now = self._clock()
        if now - self._shown >= PLAIN_INTERVAL_S:
            self._shown = now
            self._line(" ".join(part for part in (self._count(), self._text) if part))

    def _count(self) -> str:
        if not self._total:
            return ""
        if self._done > self._total:
            return f"{self._done}, more than the {self._total} expected"
        left = self._left()
        about = "" if left is None else f", about {duration(left)} left"
        return f"{self._done}/{self._total}{about}"

    def _by_speed(self) -> float | None:
        made = self._done - self._before
        if not made or self._total is None:
            return None
        return (self._clock() - self._began) / made * (self._total - self._done)

    def _line(self, text: str) -> None:
        print(f"{self._name}: {text}", file=self._out, flush=True)


class Plain:
    """Lines, for pipes and logs."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic):
        self._out, self._clock = out, clock

    def stage(self, name: str, total: int | None = None) -> _StageManager:
        return _PlainStage(name, total, self._out or sys.stderr, self._clock)

    def say(self, text: str) -> None:
        print(text, file=self._out or sys.stderr, flush=True)


class _RichStage:
    def __init__(self, bars: RichProgress, name: str, total: int | None):
        self._bars, self._name, self._total = bars, name, total
        self._task: TaskID | None = None

    def before(self, amount: int) -> None:
        if self._task is not None:
            self._bars.reset(self._task, completed=amount)

    def advance(self, amount: int = 1) -> None:
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def text(self, text: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, text=text)

    def total(self, total: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, total=total)

    def left(self, seconds: float | None) -> None:
        if self._task is not None:
            end = None if seconds is None else time.monotonic() + seconds
            self._bars.update(self._task, end=end)

    def __enter__(self) -> Stage:
        self._began = time.monotonic()
        self._task = self._bars.add_task(self._name, total=self._total, text="")
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._task is not None
        self._bars.remove_task(self._task)
        mark = "[red]stopped[/]" if exc and exc[0] else "[green]done[/]"
        elapsed = duration(time.monotonic() - self._began)
        self._bars.console.print(f"{self._name}: {mark} after {elapsed}", highlight=False)


class _Left(TimeRemainingColumn):
    """What a stage was told, or what follows from its speed."""

    max_refresh = 0.0

    def render(self, task: Task) -> Text:
        if "end" not in task.fields:
            return super().render(task)
        end = task.fields["end"]
        left = "" if end is None else duration(max(0.0, end - time.monotonic()))
        return Text(left, style="progress.remaining")


class _Rich:
    def __init__(self, bars: RichProgress):
        self._bars = bars

    def stage(self, name: str, total: int | None = None) -> _StageManager:
        return _RichStage(self._bars, name, total)

    def say(self, text: str) -> None:
        self._bars.console.print(text, markup=False, highlight=False)


@contextmanager
def shown(console: Console | None = None) -> Iterator[Progress]:
    """The progress display that suits standard error; bars end with the block."""
    if _silent:
        yield Silent()
        return
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield Plain()
        return
    bars = RichProgress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _Left(),
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        transient=True,
    )
    with bars:
        yield _Rich(bars)


def duration(seconds: float) -> str:
    """12 s, 3 min 20 s, 1 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
