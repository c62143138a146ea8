# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync set`, `reset` and `apply`, killed between any two of their writes, on fake hosts.

The same command typed again, or a `reset`, ends as if nobody had been killed. A line of these
modules before which no file has changed is not tried: a kill there leaves what the one before did.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lab.core import files
from lab.operate import actions, host_parameters, kept, settings
from tests.lab import test_host_parameters, test_settings
from tests.lab.test_settings import values

Act = Callable[[], object]
Tree = dict[str, str | None]
"""Path to text; a folder has None."""
MODULES = {one.__file__ for one in (actions, files, host_parameters, kept, settings)}
LEAST = 5
"""Writes of any command here; a test that sees fewer looks at the wrong ones."""


def tree(root: Path) -> Tree:
    return {str(one.relative_to(root)): None if one.is_dir() else one.read_text()
            for one in root.rglob("*")}


def restore(root: Path, before: Tree) -> None:
    for one in root.iterdir():
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()
    for name, text in sorted(before.items()):
        if text is None:
            (root / name).mkdir()
        else:
            (root / name).write_text(text)


def at_each_line(act: Act, look: Callable[[int], None]) -> None:
    """Have `look` called before each line of the modules, with how many were before it."""
    number = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal number
        if frame.f_code.co_filename not in MODULES:
            return None
        if event == "line":
            look(number)
            number += 1
        return trace
    debugger = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(debugger)


def changes(root: Path, act: Act) -> list[int]:
    """Before which lines files have changed."""
    found: list[int] = []
    last = tree(root)

    def look(number: int) -> None:
        nonlocal last
        now = tree(root)
        if now != last:
            found.append(number)
            last = now
    at_each_line(act, look)
    return found


def killed(act: Act, line: int) -> None:
    def look(number: int) -> None:
        if number == line:
            os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if child == 0:
        try:
            at_each_line(act, look)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def each_kill(root: Path, act: Act) -> Iterator[None]:
    """The files as each kill leaves them. At last they are as `act` leaves them itself."""
    before = tree(root)
    lines = changes(root, act)
    after = tree(root)
    assert len(lines) >= LEAST, lines
    for line in lines:
        restore(root, before)
        killed(act, line)
        yield
    restore(root, after)


class Vms(test_settings.Fake):
    """`web` and `db` run and have what is kept for them, `gone` does not; `db` has more."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.web = self.vm(10, "-name", "web")
        self.db = self.vm(20, "-id", "100", "-name", "db")
        self.file.parent.mkdir(parents=True)
        self.file.write_text('[web]\nmark = "exit"\ncandidate = "hvs"\n[100]\nextend_us = "500"\n'
                             '[gone]\nmark = "exit"\n')
        actions.apply(self.host, self.file, None)
        (self.db / "yield").write_text("strong\n")

    def run(self, *words: str) -> None:
        match words:
            case ["set", vm, *wanted]:
                chosen = dict(one.split("=") for one in wanted)
                actions.change(self.host, self.file, vm, chosen)
            case ["reset", *vm]:
                actions.reset(self.host, self.file, vm[0] if vm else None)
            case _:
                assert actions.apply(self.host, self.file, None)[1] == []


RESETS = (("reset",), ("reset", "web"))
SET = ("set", "web", "mark=yield", "extend_us=20", "candidate=global")


@pytest.mark.parametrize("words", [*RESETS, ("apply",), SET])
def test_typed_again_it_ends_as_if_nothing_had_been(tmp_path: Path, words: tuple[str, ...]) -> None:
    host = Vms(tmp_path)
    if words == ("apply",):
        for name in ("mark", "candidate"):  # a VM that has started again
            (host.web / name).write_text("global\n")
    ends = []
    for _ in each_kill(tmp_path, lambda: host.run(*words)):
        host.run(*words)
        ends.append(tree(tmp_path))
        host.run("reset")
        assert values(host.web) == values(host.db) == {} == kept.read(host.file)
    assert all(one == tree(tmp_path) for one in ends)


@pytest.mark.parametrize("words", RESETS)
def test_apply_after_a_killed_reset_sets_all_that_is_still_kept(
        tmp_path: Path, words: tuple[str, ...]) -> None:
    """All is kept, or nothing of it."""
    host = Vms(tmp_path)
    all_kept = kept.read(host.file)
    seen = []
    for _ in each_kill(tmp_path, lambda: host.run(*words)):
        host.run("apply")
        left = kept.read(host.file)
        assert values(host.web) == left.get("web", {})
        assert values(host.db).get("extend_us") == left.get("100", {}).get("extend_us")
        seen.append(left)
        host.run("reset")
        assert values(host.web) == values(host.db) == {} == kept.read(host.file)
    assert all_kept in seen and kept.read(host.file) in seen
    assert all(left in (all_kept, kept.read(host.file)) for left in seen)


class Parameters(test_host_parameters.Fake):
    """A host whose file has been applied, once or twice, or not at all."""

    def __init__(self, folder: Path, *applied: dict[str, str]) -> None:
        super().__init__(folder)
        for wanted in applied:
            self.wants(**wanted)
            self.apply()

    def left(self) -> list[str]:
        """Files in /run."""
        return [one.name for one in self.host.run.glob("*")] if self.host.run.exists() else []


FIRST, SECOND = {"mark": "exit", "extend": "ecs"}, {"extend": "count", "extend_us": "500"}


@pytest.mark.parametrize("applied", [[], [FIRST]])
def test_a_killed_apply_of_the_host(tmp_path: Path, applied: list[dict[str, str]]) -> None:
    host = Parameters(tmp_path, *applied)
    host.wants(**SECOND)
    ends = []
    for _ in each_kill(tmp_path, host.apply):
        saved = tree(tmp_path)
        host.apply()
        ends.append(tree(tmp_path))
        restore(tmp_path, saved)
        host.reset()
        assert host.own() == {} and host.left() in ([], [".host.json.lock"])
    assert all(one == tree(tmp_path) for one in ends)


def test_a_killed_reset_of_the_host(tmp_path: Path) -> None:
    host = Parameters(tmp_path, FIRST)
    for _ in each_kill(tmp_path, host.reset):
        saved = tree(tmp_path)
        host.reset()
        assert host.own() == {} and host.left() == [".host.json.lock"]
        restore(tmp_path, saved)
        host.apply()
        assert host.own() == FIRST
        host.reset()
        assert host.own() == {} and host.left() == [".host.json.lock"]
