# SPDX-License-Identifier: GPL-2.0-only
"""What the emulator itself sees of a run: its trace events, at no cost in virtual time.

The events are switched on and off while the host stands still. What they note is written
by the emulator to a file of this machine, so the guest can see nothing of it.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lab.core.errors import LabError, UsageError
from lab.core.words import many
from lab.machine.machine import Machine

if TYPE_CHECKING:
    from qemu.qmp.legacy import QEMUMonitorProtocol

FILE = "trace.log"
"""In the folder of a replay."""
EVENTS = "svm_*"
"""Each VMRUN and #VMEXIT, with the CPU's own virtual time."""
COMMON = r"cpu (?P<cpu>\d{1,5}) ns (?P<ns>\d{1,18}) vmcb (?P<vmcb>0x[0-9a-f]{1,16})"
WORD = r"0x[0-9a-f]{1,16}"
ENTRY = re.compile(rf"svm_vmrun {COMMON} asid \d{{1,10}} rip (?P<rip>{WORD})$", re.ASCII)
EXIT = re.compile(rf"svm_vmexit {COMMON} code (?P<code>{WORD}) info {WORD} rip (?P<rip>{WORD})$",
                  re.ASCII)
NAMES = {0x60: "interrupt", 0x61: "NMI", 0x64: "interrupt window", 0x72: "CPUID", 0x75: "IRET",
         0x77: "PAUSE", 0x78: "HLT", 0x79: "INVLPG", 0x7b: "port", 0x7c: "MSR", 0x7f: "shutdown",
         0x81: "hypercall", 0x8d: "XSETBV", 0x400: "page"}
"""SVM's exit codes that guests of the lab have, in AMD's manual's appendix C."""
REGISTERS = 0x20
"""Codes below are of control registers."""
FAULTS = range(0x40, 0x60)


@dataclass
class Vcpu:
    """What a virtual CPU has done in a trace; its VMCB's address is its name there."""

    inside_ns: int = 0
    """Between VMRUN and #VMEXIT."""
    cpus: Counter[int] = field(default_factory=Counter)
    """How often it was entered, by CPU of the host."""
    exits: Counter[str] = field(default_factory=Counter)


@contextlib.contextmanager
def monitor(machine: Machine) -> "Iterator[QEMUMonitorProtocol]":
    """QEMU's monitor of a host that stands still; its errors leave as LabError."""
    from qemu.qmp.legacy import QEMUMonitorProtocol  # slow to load: only when needed
    one = QEMUMonitorProtocol(str(machine.run / "qmp"))
    try:
        one.connect()
        yield one
    except (LabError, UsageError):
        raise
    except Exception as error:
        raise LabError(f"QEMU's monitor failed: {error}") from error
    finally:
        with contextlib.suppress(Exception):
            one.close()


def human(one: "QEMUMonitorProtocol", line: str) -> str:
    """What the monitor for humans says to a line."""
    return str(one.cmd("human-monitor-command", **{"command-line": line}))


def begin(machine: Machine, out: Path, events: str) -> None:
    """Have the host's QEMU write these events to a file from now on; the host stands still.

    UsageError when QEMU has none that is called so.
    """
    with monitor(machine) as one:
        if not one.cmd("trace-event-get-state", name=events):
            raise UsageError(f"the emulator has no trace event that is called {events}")
        human(one, f"logfile {(out / FILE).absolute()}")
        one.cmd("trace-event-set-state", name=events, enable=True)


def end(machine: Machine, events: str) -> None:
    """Have it write no more of them."""
    with monitor(machine) as one:
        one.cmd("trace-event-set-state", name=events, enable=False)


def name(code: int) -> str:
    """What an exit is called here."""
    if code < REGISTERS:
        return "control register"
    if code in FAULTS:
        return f"exception {code - FAULTS.start}"
    return NAMES.get(code, f"{code:#x}")


def vcpus(lines: Iterable[str]) -> dict[str, Vcpu]:
    """What each did, in the order in which they came; time before its first entry is not known."""
    found, entered = dict[str, Vcpu](), dict[str, int]()
    for line in lines:
        if match := ENTRY.search(line):
            vcpu = found.setdefault(match["vmcb"], Vcpu())
            vcpu.cpus[int(match["cpu"])] += 1
            entered[match["vmcb"]] = int(match["ns"])
        elif match := EXIT.search(line):
            vcpu = found.setdefault(match["vmcb"], Vcpu())
            vcpu.exits[name(int(match["code"], 16))] += 1
            if (began := entered.pop(match["vmcb"], None)) is not None:
                vcpu.inside_ns += int(match["ns"]) - began
    return found


def lines(out: Path) -> Iterator[str]:
    """Those of the trace of a replay; none where there is no trace."""
    file = out / FILE
    if file.exists():
        with file.open(errors="replace") as found:
            yield from found


def table(out: Path) -> list[str]:
    """A line for each virtual CPU in the trace of a replay; nothing without such events."""
    return [f"vmcb {vmcb}: {vcpu.inside_ns / 1e6:.3f} ms inside, on"
            f" {many(len(vcpu.cpus), 'CPU')}; exits: "
            + (", ".join(f"{what} {count}" for what, count in vcpu.exits.most_common()) or "none")
            for vmcb, vcpu in vcpus(lines(out)).items()]
