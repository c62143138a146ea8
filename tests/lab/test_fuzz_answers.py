# SPDX-License-Identifier: GPL-2.0-only
"""Damaged texts of what hosts and this machine say; `test_fuzz.py` says what has to come out."""

import asyncio
import json
import runpy
import shutil
import socket
import tempfile
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.build import series
from lab.machine import backend
from lab.machine.control import Control, HostLost, Refused
from lab.machine.machine import HOSTD
from lab.observe import counters, top, vms
from tests import run_all
from tests.lab.damage import COUNT, any_or_damaged, damaged, place

__all__ = ["place"]


# What the host says


@given(st.binary() | st.sampled_from([
    b'{"id": [], "ok": true}', b'{"id": {}, "ok": true}', b'{"id": null}', b"[" * 99_999, b"1",
    b'{"event": "up"}', b'{"id": 1, "id": 2}', b'{"id": true, "ok": true}', b"9" * 5000]))
def test_any_line_from_the_host(place: Path, line: bytes) -> None:
    ours, theirs = socket.socketpair()
    control = Control(ours, place / "log")
    with theirs:
        future = control.submit("hello")
        theirs.recv(999)
        theirs.sendall(line.replace(b"\n", b"") + b"\n" + b'{"id": 1, "ok": true, "x": 5}\n')
        with suppress(Refused):
            assert control.wait(future, 10, "answer")["ok"]
    control.close()


HOSTD_NAMES = runpy.run_path(str(HOSTD))
DAEMON: Any = HOSTD_NAMES["Daemon"]
GUEST: Any = HOSTD_NAMES["Guest"]
FAILURE: Any = HOSTD_NAMES["Failure"]


class Writer:
    """Keeps what hostd answers."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.lines.append(data)

    async def drain(self) -> None:
        pass


@given(st.binary() | damaged(b'{"id": 7, "op": "read", "path": "/none", "offset": 0}')
       | st.sampled_from([b'{"id": 1, "op": "guest"}', b'{"id": 1, "op": []}', b"[" * 99_999,
                          b'{"id": 1, "op": "read", "path": 5}', b'{"op": "round"}']))
def test_hostd_answers_whatever_it_is_asked(place: Path, line: bytes) -> None:
    writer = Writer()
    asyncio.run(DAEMON(place).answer(line, writer))
    (answer,) = writer.lines
    assert isinstance(json.loads(answer)["ok"], bool)


WORD = st.sampled_from(["out", "end", "done", "t", "1", "x", "gone", "aGk=", "a", "====", "é"])


@given(st.lists(st.lists(WORD, min_size=1, max_size=4)))
@example([["done", "t"], ["end", "t"]])
@example([["done", "t", "0", "5"], ["out", "t", "a"], ["end", "t"]])
def test_hostd_with_a_guest_that_babbles(place: Path, lines: list[list[str]]) -> None:
    """A good answer has a status, a time and base64; anything else is a refusal."""
    async def ask() -> dict[str, Any]:
        daemon, writer, guest = DAEMON(place), Writer(), GUEST("g", place)
        guest.agent = Writer()
        daemon.guests["g"] = guest
        for words in [*lines, ["gone"]]:
            guest.messages.put_nowait((0.0, words))
        request = {"id": 1, "op": "guest_exec", "name": "g", "tag": "t", "command": "true"}
        await daemon.answer(json.dumps(request).encode(), writer)
        return dict(json.loads(writer.lines[0]))
    answer = asyncio.run(ask())
    assert not answer["ok"] or (isinstance(answer["status"], int) and answer["elapsed"] >= 0)


@given(st.text() | COUNT.map(lambda n: f"usage_usec {n}\n"))
def test_hostd_reads_any_number(place: Path, text: str) -> None:
    (place / "stat").write_text(text)
    HOSTD_NAMES["number_in"](str(place / "stat"), "usage_usec")


def test_an_answer_that_never_comes(tmp_path: Path) -> None:
    future: Future[dict[str, Any]] = Future()
    ours, theirs = socket.socketpair()
    control = Control(ours, tmp_path / "log")
    with theirs, pytest.raises(HostLost, match="silent"):
        control.wait(future, 0.01, "answer")
    control.close()


# What this machine says


@given(st.text())
def test_any_text_of_this_machine(text: str) -> None:
    backend.cpu_flags(text)
    counters.parse(text)
    counters.pairs(text.split("\n"))
    vms.schedstat(text)
    vms.switches(text)
    assert vms.vm_number(text).isdigit() or not vms.vm_number(text)
    assert vms.vm_name(text, text).isprintable()
    run_all.closing(text)
    series.parse_offsets("x.patch", text)


@given(st.dictionaries(st.sampled_from(["7-1", "8-2", "9-3"]), st.tuples(
    *[st.sampled_from(["", "12 34 5\n", "nonvoluntary_ctxt_switches:\t7\n", "9" * 5000, "-name\0x",
                       "preempt_lock 5\n", "\ud7ff"])] * 6)))
def test_any_virtual_machines(place: Path, machines: dict[str, tuple[str, ...]]) -> None:
    root = Path(tempfile.mkdtemp(dir=place))
    (root / "debug/kvm").mkdir(parents=True)
    for name, texts in machines.items():
        folder, process = root / "debug/kvm" / name, root / "proc" / name[0]
        files = [folder / "vcpu0/pid", folder / "pvsync/counters", process / "cmdline",
                 process / "comm", process / "task/12/schedstat", process / "task/12/status"]
        for file, text in zip(files, texts, strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    seen = vms.read(root / "debug", root / "proc")
    assert set(seen) == set(machines)
    top.render(top.rows(seen, seen, 1.0), 1.0)
    shutil.rmtree(root)


@given(st.data())
def test_any_pytest_report(place: Path, data: st.DataObject) -> None:
    good = (b'<testsuites><testsuite tests="3" failures="1" errors="0" skipped="1">'
            b'</testsuite></testsuites>')
    (place / "x.xml").write_bytes(data.draw(any_or_damaged(good)))
    run_all.junit(place / "x.xml")
