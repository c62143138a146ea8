# SPDX-License-Identifier: GPL-2.0-only
"""A timeline in Chrome's trace event format, which ui.perfetto.dev and about:tracing open.

A process is a VM and its threads are vCPUs; one more is the host, with a thread for each CPU.
Times are microseconds from the beginning of the window. With them are notes: time by cause, what
the kinds mean, and how it was made.
"""

import json
from collections.abc import Iterator
from typing import Any

from lab.observe.vcpu_trace import ABOUT, ON_CPU, Interval, Kind
from lab.report.timeline import Timeline, label, left, shares

FILE = "timeline.perfetto.json"
COLOURS = {Kind.RUNS: "good", Kind.SPINS: "heap_dump_stack_frame", Kind.KVM: "black",
           Kind.WAITS: "terrible", Kind.YIELDED: "bad", Kind.CALLED: "yellow",
           Kind.HOST: "vsync_highlight_color", Kind.SLEEPS: "grey"}
"""Names that about:tracing has for colours; Perfetto chooses its own by a slice's name."""
HOST = 1
"""The host's number as a process; VMs follow."""


def as_json(line: Timeline) -> str:
    """The file."""
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": list(_events(line)),
                       "otherData": _notes(line)}) + "\n"


def _notes(line: Timeline) -> dict[str, str]:
    """What is with the trace: how it was made, per cent of time by cause, what kinds mean."""
    spent = shares(line, line.shown, line.window)
    return {**dict(line.facts), "names": line.names.how,
            **{f"{vm}, per cent of its vCPUs' time": ", ".join(
                f"{kind} {part:.1f}" for kind, part in parts.items())
               for vm, parts in spent.items()},
            **{str(kind): ABOUT[kind] for kind in Kind}}


def _events(line: Timeline) -> Iterator[dict[str, Any]]:
    numbers = {vm: HOST + 1 + place for place, vm in enumerate(line.vms)}
    yield from _named("process_name", HOST, 0, "CPUs of the host")
    for cpu in sorted({one.cpu for one in line.shown}):
        yield from _named("thread_name", HOST, cpu, f"CPU {cpu}")
    for vm, number in numbers.items():
        yield from _named("process_name", number, 0, vm)
    for vcpu in line.names.vcpus:
        yield from _named("thread_name", numbers[vcpu.vm], vcpu.number, f"vCPU {vcpu.number}")
    for one in line.shown:
        vcpu = line.vcpus[one.vmcb]
        yield _slice(line, one, str(one.kind), numbers[vcpu.vm], vcpu.number)
        if one.kind in ON_CPU:
            yield _slice(line, one, label(vcpu), HOST, one.cpu)


def _named(what: str, process: int, thread: int, name: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(line: Timeline, one: Interval, name: str, process: int, thread: int) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": "vcpu", "pid": process, "tid": thread,
            "ts": (one.begin - line.window.begin) / 1e3, "dur": one.ns / 1e3,
            "cname": COLOURS[one.kind],
            "args": {"CPU of the host": one.cpu, "left by": left(one),
                     "there": line.where(one.rip), "does": str(one.kind)}}
