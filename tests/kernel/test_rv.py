# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own monitors of the scheduler (kernel/trace/rv) while a host lends time to guests.

A loan is to show to none of them, in the host that makes it and in the guest that gives it back.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.build import base, images
from lab.core.model import Scheme
from lab.core.progress import Silent
from lab.observe.counters import pairs
from lab.plan import config
from lab.plan.schedule import PlannedRun
from lab.run import host, runner
from lab.run.fleet import guest_name
from lab.run.session import Session
from tests.kernel.conftest import HERE, opened

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

RELEASE = "7.3"
"""The base whose kernel has the monitors."""
MONITORS = "sco", "snroc", "scpd", "snep", "sts", "nrp", "sssw", "opid"
WRONG = "wwnr"
"""Whose model is wrong on purpose."""
TRACING = """
tracing=/sys/kernel/tracing; [ -e $tracing/rv ] || mount -t tracefs tracefs $tracing; cd $tracing
"""
"""Linux 7.3 has no tracing in debugfs, unless Kconfig says so."""
WATCH = f"""{TRACING}
cd rv && echo 1 >monitoring_on && echo 1 >reacting_on &&
echo printk >monitors/sched/reactors && echo 1 >monitors/sched/enable
"""
TOLD = f"""{TRACING}
sed 's/^/enabled /' rv/enabled_monitors
echo 4096 >buffer_size_kb; echo >trace
echo 1 >events/rv/enable; sleep 0.05; echo 0 >events/rv/enable
sed -n 's/.*: event_\\([a-z]*\\):.*/\\1/p' trace | sort | uniq -c
dmesg | grep -o 'rv: monitor .*'
"""
"""The monitors that are on, how many events each follows meanwhile, and all errors so far."""
BREAK = f"""{TRACING}
cd rv && echo printk >monitors/{WRONG}/reactors && echo 1 >monitors/{WRONG}/enable
timeout 1 sh -c 'yes | cat >/dev/null'
"""
SEEN = re.compile(r"^ *(\d+) (\w+)\r?$", re.MULTILINE)
ERROR = re.compile(r"^rv: monitor (\w+) .*$", re.MULTILINE)
OFF = "not-lent"
"""What the guests of the first scheme run first, with a host that lends nothing."""
STOCK = "rv: monitor sts does not allow event sched_switch on state enable_to_exit"
"""Reported where nothing is lent, too. An interrupt without a tracepoint, or a breakpoint of code
that is patched, would do that if it came just before a switch; nobody has looked which it is."""
FEW = 5
"""Times that it was, in a kernel; with a fault each loan is an error."""
SEVERAL = 20
"""Loans of a run; hundreds are usual."""


@dataclass(frozen=True)
class Told:
    """What the monitors of one kernel say."""

    enabled: set[str]
    seen: dict[str, int]
    """Events that each of them has followed in a moment."""
    errors: list[str]


def told(text: str) -> Told:
    """Of what TOLD prints."""
    return Told({one.rpartition(":")[2] for one in re.findall(r"^enabled (\S+)", text, re.M)},
                {name: int(times) for times, name in SEEN.findall(text)},
                [match[0] for match in ERROR.finditer(text)])


def in_guests(session: Session, label: str, script: str) -> list[str]:
    """What a script prints in the guests of a scheme, all of which run meanwhile."""
    control = session.machine.control
    names = [guest_name(label, index) for index in range(max(session.experiment.vms))]
    control.call("switch", run=names)
    answers = [control.call("guest_exec", name=name, tag="rv", command=script, timeout=300)
               for name in names]
    control.call("switch", run=[])
    return [base64.b64decode(answer["out"]).decode(errors="replace") for answer in answers]


def in_host(session: Session, script: str) -> str:
    """The same in the host."""
    return session.machine.control.run("sh", "-c", script, timeout=300)[1]


@contextmanager
def watched(out: Path) -> Iterator[Session]:
    """A host and its guests, with all monitors of the scheduler on."""
    plan = config.experiment(str(HERE / "rv.toml"))
    lending = plan.schemes[0]
    off = replace(lending, name=OFF, label=OFF, host=lending.host | {"extend": "off"})
    plan = replace(plan, schemes=(off, *plan.schemes), share=(OFF, lending.name))
    files = images.of_experiment(plan, base.folder(RELEASE), (), Silent())
    with opened(plan, runner.host_spec(plan, "vt", files), out) as session:
        in_host(session, WATCH)
        for label in dict.fromkeys(plan.owner(scheme.label) for scheme in plan.schemes):
            in_guests(session, label, WATCH)
        yield session
        assert session.machine.trouble() == ""


def host_counters(session: Session) -> dict[str, int]:
    """What pvsync has counted in the host."""
    text = session.machine.control.read_file("/sys/kernel/debug/pvsync/counters").decode()
    return pairs(text.splitlines())


def counted(session: Session, scheme: Scheme) -> dict[str, int]:
    """What the host has counted in a run of this scheme's guests."""
    (workload,) = session.experiment.workloads
    before = host_counters(session)
    run = session.run(PlannedRun(0, 0, scheme.label, workload.name, 2), 0)
    assert run.valid, run.reason
    after = host_counters(session)
    return {name: after[name] - before[name] for name in after}


def test_no_monitor_sees_a_loan(tmp_path: Path) -> None:
    """In hosts and guests alike; all of the monitors are on."""
    with watched(tmp_path) as session:
        for scheme in session.experiment.schemes:
            loans = counted(session, scheme)
            mine = told(in_host(session, TOLD))
            owner = session.experiment.owner(scheme.label)
            guests = [told(text) for text in in_guests(session, owner, TOLD)]
            shown = {name: value for name, value in loans.items() if name.startswith("extend_")}
            print(scheme.label, shown, mine, *guests, sep="\n  ", flush=True)
            if scheme.label == OFF:
                assert loans["extend_granted"] == 0, loans
            else:
                assert loans["extend_granted"] > SEVERAL, loans
                assert loans["extend_returned"] > 0, loans
            for one in (mine, *guests):
                assert set(MONITORS) <= one.enabled, one
                assert set(MONITORS) <= set(one.seen), one
                assert set(one.errors) <= {STOCK} and len(one.errors) <= FEW, one


def test_an_error_is_told() -> None:
    """By a monitor that is wrong, as soon as a task is woken that runs."""
    job = host.Job(("sh", "-c", WATCH + BREAK + TOLD), variant="rv", backend="vt")
    pieces: list[bytes] = []
    host.run(job, host.ready(job, base.folder(RELEASE), Silent()), pieces.append)
    found = told(b"".join(pieces).decode(errors="replace"))
    print(found)
    assert set(MONITORS) <= found.enabled, found
    assert any(f"monitor {WRONG} " in error for error in found.errors), found
    assert all(f"monitor {WRONG} " in error or error == STOCK for error in found.errors), found
