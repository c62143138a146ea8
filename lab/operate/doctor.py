# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor`: figures and findings of a KVM host as text of 60 columns, JSON or CSV."""

import json
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields

from lab.core import csv_line
from lab.core.words import many
from lab.observe import vms
from lab.operate import agents, figures, findings, sample, sched_events
from lab.operate.agents import Answer
from lab.operate.costop import Costop
from lab.operate.figures import HostFigures, VmFigures
from lab.operate.findings import Finding
from lab.operate.sample import Facts, Sample
from lab.operate.settings import Host

WIDTH = 60
NAME = 13
"""Columns of a VM's name; longer ones have a line of their own."""
COLUMNS = ("held_up", "worst", "busy", "costop", "yields_per_s", "yields_taken", "polled",
           "exits_per_s", "unmarked", "lost_per_s", "throttled")
"""Of a VM's figures those that CSV has, shares 0 to 1."""
TRACED = ("ran_beside", "waited_beside", "unknown")
"""Of Costop those that JSON and CSV have, shares 0 to 1; in CSV with "traced_" before."""
ESTIMATED = ("Co-stop, estimated from tracepoints: time in which a vCPU ran while a sibling of its"
             " VM waited for a CPU, and in which it waited while a sibling ran")
STOLEN = ("Stolen, as each guest's agent says: steal of its own CPUs' time, `st` in its own top")
LEGEND = ("held up: of the vCPUs' time, waiting for a CPU, as esxtop's %RDY. co-stop: running"
          " while another vCPU of the VM waits for a CPU; an estimate, and at most so much."
          " yields: directed yields of vCPUs that spin; ok: those followed. poll: KVM polled in"
          " vain. exits: of one vCPU. -: this kernel does not tell.")
SLEEP = ("Linux 6.12 and later count some sleep of vCPUs as waiting, where they are not tied to"
         " CPUs: held up and co-stop may be less than they seem.")
LOCKED = ("This kernel is locked down (Secure Boot), which closes KVM's statistics in debugfs, also"
          " to root: yields, polls and exits are unknown here. `virsh domstats --vcpu` has them.")


@dataclass(frozen=True)
class Look:
    """All that one look gives."""

    facts: Facts
    host: HostFigures
    findings: list[Finding]
    traced: Mapping[int, Costop] | None = None
    """By the VM's process; None where it was not asked for."""
    steal: Mapping[int, float | str] | None = None
    """What its guest takes for stolen, 0 to 1, or why that is unknown; likewise."""


def looks(host: Host, interval: float, sleep: Callable[[float], None] = time.sleep,
          trace_s: float | None = None, steal: bool = False) -> Iterator[Look]:
    """A look after every interval, for ever; LabError when no VM runs.

    With `trace_s` the scheduler's events are traced so long, and a look takes as long at least.
    With `steal` the guests are asked, too.
    """
    before = sample.read(host)
    if not before.vms:
        raise vms.none_runs()
    told = _ask(before) if steal else {}
    while True:
        traced = None if trace_s is None else sched_events.collect(host, trace_s)
        sleep(max(0.0, interval - (trace_s or 0.0)))
        after = sample.read(host)
        facts = sample.facts(host)
        found = figures.of_host(facts, before, after)
        new = _ask(after) if steal else {}
        yield Look(facts, found, findings.of(facts, found), traced,
                   agents.shares(told, new) if steal else None)
        before, told = after, new


def _ask(seen: Sample) -> dict[int, Answer]:
    return agents.ask(one.vm for one in seen.vms.values())


def text(look: Look) -> str:
    """For a terminal or a mail, no line wider than WIDTH but for long names."""
    host = look.host
    ratio = "-" if host.overcommit is None else f"{host.overcommit:.1f}"
    title = (f"{many(len(host.vms), 'VM')}, {many(host.vcpus, 'vCPU')} on"
             f" {many(len(look.facts.cpus), 'CPU')}: {ratio} each; CPUs idle"
             f" {_percent(host.idle)} %")
    kind = "with" if look.facts.pvsync else "without"
    lines = [*textwrap.wrap(title, WIDTH),
             f"Linux {look.facts.release}, {kind} pvsync; {host.seconds:.1f} s", "",
             f"{'VM':{NAME}} vCPU  held   co- yields   ok poll  exits",
             f"{'':{NAME}}      up %  stop     /s    %    %     /s"]
    for vm in host.vms:
        if len(vm.name) > NAME:
            lines.append(vm.name)
        lines.append(
            f"{vm.name if len(vm.name) <= NAME else '':{NAME}} {vm.vcpus:4}"
            f" {_percent(vm.held_up):>5} {_percent(vm.costop):>5} {_number(vm.yields_per_s):>6}"
            f" {_percent(vm.yields_taken):>4} {_percent(vm.polled):>4}"
            f" {_number(vm.exits_per_s):>6}".rstrip())
    lines += ["", *_traced(look), *_stolen(look)]
    for number, one in enumerate(look.findings, 1):
        lines += [*_finding(number, one), ""]
    if not look.findings:
        lines += ["Nothing found: no VM is held up, nothing is set wrong.", ""]
    notes = [LEGEND, *([SLEEP] if findings.takes_sleep_for_waits(look.facts) else []),
             *([LOCKED] if look.facts.lockdown else [])]
    for note in notes:
        lines += textwrap.wrap(note, WIDTH)
    return "\n".join(lines) + "\n"


def _traced(look: Look) -> Iterator[str]:
    """A line for each VM."""
    if look.traced is None:
        return
    yield from textwrap.wrap(f"{ESTIMATED}.", WIDTH)
    for vm in look.host.vms:
        one = look.traced.get(vm.pid)
        yield from _named(vm, "one vCPU has no sibling" if one is None else (
            f"ran {_percent(one.ran_beside)} %, waited {_percent(one.waited_beside)} %"
            f"; {_percent(one.unknown)} % unknown"))
    lost = max((one.lost for one in look.traced.values()), default=0)
    if lost:
        yield from textwrap.wrap(
            f"{many(lost, 'event')} {'was' if lost == 1 else 'were'} lost: these figures are"
            " doubtful. Trace for a shorter time, or when less goes on.", WIDTH)
    yield ""


def _stolen(look: Look) -> Iterator[str]:
    """Likewise."""
    if look.steal is None:
        return
    yield from textwrap.wrap(f"{STOLEN}.", WIDTH)
    for vm in look.host.vms:
        said = look.steal.get(vm.pid, "it has just started")
        yield from _named(vm, f"unknown: {said}" if isinstance(said, str)
                          else f"{_percent(said)} %")
    yield ""


def _named(vm: VmFigures, said: str) -> Iterator[str]:
    """Something of a VM."""
    if len(vm.name) > NAME:
        yield vm.name
    first = f"{vm.name if len(vm.name) <= NAME else '':{NAME}} "
    yield from textwrap.wrap(first + said, WIDTH, subsequent_indent=" " * (NAME + 1),
                             drop_whitespace=True)


def _finding(number: int, one: Finding) -> Iterator[str]:
    costs = "unknown" if one.costs is None else (
        f"{_percent(one.costs)} % of {'its vCPUs' if one.vm else 'the CPUs'}' time")
    head = f"{number}. {one.vm or 'This host'}: {one.what}"
    yield from textwrap.wrap(head, WIDTH, subsequent_indent="   ")
    for name, said in (("why", one.why), ("costs", costs), ("today", one.today),
                       ("pvsync", one.pvsync), ("counts", one.threshold)):
        if said:
            yield from textwrap.wrap(f"   {name + ':':7} {said}", WIDTH,
                                     subsequent_indent=" " * 11, break_on_hyphens=False)


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.1f}" if share < 0.0995 else f"{100 * share:.0f}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.0f}k" if value >= 99_950 else f"{value:.0f}"


def as_json(look: Look) -> str:
    """One object in one line."""
    vms = [{name: value for name, value in asdict(vm).items()
            if name not in {"words", "allowed", "why"}} | _asked(look, vm)
           for vm in look.host.vms]
    host = {field.name: getattr(look.host, field.name) for field in fields(look.host)
            if field.name != "vms"}
    return json.dumps({"release": look.facts.release, "pvsync": bool(look.facts.pvsync),
                       "lockdown": look.facts.lockdown, "cpus": len(look.facts.cpus), **host,
                       "vms": vms, "findings": [asdict(one) for one in look.findings]})


def _asked(look: Look, vm: VmFigures) -> dict[str, object]:
    """What was asked for besides."""
    return _traced_json(look, vm) | ({} if look.steal is None else {"steal": _steal(look, vm)})


def _steal(look: Look, vm: VmFigures) -> float | None:
    said = (look.steal or {}).get(vm.pid)
    return said if isinstance(said, float) else None


def _traced_json(look: Look, vm: VmFigures) -> dict[str, object]:
    one = look.traced.get(vm.pid) if look.traced is not None else None
    if one is None:
        return {}
    return {"costop_traced": {"estimated_from": "tracepoints", "lost": one.lost,
                              **{name: getattr(one, name) for name in TRACED}}}


def head(traced: bool = False, steal: bool = False) -> str:
    """The first line of CSV."""
    more = (*(f"traced_{name}" for name in TRACED), "traced_lost") if traced else ()
    return csv_line.line(["time", "vm", "number", "pid", "vcpus", *COLUMNS, "findings", *more,
                          *(["steal"] if steal else [])])


def rows(look: Look, now: float) -> str:
    """A line for each VM; `now` is seconds since 1970."""
    stamp = csv_line.stamp(now)
    return "".join(_csv(look, vm, stamp) for vm in look.host.vms)


def _csv(look: Look, vm: VmFigures, stamp: str) -> str:
    values = (getattr(vm, name) for name in COLUMNS)
    found = " ".join(one.key for one in look.findings if one.vm == vm.name)
    more = [] if look.traced is None else [""] * (len(TRACED) + 1)
    one = look.traced.get(vm.pid) if look.traced is not None else None
    if one is not None:
        more = [*(csv_line.cell(getattr(one, name)) for name in TRACED), str(one.lost)]
    stolen = [] if look.steal is None else [csv_line.cell(_steal(look, vm))]
    return csv_line.line([stamp, vm.name, vm.number, str(vm.pid), str(vm.vcpus),
                          *map(csv_line.cell, values), found, *more, *stolen])
