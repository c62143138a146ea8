# SPDX-License-Identifier: GPL-2.0-only
"""The host's tracepoints: each event comes as often as its counters grow, and says the same.

The host's guests are programs that are monitors of small machines: they are over when the events
are read, so that nothing is counted without its event.
"""

import re
from collections import Counter
from dataclasses import dataclass

import pytest

from lab.observe.counters import pairs
from lab.observe.preemptions import KINDS
from tests.kernel import alone

SCRIPT = """
trace=/sys/kernel/debug/tracing; own=/sys/module/pvsync/parameters; bin=/usr/lib/pvsync/bin
echo ecs >$own/extend; echo exit >$own/mark; echo strong >$own/yield; echo hvs >$own/candidate
echo 8192 >$trace/buffer_size_kb; echo 1 >$trace/events/pvsync/enable
$bin/vm-shootdown-check >/dev/null; timeout 30 $bin/vm-memory-storm -S 4 -s 1 >/dev/null
echo 0 >$trace/events/pvsync/enable
sed 's/^/counted /' /sys/kernel/debug/pvsync/counters
cat $trace/per_cpu/*/stats | grep '^overrun'
echo named $(grep -c ': pvsync_[a-z_]*: vm=[1-9][0-9]* vcpu=[0-9]* ' $trace/trace)
sed -n 's/ vm=[0-9]*//; s/ \\(vcpu\\|target\\|by\\)=[0-9]*//g; s/.*: pvsync_/traced /p' \\
    $trace/trace | sort | uniq -c
"""
TRACED = re.compile(r"^ *(\d+) traced (\w+):(.*?)\r?$", re.MULTILINE)
COUNTED = re.compile(r"^counted (\w+ \d+)\r?$", re.MULTILINE)
FIELD = re.compile(r"(\w+)=(\S+)")
STATES = "running", "preempted", "halted", "in_host"
"""Of targets of a flush, each a counter."""
LONGEST_NS = 1_000_000
"""Of a loan, unless its timer is late."""


@dataclass(frozen=True)
class Event:
    """So many events that say the same, but for the vCPUs."""

    times: int
    name: str
    text: str

    def __getitem__(self, field: str) -> int:
        return int(dict(FIELD.findall(self.text))[field])


@dataclass(frozen=True)
class Traced:
    """All that was traced and counted."""

    events: list[Event]
    counters: dict[str, int]
    output: str

    def of(self, name: str) -> list[Event]:
        """The events of a name; there are some."""
        found = [event for event in self.events if event.name == name]
        assert found, f"no {name}: {self.output}"
        return found

    def total(self, name: str) -> int:
        """How many."""
        return sum(event.times for event in self.of(name))

    def sum(self, name: str, field: str) -> int:
        """The sum of a field over all of a name."""
        return sum(event.times * event[field] for event in self.of(name))


@pytest.fixture(scope="module")
def traced() -> Traced:
    output = alone.run(SCRIPT, cpus=2, limit_s=600, host=True)
    assert {"0"} == set(re.findall(r"^overrun: (\d+)", output, re.MULTILINE)), output
    events = [Event(int(times), name, text) for times, name, text in TRACED.findall(output)]
    (named,) = re.findall(r"^named (\d+)", output, re.MULTILINE)
    assert sum(event.times for event in events) == int(named), output
    return Traced(events, pairs(COUNTED.findall(output)), output)


def test_preemptions(traced: Traced) -> None:
    places: Counter[str] = Counter()
    for event in traced.of("preempted"):
        places[dict(FIELD.findall(event.text))["where"]] += event.times
    assert places == Counter({place: traced.counters[f"preempt_{place}"]
                              for place in (*KINDS, "yielded")})
    unmarked = traced.total("preempted") - traced.sum("preempted", "marked")
    assert 0 < unmarked < traced.total("preempted")
    assert unmarked == traced.counters["preempt_unmarked"] + traced.counters["yield_unmarked"]


def test_loans(traced: Traced) -> None:
    assert traced.total("lent") == traced.counters["extend_granted"]
    assert all(0 < event["most_ns"] <= LONGEST_NS for event in traced.of("lent"))
    for kind in ("avoided", "expired"):
        ended = sum(event.times for event in traced.of("loan_ended") if f" {kind} " in event.text)
        assert ended == traced.counters[f"extend_{kind}"], kind
    assert traced.sum("loan_ended", "ns") == traced.counters["extend_ns"]
    assert traced.sum("loan_ended", "returned") == traced.counters["extend_returned"]


def test_yields(traced: Traced) -> None:
    """One whose target has run meanwhile has an outcome, and is refused only as it runs."""
    assert traced.sum("yield", "chosen") == traced.counters["yield_attempted"]
    asked = traced.total("yield") - traced.sum("yield", "chosen")
    assert asked == traced.counters["yield_asked"]
    refused = sum(event.times for event in traced.of("yield") if event["result"] <= 0)
    assert refused >= traced.counters["yield_refused"]
    for outcome in ("moved", "picked", "ran"):
        assert traced.sum("yield_outcome", outcome) == traced.counters[f"yield_{outcome}"], outcome


def test_shootdowns(traced: Traced) -> None:
    refused = traced.counters["tlb_refused"]
    assert traced.total("shootdown") == traced.counters["tlb_calls"] - refused
    seen = sum(traced.counters[f"tlb_{state}"] for state in STATES)
    assert traced.sum("shootdown", "targets") == seen
    assert traced.sum("shootdown", "awaited") == traced.counters["tlb_awaited"]
