# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor --steal`: the time that guests take for stolen, asked of the agents in them.

    virsh qemu-agent-command UUID {"execute": "guest-get-cpustats"}  libvirt; QEMU's agent 7.1
    qm guest exec NUMBER -- head -n 1 /proc/stat                     Proxmox VE

An answer is a guest's: it may be anything, come late, or have no end.
"""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from lab.observe import vms
from lab.observe.vms import Vm
from lab.operate import figures

TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""As /proc/stat has them."""
LINE = re.compile(r"cpu +((?:\d{1,20} ){7}\d{1,20})\b", re.ASCII)
LIMIT_S = 5.0
"""For an answer; the agent has a second less."""
MOST = 1 << 20
"""Bytes of an answer: a thousand CPUs take 200 kB."""
LONGEST = 160
"""Characters of a reason."""
AT_ONCE = 16


@dataclass(frozen=True)
class Answer:
    """What a guest says."""

    ticks: tuple[int, ...] = ()
    """Of all its CPUs together, as TICKS, of a unit of its own; none without an answer."""
    wrong: str = ""
    """Why there is none."""


def ask(running: Iterable[Vm]) -> dict[int, Answer]:
    """All of these guests, by their processes."""
    machines = list(running)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([vm.pid for vm in machines], pool.map(_one, machines), strict=True))


def shares(before: Mapping[int, Answer], after: Mapping[int, Answer]) -> dict[int, float | str]:
    """Of each guest's own time the share that was stolen between two answers, 0 to 1; or why it is
    unknown."""
    found: dict[int, float | str] = {}
    for pid, new in after.items():
        old = before.get(pid, Answer(wrong="it has just started"))
        share = figures.stolen(old.ticks, new.ticks)
        found[pid] = share if share is not None else (
            new.wrong or old.wrong or "its clock stood still or went back")
    return found


def _one(vm: Vm) -> Answer:
    seconds = round(LIMIT_S) - 1
    if vm.number:
        words = ["qm", "guest", "exec", vm.number, "--timeout", str(seconds), "--", "head", "-n",
                 "1", "/proc/stat"]
    else:
        uuid = next(iter(vms.options(vm.words, "uuid")), vm.name)
        words = ["virsh", "-c", "qemu:///system", "qemu-agent-command", f"--domain={uuid}",
                 f"--timeout={seconds}", '{"execute": "guest-get-cpustats"}']
    try:
        status, said = _said(words)
    except OSError:
        return Answer(wrong=f"{words[0]} is not installed here, or cannot be called")
    if status:
        last = said.strip().rpartition("\n")[2].removeprefix("error: ")
        return Answer(wrong=vms.printable(last)[:LONGEST] or "no answer came in time")
    ticks = _of_proxmox(said) if vm.number else _of_libvirt(said)
    return Answer(ticks) if ticks else Answer(wrong="its agent does not tell")


def _said(words: list[str]) -> tuple[int, str]:
    """A command's status, and the first MOST bytes of what it says.

    It and what it has started is ended in time.
    """
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, process_group=0) as child:
        def kill() -> None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        end = threading.Timer(LIMIT_S, kill)
        end.start()
        assert child.stdout is not None
        try:
            text = child.stdout.read(MOST)
            if len(text) == MOST:
                kill()
            status = child.wait()
        finally:
            end.cancel()
    return status, text.decode(errors="replace")


def _object(said: str) -> dict[str, object]:
    """The JSON in it, also after a warning; none for what is none."""
    try:
        found = json.loads(said[said.index("{"):])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _of_libvirt(said: str) -> tuple[int, ...]:
    cpus = _object(said).get("return")
    if not isinstance(cpus, list) or not cpus:
        return ()
    rows = [[cpu.get(name) for name in TICKS] for cpu in cpus if isinstance(cpu, dict)]
    if any(type(value) is not int or value < 0 for row in rows for value in row):
        return ()
    return tuple(sum(column) for column in zip(*rows, strict=True))


def _of_proxmox(said: str) -> tuple[int, ...]:
    line = LINE.match(str(_object(said).get("out-data", "")))
    return tuple(map(int, line[1].split())) if line else ()
