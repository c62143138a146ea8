# SPDX-License-Identifier: GPL-2.0-only
"""Stands for a guest's QEMU: its QMP and agent sockets and its console, no machine.

The kernel's command line says how it behaves: fake=noboot never answers,
fake=die ends when a round starts, fake=splat writes one to the console,
fake=hang never ends a run, fake=once:FILE fails until FILE exists, fake=mute
does not answer when its counters are asked for.
"""

import base64
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


def option(pattern: str) -> str:
    found = re.search(pattern, " ".join(sys.argv))
    return found.group(1) if found else ""


def listen(path: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    return server


def qmp(server: socket.socket) -> None:
    stream, _ = server.accept()
    with stream, stream.makefile("rw") as lines:
        lines.write(json.dumps({"QMP": {}}) + "\n")
        lines.flush()
        for line in lines:
            log.write(json.loads(line)["execute"] + "\n")
            log.flush()
            lines.write(json.dumps({"return": {}}) + "\n")
            lines.flush()


class Agent:
    def __init__(self, stream: socket.socket, mode: str) -> None:
        self.lines = stream.makefile("rw")
        self.mode = mode
        self.command = ""
        self.halt = threading.Event()

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
        self.say("began", tag)
        status, self.out, micros = self.shell()
        if self.mode != "hang":
            self.say("ended", tag, status, micros)
        while repeat and not self.halt.wait(0.01):
            pass

    def serve(self) -> None:
        self.say("hello", "fake")
        for line in self.lines:
            verb, tag, *rest = line.split()
            if verb in ("exec", "prepare"):
                self.command = base64.b64decode(rest[0]).decode()
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
        self.halt.clear()
        self.thread = threading.Thread(target=self.measured, args=(tag, mode == "repeat"))
        self.thread.daemon = True
        self.thread.start()


console = Path(option(r"file:(\S+)/console") + "/console").open("w")  # noqa: SIM115
log = Path(option(r"file:(\S+)/console") + "/qmp.log").open("a")  # noqa: SIM115
mode = option(r"fake=(\S+)")
agent_server = listen(option(r"id=agent,path=([^,]+)"))
threading.Thread(target=qmp, args=(listen(option(r"-qmp unix:([^,]+)")),), daemon=True).start()
connection, _ = agent_server.accept()
if mode == "noboot":
    time.sleep(600)
console.write("[    0.0] booting\n")
console.flush()
Agent(connection, mode).serve()
