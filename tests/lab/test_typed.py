# SPDX-License-Identifier: GPL-2.0-only
"""A user's shell in virtual time: prompts with a clock, keys, and a host that is held."""

import os
import pty
import runpy
import socket
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.core import paths
from lab.machine.machine import HostSpec, host_command
from lab.plan import machine_model
from lab.run import shell_vt

TYPED = paths.LAB / "target/typed.py"


@pytest.fixture(scope="module")
def typed() -> dict[str, Any]:
    return runpy.run_path(str(TYPED))


def test_prompts_have_the_clock(typed: dict[str, Any]) -> None:
    screen = typed["Screen"](lambda: 12.3456789)
    assert screen.shown(b"hello\r\n[@@@@@@.@@@@@@ s] host# ") == (
        b"hello\r\n[    12.345679 s] host# ")
    assert screen.waits
    assert screen.shown(b"ls\r\n\x1b]pvsync\x07file @@@ x\r\n") == b"ls\r\nfile @@@ x\r\n"
    assert not screen.waits


def test_marks_may_come_in_pieces(typed: dict[str, Any]) -> None:
    said = b"a@\r\n[@@@@@@.@@@@@@ s] # x\x1b]pvsync\x07\x1b[0m@@"
    screen = typed["Screen"](lambda: 1.0)
    out = b"".join(screen.shown(said[at:at + 1]) for at in range(len(said)))
    assert out + screen.rest() == b"a@\r\n[     1.000000 s] # x\x1b[0m@@"
    assert not screen.waits


def test_the_prompts_of_shells_are_those(typed: dict[str, Any]) -> None:
    text = (paths.LAB / "target/typed.bash").read_text()
    assert typed["CLOCK"].decode() in text
    assert "\\e]pvsync\\a" in text and typed["RUNS"] == b"\x1b]pvsync\x07"


def test_a_shell_that_waits_holds_its_machine(typed: dict[str, Any]) -> None:
    """Once for its prompt, and once for each key; not while a command runs."""
    child, terminal = pty.fork()
    if not child:
        os.execvp("bash", ["bash", "--rcfile", str(TYPED.with_name("typed.bash")), "-i"])
    keys, keyboard = os.pipe()
    reader, screen = os.pipe()
    holds: list[str] = []
    commands = iter((b"sleep 0.2; echo o''k\r", b"exit\r"))

    def hold() -> None:
        holds.append("")
        os.write(keyboard, next(commands))

    relay = threading.Thread(target=typed["relay"], args=(keys, screen, terminal, hold))
    relay.start()
    relay.join(20)
    os.waitpid(child, 0)
    said = os.read(reader, 1 << 16).decode()
    assert not relay.is_alive() and len(holds) == 2
    assert "\rok\r\n" in said and said.count(" s] host# ") == 2 and "@" not in said


def test_keys() -> None:
    keys = shell_vt.Keys()
    assert keys.given(b"ls\x01") == b"ls" and keys.given(b"\x01\x03") == b"\x01\x03"
    assert keys.given(b"\x01x") is None and shell_vt.Keys().given(b"a\x01X") is None


def test_arguments(tmp_path: Path) -> None:
    nothing = Path("/dev/null")
    spec = HostSpec("vt", 2, 64, nothing, nothing, nothing, nothing, ("qemu",),
                    model=machine_model.load("zen4"))
    argv = shell_vt.arguments(host_command(spec, tmp_path, tmp_path), tmp_path)
    assert argv[argv.index("-serial") + 1] == "chardev:console"
    waits = [word for word in argv if "wait=on" in word]
    assert [word.split(",")[0] for word in waits] == ["socket", f"unix:{tmp_path}/steer"]
    assert "id=console" in waits[0] and "lab.typed=1" in argv[argv.index("-append") + 1]


class FakeSteer:
    """A machine that stops itself as often as it is told, and what went on."""

    def __init__(self) -> None:
        self.stops = threading.Semaphore(0)
        self.went = threading.Semaphore(0)

    def wait(self, seconds: float) -> bool:
        return self.stops.acquire(timeout=30)

    def go_on(self) -> None:
        self.went.release()


@contextmanager
def consoles() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        yield ours, theirs


def test_a_key_lets_the_machine_go_on() -> None:
    steer = FakeSteer()
    with consoles() as (ours, theirs):
        hand = shell_vt.Hand(steer, ours)  # type: ignore[arg-type]
        steer.stops.release()
        assert not steer.went.acquire(timeout=0.3)
        ours.sendall(b"k")
        assert theirs.recv(9) == b"k"
        hand.typed()
        assert steer.went.acquire(timeout=20)
        steer.stops.release()
        assert not steer.went.acquire(timeout=0.3)


def test_bytes_go_both_ways_until_the_end() -> None:
    steer = FakeSteer()
    keys, keyboard = os.pipe()
    reader, screen = os.pipe()
    with consoles() as (ours, theirs):
        served = threading.Thread(target=shell_vt.serve, args=(
            keys, screen, ours, shell_vt.Hand(steer, ours)))  # type: ignore[arg-type]
        served.start()
        os.write(keyboard, b"ls\r")
        assert theirs.recv(9) == b"ls\r"
        theirs.sendall(b"file\r\n")
        assert os.read(reader, 99) == b"file\r\n"
        os.write(keyboard, b"\x01x")
        served.join(20)
        assert not served.is_alive()


def test_a_terminal_is_as_before() -> None:
    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    with shell_vt.raw(follower):
        assert termios.tcgetattr(follower) != before
    assert termios.tcgetattr(follower) == before
    os.close(leader)
    os.close(follower)
