# SPDX-License-Identifier: GPL-2.0-only
"""Stands for a guest's QEMU: its QMP and agent sockets and its console, no machine.

The kernel's command line says how it behaves: fake=noboot never answers,
fake=oops does not either and says why, fake=die ends when a round starts,
fake=splat writes one to the console, fake=hang never ends a run, fake=once:FILE
fails until FILE exists, fake=mute does not answer when its counters are asked
for, fake=unsaved cannot be saved, fake=lost is silent after it was restored,
fake=torn dies then. fake_marks=LOOKS:SEEN is what its kernel adds to its counters each time that
it is asked what is in force.

A restored one runs its command once more from the start.
"""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


def option(pattern: str) -> str:
    found = re.search(pattern, " ".join(sys.argv))
    return found.group(1) if found else ""


def listen(path: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    return server


def vcpus() -> list[dict[str, int]]:
    """This thread and the one that starts the commands, which are tied to CPUs as it is."""
    return [{"cpu-index": place, "thread-id": thread} for place, thread in enumerate(
        (threading.get_native_id(), threading.main_thread().native_id or 0))]


def qmp(server: socket.socket) -> None:
    stream, _ = server.accept()
    with stream, stream.makefile("rw") as lines:
        lines.write(json.dumps({"QMP": {}}) + "\n")
        lines.flush()
        for line in lines:
            request = json.loads(line)
            log.write(request["execute"] + "\n")
            log.flush()
            lines.write(json.dumps({"return": monitored(request)}) + "\n")
            lines.flush()


def monitored(request: dict[str, Any]) -> dict[str, str] | list[dict[str, int]]:
    """Carry a QMP command out."""
    if request["execute"] == "query-cpus-fast":
        return vcpus()
    file = Path(request.get("arguments", {}).get("uri", "").rpartition("exec:cat ")[2].lstrip(">"))
    if request["execute"] == "migrate":
        file.write_text(json.dumps({"command": agent.command, "run": agent.current}))
    if request["execute"] == "migrate-incoming":
        if mode == "torn":
            os._exit(1)
        state = json.loads(file.read_text())
        agent.command = state["command"]
        console.write("[    5.0] goes on\n")
        console.flush()
        agent.start(*state["run"])
    if request["execute"] == "query-migrate" and mode == "unsaved":
        return {"status": "failed", "error-desc": "no room"}
    return {"status": "completed"}


def in_force(asked: int) -> str:
    """What the kernel's file says; fake_force=NAME:VALUE,... is what it has instead."""
    words = " ".join(sys.argv).split()
    given = dict(word.removeprefix("pvsync.").split("=", 1) for word in words
                 if word.startswith("pvsync.") and "=" in word)
    told = {"lock": "qspinlock" if "nopvspin" in words else "pvqspinlock", "tau": "off",
            "impatience": "off", "halt_spins": "off", "help": "off", "tlb": "kvmtlb", "ecs": "off",
            "ecs_record": "none", "park": "stock", "host_features": "help,tlb,ecs",
            "host_found_by": "cpuid"} | given
    told["ecs_record"] = "none" if told["ecs"] == "off" else "taken"
    for name, usual in (("tau", "2000"), ("impatience", "16")):
        told[name] = given.get(name, usual if told["lock"].endswith("pmt") else "off")
    for pair in filter(None, option(r"fake_force=(\S+)").split(",")):
        name, _, value = pair.partition(":")
        told[name] = value
    looks, _, seen = option(r"fake_marks=(\S+)").partition(":")
    if looks:
        told |= {"mark_looks": str(asked * int(looks)), "mark_seen": str(asked * int(seen))}
    return "\n".join(f"{name} {value}" for name, value in told.items() if value)


class Agent:
    def __init__(self, stream: socket.socket, mode: str) -> None:
        self.lines = stream.makefile("rw")
        self.mode = mode
        self.command = ""
        self.halt = threading.Event()
        self.asked = 0
        """How often, what is in force."""
        self.current = ("", False)
        """Tag of the last round, and whether the command goes on in it."""

    def say(self, *words: object) -> None:
        self.lines.write(" ".join(map(str, words)) + "\n")
        self.lines.flush()

    def output(self, tag: str, text: bytes) -> None:
        for at in range(0, len(text), 30):
            self.say("out", tag, base64.b64encode(text[at:at + 30]).decode())
        self.say("end", tag)

    def shell(self) -> tuple[int, bytes, int]:
        began = time.monotonic()
        done = subprocess.run(["sh", "-c", self.command], capture_output=True, check=False)
        return done.returncode, done.stdout, int((time.monotonic() - began) * 1e6)

    def measured(self, tag: str, repeat: bool) -> None:
        status, self.out, micros = self.shell()
        if self.mode != "hang":
            self.say("ended", tag, status, micros)
        while repeat and not self.halt.wait(0.01):
            pass

    def serve(self) -> None:
        for line in self.lines:
            verb, tag, *rest = line.split()
            if verb in ("exec", "prepare"):
                self.command = base64.b64decode(rest[0]).decode()
            if verb == "exec" and tag == "in-force":
                self.asked += 1
                self.command = f"echo '{in_force(self.asked)}'"
            if verb == "exec" and (self.mode, tag) == ("mute", "after"):
                continue
            if verb == "exec":
                status, out, micros = self.shell()
                self.say("done", tag, status, micros)
                self.output(tag, out)
            elif verb == "prepare":
                self.say("ready", tag)
            elif verb == "go":
                self.go(tag, rest[0])
            elif verb == "stop":
                self.halt.set()
                self.thread.join()
                self.say("stopped", tag, 1, 0)
                self.output(tag, self.out)
            elif verb == "ping" and self.mode != "lost":
                self.say("pong", tag)
            elif verb == "look":
                told = subprocess.run(["bash", "-c", base64.b64decode(rest[0]).decode()],
                                      capture_output=True, check=False)
                self.output(tag, told.stdout)
            elif verb == "dmesg":
                self.output(tag, b"[    0.0] quiet\n")

    def go(self, tag: str, mode: str) -> None:
        kind, _, file = self.mode.partition(":")
        if kind == "die" or (kind == "once" and not Path(file).exists()):
            if file:
                Path(file).touch()
            sys.exit(0)
        if kind == "splat":
            console.write("[    9.1] BUG: scheduling while atomic: fake/1/0x2\n")
            console.flush()
        self.say("began", tag)
        self.start(tag, mode == "repeat")

    def start(self, tag: str, repeat: bool) -> None:
        self.current = (tag, repeat)
        self.halt.clear()
        self.thread = threading.Thread(target=self.measured, args=(tag, repeat))
        self.thread.daemon = True
        self.thread.start()


folder = Path(option(r"id=console,path=(\S+)/console"))
console = (folder / "console").open("a")
log = (folder / "qmp.log").open("a")
mode = option(r"fake=(\S+)")
agent_server = listen(option(r"id=agent,path=([^,]+)"))
qmp_server = listen(option(r"-qmp unix:([^,]+)"))
connection, _ = agent_server.accept()
agent = Agent(connection, mode)
threading.Thread(target=qmp, args=(qmp_server,), daemon=True).start()
if mode == "oops":
    console.write("[    0.1] BUG: kernel NULL pointer dereference, address: 0000000000000008\n")
    console.flush()
if mode in ("noboot", "oops"):
    time.sleep(600)
if not option(r"-(incoming)"):
    console.write("[    0.0] booting\n")
    console.flush()
    agent.say("hello", "fake")
agent.serve()
