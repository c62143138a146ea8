# SPDX-License-Identifier: GPL-2.0-only
"""The lab's end of the control channel to hostd, see target/hostd.py."""

import base64
import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from lab.core.decode import read_json
from lab.core.errors import LabError
from lab.machine.steer import Steer, SteerError

ANSWER_GRACE = 30.0
"""Seconds that hostd's answer may come later than the operation's own limit."""

SAID_S = 60.0
"""Seconds that a line of a host which stands still already may take to be read."""

Answer = dict[str, Any]


class HostLost(LabError):
    """The host ended or went silent; it must be booted again."""


class Refused(LabError):
    """hostd carried the request out and it failed; the host is alive."""


class Control:
    """Requests to hostd over a connected stream socket; safe across threads.

    When its log cannot be written any more (the disk is full), the next request
    raises that OSError. Limits are seconds of the host's own clock; one of them may take
    `wall` seconds here.
    """

    def __init__(self, stream: socket.socket, log: Path,
                 why_lost: Callable[[], str] = lambda: "", wall: float = 1.0,
                 steer: Steer | None = None) -> None:
        self._stream = stream
        self._wall = wall
        self._steer = steer
        self._unsent: list[bytes] = []
        """Requests that a host which stands still gets when one of them is waited for."""
        self._holds = threading.Semaphore(0)
        """How often hostd has said that it stops its machine, and was not heard yet."""
        self._why_lost = why_lost
        self._log = log.open("a", encoding="utf-8")
        self._pending: dict[int, Future[Answer]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._lost = False
        self._closing = False
        self._unwritten: OSError | None = None
        self.up: Future[Answer] = Future()
        """hostd's first line: version, kernel, cpus, clocksource, free_mib."""
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def steer(self) -> Steer | None:
        """What lets the host go on, in virtual time."""
        return self._steer

    @property
    def steered(self) -> bool:
        """Whether the host stands still except while somebody waits for an answer."""
        return self._steer is not None

    def submit(self, op: str, **arguments: Any) -> Future[Answer]:
        """Send a request; the future holds the answer, HostLost or Refused."""
        future: Future[Answer] = Future()
        with self._lock:
            if self._unwritten is not None:
                raise self._unwritten
            if self._lost:
                raise HostLost(self._reason())
            ident = next(self._ids)
            self._pending[ident] = future
            line = json.dumps({"id": ident, "op": op, **arguments})
            self._note(">", line)
            self._unsent.append(line.encode() + b"\n")
            if self._steer is None:
                self._send(self._due())
        return future

    def _due(self) -> bytes:
        """What is to be sent; the caller holds the lock."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        return data

    def _send(self, data: bytes) -> None:
        try:
            if self._steer is None:
                self._stream.sendall(data)
            else:
                self._steer.hand_over(self._stream, data)
        except OSError as error:
            raise HostLost(self._reason()) from error

    def call(self, op: str, *, timeout: float = 60.0, patience: float = 0.0,
             **arguments: Any) -> Answer:
        """Send a request and wait; `timeout` (s) is also the operation's own.

        `patience` is added for operations that have further limits.
        """
        if op not in ("hello", "read", "write", "copy", "tune", "kill", "quit"):
            arguments["timeout"] = timeout
        return self.wait(self.submit(op, **arguments), timeout + patience + ANSWER_GRACE, op)

    def wait(self, future: Future[Answer], seconds: float, what: str) -> Answer:
        """The answer, or HostLost when none came within `seconds` of the host."""
        if self._steer is not None:
            self._let_run(self._steer, future, seconds * self._wall)
        try:
            return future.result(seconds * self._wall)
        except FutureTimeout:
            raise HostLost(
                f"the host was silent for {seconds:.0f} s after it was asked to {what}") from None

    def settle(self, seconds: float) -> None:
        """Wait until a host in virtual time stands still, as it does after it has come up."""
        if self._steer is not None and not (
                self._steer.wait(seconds * self._wall, self._is_gone)
                and self._holds.acquire(timeout=SAID_S)):
            raise HostLost(self._reason())

    def _let_run(self, steer: Steer, future: Future[Answer], wall: float) -> None:
        """Send what is unsent, let the host run until it has nothing left to do, and again."""
        end = time.monotonic() + wall
        try:
            while not future.done() and (left := end - time.monotonic()) > 0:
                with self._lock:
                    due = self._due()
                self._send(due)
                steer.go_on()
                if not steer.wait(left, self._is_gone):
                    return
                # Heard also when the answer is there: one left over would be taken for the
                # next stop's, and the host would run on without the request.
                while not (self._lost or self._holds.acquire(timeout=0.1)):
                    if time.monotonic() > end:
                        return
        except SteerError as error:
            if not future.done():
                raise HostLost(self._why_lost() or str(error)) from error

    def read_file(self, path: str, offset: int = 0) -> bytes:
        """The bytes of a host's file from `offset` on; empty when missing."""
        data = b""
        while chunk := base64.b64decode(
                self.call("read", path=path, offset=offset + len(data))["data"]):
            data += chunk
            if len(chunk) < 1 << 20:
                break
        return data

    def write_file(self, path: str, text: str) -> None:
        """Write a host's file, such as a kernel parameter."""
        self.call("write", path=path, text=text)

    def run(self, *argv: str, timeout: float = 60.0) -> tuple[int, str]:
        """Exit status and output of a program that runs in the host."""
        answer = self.call("exec", argv=list(argv), timeout=timeout)
        return answer["status"], base64.b64decode(answer["out"]).decode(errors="replace")

    def close(self) -> None:
        """Close the channel; hostd takes that as the order to end."""
        self._closing = True
        if self._steer is not None:
            self._steer.close()
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()
        self._thread.join(5)
        with self._lock, contextlib.suppress(OSError):
            self._log.close()

    def _note(self, sign: str, line: str) -> None:
        if self._log.closed:
            return
        try:
            self._log.write(f"{time.monotonic():.3f} {sign} {line}\n")
            self._log.flush()
        except OSError as error:
            self._unwritten = OSError(error.errno, error.strerror, self._log.name)

    def _reason(self) -> str:
        return self._why_lost() or "the host closed its control channel"

    def _is_gone(self) -> bool:
        return self._lost or self._closing

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._stream.makefile("rb") as lines:
            for line in lines:
                self._receive(line)
        with self._lock:
            self._lost = True
            waiting = list(self._pending.values())
            self._pending.clear()
        asked = (waiting or not self.up.done()) and not self._closing
        reason = self._reason() if asked else "the lab closed the control channel"
        for future in [*waiting, self.up]:
            if not future.done():
                future.set_exception(HostLost(reason))

    def _receive(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\n")
        with self._lock:
            self._note("<", text)
        try:
            body = read_json(text)
        except ValueError:
            return
        if not isinstance(body, dict):
            return
        if body.get("event") == "up" and not self.up.done():
            self.up.set_result(body)
            return
        if body.get("event") == "hold":
            self._holds.release()
            return
        with self._lock:
            ident = body.get("id")
            future = self._pending.pop(ident, None) if isinstance(ident, int) else None
        if future is None or future.done():
            return
        if body.get("ok"):
            future.set_result(body)
        else:
            future.set_exception(Refused(str(body.get("error", "hostd refused without a word"))))
