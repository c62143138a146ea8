# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the KVM host: one monitor has a guest, and another one takes it over.

two_monitors.py firmware PROGRAM FIRMWARE: the monitor, and shares.S. Prints what came of each of
`MOVES` as JSON.

two_monitors.py linux PROGRAM KERNEL ROOT APPEND: a Linux, from these files and with these boot
arguments. Prints what it said before and after, as JSON.

The guest shares its CPU with a rival, so the host has something to tell it.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOST = "on to where its memory is not"
MOVES = {
    "on to on": ("pvsync-ecs=on", "pvsync-ecs=on"),
    "on to others": ("pvsync-ecs=on", "pvsync-help=on"),
    "on to nothing": ("pvsync-ecs=on", ""),
    "off to nothing": ("pvsync-ecs=off", ""),
    "nothing to nothing": ("", ""),
    LOST: ("pvsync-ecs=on", "pvsync-ecs=on"),
}
"""What either monitor is told that the guest may have."""
LINES = 30
"""Of the guest's, to be judged by."""
SILENT = 2
"""Of one that its host tells nothing: each takes seconds."""
RECORD = 0x8001
"""What the firmware has in the MSR."""
NOWHERE = 0x40000001
"""The same beyond the guest's memory."""
LIMIT_S = 60.0
FOLDER = Path("/run/two-monitors")


class Monitor:
    """A QEMU process, what its guest says, and its QMP socket."""

    def __init__(self, name: str, program: str, features: str, *guest: str) -> None:
        self.console = FOLDER / f"{name}.console"
        self.errors = FOLDER / f"{name}.errors"
        qmp = FOLDER / f"{name}.qmp"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [program, "-nodefaults", "-no-user-config", "-display", "none",
                 "-accel", "kvm" + (f",{features}" if features else ""), "-cpu", "host",
                 "-M", "microvm,isa-serial=on,rtc=on", "-serial", f"file:{self.console}",
                 "-qmp", f"unix:{qmp},server=on,wait=off", *guest],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        self.qmp = socket.socket(socket.AF_UNIX)
        until(lambda: connected(self.qmp, qmp) or self.process.poll() is not None,
              f"{name} has no socket")
        if self.process.poll() is not None:
            raise SystemExit(f"{name} ended at once: {self.said()}")
        self.answers = self.qmp.makefile("r")
        self.answers.readline()
        self.tell("qmp_capabilities")
        self.tell("migrate-set-capabilities",
                  capabilities=[{"capability": "return-path", "state": True}])

    def tell(self, command: str, **arguments: Any) -> Any:
        """One QMP command, and what it returns."""
        self.qmp.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        for line in self.answers:
            answer = json.loads(line)
            if "error" in answer:
                raise SystemExit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise SystemExit(f"{command}: the monitor has ended: {self.said()}")

    def lines(self) -> list[str]:
        """What the guest has said, the last of it maybe in the midst of a line."""
        return self.console.read_text().split("\n") if self.console.exists() else [""]

    def first_lines(self, number: int) -> list[str]:
        """So many, or the only one of a guest that is offered no record."""
        self.await_lines(lambda: len(self.lines()) > number or self.lines() == ["N", ""])
        return self.lines()[:-1][:number]

    def more_lines(self, number: int) -> list[str]:
        """The guest's next whole lines; what it is in the midst of does not count."""
        begun = len(self.lines())
        self.await_lines(lambda: len(self.lines()) > begun + number)
        return self.lines()[begun:begun + number]

    def await_lines(self, there: Callable[[], bool]) -> None:
        """SystemExit says what the guest and the monitor have said instead."""
        try:
            until(there, self.console.stem)
        except SystemExit as late:
            said = "\n".join(self.lines()[-LINES:])
            raise SystemExit(f"{late}: the guest is late: {said}\n{self.said()}") from None

    def said(self) -> str:
        """What the monitor itself has said."""
        return self.errors.read_text().strip()

    def end(self) -> None:
        """At once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.qmp.close()


def until(done: Callable[[], object], otherwise: str) -> None:
    """Wait until it is so; SystemExit when it takes too long."""
    late = time.monotonic() + LIMIT_S
    while not done():
        if time.monotonic() > late:
            raise SystemExit(otherwise)
        time.sleep(0.02)


def connected(client: socket.socket, path: Path) -> bool:
    """Whether somebody listens there."""
    try:
        client.connect(str(path))
    except OSError:
        return False
    return True


def ended(source: Monitor) -> str:
    """How the migration from there has ended, "" while it goes on."""
    status = str(source.tell("query-migrate").get("status"))
    return status if status in ("completed", "failed") else ""


def migrate(source: Monitor, target: Monitor) -> str:
    """To a monitor that defers it; how that ended."""
    uri = f"unix:{FOLDER}/migration"
    target.tell("migrate-incoming", uri=uri)
    source.tell("migrate", uri=uri)
    until(lambda: ended(source), "the migration does not end")
    return ended(source)


def saved(value: int) -> bytes:
    """A value of the MSR, as QEMU saves it: a subsection, its name, its version and the value."""
    name = b"cpu/pvsync_ecs_msr"
    return struct.pack(f">BB{len(name)}sIQ", 5, len(name), name, 1, value)


def migrate_elsewhere(source: Monitor, target: Monitor) -> str:
    """By a file, which is made to have the record at `NOWHERE`; how the source's part ended.

    A guest that moves a device's memory away under its record is saved so.
    """
    state = FOLDER / "state"
    source.tell("migrate-set-capabilities",
                capabilities=[{"capability": "return-path", "state": False}])
    source.tell("migrate", uri=f"file:{state}")
    until(lambda: ended(source), "the migration to a file does not end")
    whole = state.read_bytes()
    if whole.count(saved(RECORD)) != 1:
        raise SystemExit("the state of the guest does not have its record once")
    state.write_bytes(whole.replace(saved(RECORD), saved(NOWHERE)))
    target.tell("migrate-incoming", uri=f"file:{state}")
    return ended(source)


def move(name: str, program: str, firmware: str) -> dict[str, Any]:
    """What the guest said on either side, and what the second monitor did."""
    first, second = MOVES[name]
    guest = ("-m", "16M", "-bios", firmware)
    source = Monitor(f"{name} source", program, first, *guest)
    before = source.first_lines(LINES)
    target = Monitor(f"{name} target", program, second, *guest, "-incoming", "defer")
    status = (migrate_elsewhere if name == LOST else migrate)(source, target)
    goes_on = target if status == "completed" else source
    told = first and name != LOST
    after = goes_on.more_lines(LINES if told else SILENT) if before != ["N"] else []
    if status == "failed":
        target.process.wait(LIMIT_S)
    found = {"before": before, "status": status, "after": after, "said": target.said(),
             "exit": target.process.poll()}
    for monitor in (source, target):
        monitor.end()
    return found


def move_linux(program: str, kernel: str, root: str, append: str) -> dict[str, list[str]]:
    """What it said on either side."""
    guest = ("-smp", "2", "-m", "256M", "-kernel", kernel, "-append", append,
             "-L", "/usr/share/qemu", "-L", "/usr/share/seabios",
             "-drive", f"id=root,file={root},format=raw,if=none,readonly=on",
             "-device", "virtio-blk-device,drive=root")
    source = Monitor("source", program, "pvsync-ecs=on", *guest)
    before = source.first_lines(LINES)
    target = Monitor("target", program, "pvsync-ecs=on", *guest, "-incoming", "defer")
    assert migrate(source, target) == "completed", target.said()
    return {"before": before, "after": target.more_lines(LINES)}


def main(what: str, program: str, *files: str) -> None:
    """Prints a JSON object."""
    FOLDER.mkdir()
    os.sched_setaffinity(0, {0})
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        found = move_linux(program, *files) if what == "linux" else {
            name: move(name, program, *files) for name in MOVES}
        print(json.dumps(found))
    finally:
        rival.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
