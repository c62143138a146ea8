# SPDX-License-Identifier: GPL-2.0-only
"""The dialogue with a host that stands still, with real sockets and no machine."""

import fcntl
import gc
import json
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.machine.control import Control, HostLost
from lab.machine.steer import Steer, SteerError, unsent

WHOLE = 1 << 15
"""Bytes that a Unix socket takes in one piece at least; the rest of a message is another one."""


class FakeHost:
    """QEMU's monitor, and a hostd that reads only while its machine runs."""

    def __init__(self, folder: Path) -> None:
        self.monitor = folder / "steer"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.monitor))
        self.server.listen(1)
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX)
        self.seen: list[list[str]] = []
        """What had come each time the machine was let go on."""
        self.buffer = b""
        """What QEMU has taken of the socket."""
        self.deaf = False
        self.busy = False
        """The machine runs on for ever once it was let go on."""
        self.debugged = False
        """Somebody stops the machine in a debugger, and lets it go on, each time."""
        self.slow_s = 0.0
        """Between each command and its answer."""
        self.late_s = 0.0
        """Between the machine's stop and each line of its that can be read then."""
        self.migration = [{"status": "active"}, {"status": "completed"}]
        """What is said of it, one after the other."""
        self.asked: list[tuple[str, object]] = []
        """Commands and their arguments."""
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        stream, _ = self.server.accept()
        with stream, stream.makefile("w") as lines:
            self._say(lines, {"QMP": {"version": {}, "capabilities": []}})
            while data := stream.recv(4096):  # the client waits for the answer of each
                request = json.loads(data)
                named = {key: request[key] for key in ("id",) if key in request}
                asked = str(request["execute"])
                self.asked.append((asked, request.get("arguments")))
                time.sleep(self.slow_s)
                said_of = self.migration.pop(0) if asked == "query-migrate" else {}
                self._say(lines, {"return": said_of, **named})
                if request["execute"] == "cont" and not self.busy:
                    said = [{"id": json.loads(one)["id"], "ok": True}
                            for one in self._take().splitlines()]
                    if self.debugged:
                        self._say(lines, {"event": "STOP", "timestamp": {}})
                        time.sleep(0.1)
                        self._say(lines, {"event": "RESUME", "timestamp": {}})
                    if self.late_s:
                        self._stop(lines)
                    for line in (*said, {"event": "hold"}):
                        time.sleep(self.late_s)
                        self.theirs.sendall(json.dumps(line).encode() + b"\n")
                    if not self.late_s:
                        self._stop(lines)

    def _stop(self, lines: object) -> None:
        self._say(lines, {"event": "GUEST_PANICKED", "data": {"action": "pause"},
                          "timestamp": {}})
        self._say(lines, {"event": "STOP", "timestamp": {}})

    def _take(self) -> bytes:
        got = self.buffer
        self.buffer = b""
        self.seen.append([json.loads(one)["op"] for one in got.splitlines()])
        return got

    def pump(self) -> None:
        """As QEMU does, take from the socket while the machine stands still.

        The socket is empty only when what was in it is the machine's.
        """
        while not self.deaf:
            try:
                self.theirs.settimeout(0.05)
                if not (data := self.theirs.recv(4096, socket.MSG_PEEK)):
                    return
                self.buffer += data
                self.theirs.recv(len(data))
            except TimeoutError:
                continue
            except OSError:
                return

    @staticmethod
    def _say(lines: object, body: dict[str, object]) -> None:
        lines.write(json.dumps(body) + "\n")  # type: ignore[attr-defined]
        lines.flush()  # type: ignore[attr-defined]


@contextmanager
def control(tmp_path: Path) -> Iterator[tuple[FakeHost, Control]]:
    host = FakeHost(tmp_path)
    threading.Thread(target=host.pump, daemon=True).start()
    one = Control(host.ours, tmp_path / "log", steer=Steer(host.monitor))
    try:
        yield host, one
    finally:
        one.close()
        host.theirs.close()
        host.server.close()


def test_requests_reach_a_host_that_stands_still_together(tmp_path: Path) -> None:
    with control(tmp_path) as (host, one):
        first, second = one.submit("start", name="a"), one.submit("start", name="b")
        time.sleep(0.2)
        assert not host.seen and not first.done()
        assert one.wait(second, 20, "start") == {"id": 2, "ok": True}
        assert host.seen == [["start", "start"]] and first.done()
        assert one.wait(first, 20, "start")["ok"] and len(host.seen) == 1
        one.call("switch", run=[])
        assert host.seen == [["start", "start"], ["switch"]]


def test_each_stop_has_its_own_hold(tmp_path: Path) -> None:
    """A hold that comes behind its answer does not stand for the next stop."""
    with control(tmp_path) as (host, one):
        host.late_s = 0.15
        for _ in range(3):
            one.call("switch", run=[])
        assert host.seen == [["switch"]] * 3


def test_a_stop_by_a_debugger_is_no_hold(tmp_path: Path) -> None:
    """Else the next request would be sent to a host that still runs."""
    with control(tmp_path) as (host, one):
        host.debugged = True
        for _ in range(2):
            one.call("switch", run=[])
        assert host.seen == [["switch"]] * 2


@pytest.mark.parametrize("slow_s", [0, 0.3])
def test_a_host_is_given_up_while_it_runs(
        tmp_path: Path, recwarn: pytest.WarningsRecorder, slow_s: float) -> None:
    """As by Ctrl-C: the lab's main thread ends the host that a lane's thread waits for.

    Or to which it still talks, where the monitor answers late.
    """
    with control(tmp_path) as (host, one), ThreadPoolExecutor(1) as lane:
        host.busy, host.slow_s = True, slow_s
        waits = lane.submit(one.call, "switch", run=[], timeout=3600)
        while "cont" not in [asked for asked, _ in host.asked]:
            time.sleep(0.01)
        one.close()
        with pytest.raises(HostLost):
            waits.result(20)
    gc.collect()
    assert not [one for one in recwarn if one.category is RuntimeWarning]


def test_a_monitor_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SteerError, match="monitor does not answer"):
        Steer(tmp_path / "nothing")


def test_a_host_is_saved_and_loaded(tmp_path: Path) -> None:
    with control(tmp_path) as (host, one):
        assert one.steer is not None
        for act, command in ((one.steer.save, "migrate"), (one.steer.load, "migrate-incoming")):
            host.migration = [{"status": "active"}, {"status": "completed"}]
            host.asked.clear()
            act(tmp_path / "machine")
            mapped = {"capabilities": [{"capability": "mapped-ram", "state": True}]}
            assert host.asked == [("migrate-set-capabilities", mapped),
                                  (command, {"uri": f"file:{tmp_path}/machine"}),
                                  ("query-migrate", {}), ("query-migrate", {})]
        host.migration = [{"status": "failed", "error-desc": "No space left"}]
        with pytest.raises(SteerError, match="failed: No space left"):
            one.steer.save(tmp_path / "machine")


def test_what_is_not_taken_is_not_called_sent(tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.machine.steer.CONNECT_S", 0.3)
    host = FakeHost(tmp_path)
    host.deaf = True
    one = Control(host.ours, tmp_path / "log", steer=Steer(host.monitor))
    with pytest.raises(HostLost, match="does not read what the lab has sent"):
        one.call("hello")
    assert unsent(host.ours) > 0 and not host.seen
    one.close()


def test_long_requests_are_sent_in_pieces(tmp_path: Path) -> None:
    """QEMU has taken each before the next is sent, so that what it reads at once is the same."""
    waited, got = [0], b""

    def take() -> None:
        nonlocal got
        while len(got) < len(sent):
            time.sleep(0.002)
            (size,) = struct.unpack("i", fcntl.ioctl(host.theirs, termios.FIONREAD, b"\0" * 4))
            waited.append(size)
            got += host.theirs.recv(4096)

    host, sent = FakeHost(tmp_path), bytes(range(256)) * 400
    reader = threading.Thread(target=take)
    reader.start()
    Steer(host.monitor).hand_over(host.ours, sent)
    reader.join()
    assert got == sent and 4096 < max(waited) < WHOLE
