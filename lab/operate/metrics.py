# SPDX-License-Identifier: GPL-2.0-only
"""The metrics of `pvsync export`: one list, of which the text, the alerts and the dashboard come.

Names as Prometheus has them: base units, `_total` for what only grows, shares 0 to 1; `domain` and
`vcpu` as libvirt's exporters. A counter that a kernel does not have is left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from lab.observe.counters import add, grown
from lab.observe.preemptions import KINDS
from lab.operate import figures
from lab.operate.sample import Facts, Sample, VmSample

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SERIES = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LONGEST_S = 3600.0
"""Two texts further apart say nothing of co-stop between them."""
Labels = tuple[tuple[str, str], ...]
Series = dict[tuple[str, Labels], float]
"""Name and labels to the value."""


@dataclass(frozen=True)
class Metric:
    """One of them, and how a dashboard shows it."""

    name: str
    kind: Literal["counter", "gauge"]
    about: str
    title: str = ""
    """Of its panel; without one it has none."""
    query: str = ""
    unit: str = "percentunit"
    """As Grafana calls it."""


def _rate(name: str, by: str = "domain") -> str:
    return f"sum by (instance, {by}) (rate({name}[$__rate_interval]))"


OF_VCPUS = "/ on (instance, domain) pvsync_domain_vcpus"
METRICS = (
    Metric("pvsync_info", "gauge", "Kernel and settings of this host; always 1."),
    Metric("pvsync_host_cpus", "gauge", "CPUs that are online.", "vCPUs for each CPU",
           "sum by (instance) (pvsync_domain_vcpus) / on (instance) pvsync_host_cpus", "none"),
    Metric("pvsync_domain_vcpus", "gauge", "vCPUs of a virtual machine."),
    Metric("pvsync_export_timestamp_seconds", "gauge", "When this was read."),
    Metric("pvsync_vcpu_wait_seconds_total", "counter",
           "Time in which a vCPU waited for a CPU; Linux 6.12 and later count some sleep.",
           "Held up: waiting for a CPU (as %RDY)",
           f"{_rate('pvsync_vcpu_wait_seconds_total')} {OF_VCPUS}"),
    Metric("pvsync_vcpu_run_seconds_total", "counter", "Time in which a vCPU had a CPU.",
           "Running", f"{_rate('pvsync_vcpu_run_seconds_total')} {OF_VCPUS}"),
    Metric("pvsync_costop_seconds_total", "counter",
           "Time in which vCPUs ran while others of the VM waited for a CPU; an estimate, at most"
           " so much.", "Co-stop, an estimate: at most (as %CSTP)",
           f"{_rate('pvsync_costop_seconds_total')} {OF_VCPUS}"),
    Metric("pvsync_preemptions_total", "counter",
           "vCPUs that lost their CPU, by what they were doing; unknown on a stock kernel.",
           "Preemptions", _rate("pvsync_preemptions_total", "domain, reason"), "ops"),
    Metric("pvsync_unmarked_total", "counter", "Of these, those of which the guest is not told.",
           "Unmarked, of the preemptions",
           f"{_rate('pvsync_unmarked_total')} / {_rate('pvsync_preemptions_total')}"),
    Metric("pvsync_yields_total", "counter", "Directed yields, by what the scheduler made of them.",
           "Directed yields", _rate("pvsync_yields_total", "domain, outcome"), "ops"),
    Metric("pvsync_grants_total", "counter",
           "Loans of time that are over: the section was left in time, or not.", "Loans",
           _rate("pvsync_grants_total", "domain, outcome"), "ops"),
    Metric("pvsync_borrowed_seconds_total", "counter", "Time that vCPUs ran on borrowed.",
           "Borrowed", f"{_rate('pvsync_borrowed_seconds_total')} {OF_VCPUS}"),
    Metric("pvsync_tlb_calls_total", "counter", "Requests to flush TLBs of other vCPUs.",
           "TLB requests", _rate("pvsync_tlb_calls_total"), "ops"),
    Metric("pvsync_exits_total", "counter", "Exits of vCPUs.", "Exits",
           _rate("pvsync_exits_total"), "ops"),
    Metric("pvsync_halt_poll_seconds_total", "counter",
           "Time in which KVM polled before a halt: whether it was good for something.",
           "Halt polling", _rate("pvsync_halt_poll_seconds_total", "domain, outcome"), "s"),
    Metric("pvsync_throttled_seconds_total", "counter",
           "Time in which a limit of CPU time held the VM back.", "Held back by a limit",
           f"{_rate('pvsync_throttled_seconds_total')} {OF_VCPUS}"),
)


def names(vms: Iterable[VmSample]) -> dict[str, str]:
    """VM's folder to what it is called; two of one name differ by Proxmox's number or the
    process's."""
    found = list(vms)
    many = Counter(one.vm.name for one in found)
    return {one.vm.folder.name: one.vm.name if many[one.vm.name] == 1
            else f"{one.vm.name} ({one.vm.number or one.vm.pid})" for one in found}


def series(facts: Facts, sample: Sample, now: float, before: Series) -> Series:
    """All of them; `before` is what was told the last time, of which co-stop goes on."""
    found: Series = {}

    def put(name: str, value: float | None, **labels: str) -> None:
        if value is not None:
            found[name, tuple(labels.items())] = value

    put("pvsync_info", 1, version=facts.release, **{
        name: facts.pvsync.get(name, "none") for name in ("mark", "extend", "yield")})
    put("pvsync_host_cpus", len(facts.cpus))
    put("pvsync_export_timestamp_seconds", now)
    domains = names(sample.vms.values())
    for folder, vm in sample.vms.items():
        domain = domains[folder]
        put("pvsync_domain_vcpus", len(vm.threads), domain=domain)
        for thread in vm.threads:
            for name, ns in (("wait", thread.waited_ns), ("run", thread.ran_ns)):
                put(f"pvsync_vcpu_{name}_seconds_total", _seconds(ns), domain=domain,
                    vcpu=str(thread.number))
        for name, value, labels in _of_vm(vm):
            put(name, value, domain=domain, **labels)
    for domain in domains.values():
        put("pvsync_costop_seconds_total", _costop(domain, before, found, now), domain=domain)
    return found


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _of_vm(vm: VmSample) -> Iterator[tuple[str, float | None, dict[str, str]]]:
    stats, count = vm.stats.get, vm.counters.get
    if vm.counters:
        for kind in KINDS:
            yield "pvsync_preemptions_total", count(f"preempt_{kind}"), {"reason": kind}
        yield ("pvsync_unmarked_total", count("preempt_unmarked"), {})
    else:
        lost = add((stats("preemption_reported"), stats("preemption_other")))
        yield "pvsync_preemptions_total", lost, {"reason": "unknown"}
        yield "pvsync_unmarked_total", stats("preemption_other"), {}
    tried, taken = stats("directed_yield_attempted"), stats("directed_yield_successful")
    yield "pvsync_yields_total", taken, {"outcome": "taken"}
    yield "pvsync_yields_total", grown(taken, tried), {"outcome": "refused"}
    for outcome in ("avoided", "expired"):
        yield "pvsync_grants_total", count(f"extend_{outcome}"), {"outcome": outcome}
    yield "pvsync_borrowed_seconds_total", _seconds(count("extend_ns")), {}
    yield "pvsync_tlb_calls_total", count("tlb_calls"), {}
    yield "pvsync_exits_total", stats("exits"), {}
    for outcome, name in (("success", "halt_poll_success_ns"), ("fail", "halt_poll_fail_ns")):
        yield "pvsync_halt_poll_seconds_total", _seconds(stats(name)), {"outcome": outcome}
    throttled = vm.throttled_us
    yield "pvsync_throttled_seconds_total", None if throttled is None else throttled / 1e6, {}


def _costop(domain: str, before: Series, after: Series, now: float) -> float | None:
    """What it was, and what was added since; it stays where that cannot be told."""
    total = before.get(("pvsync_costop_seconds_total", (("domain", domain),)), 0.0)
    passed = now - before.get(("pvsync_export_timestamp_seconds", ()), now)
    waits, runs = (_added(domain, name, before, after) for name in ("wait", "run"))
    if not 0 < passed <= LONGEST_S or not waits or len(waits) != len(runs):
        return total
    share = figures.costop([min(1.0, one / passed) for one in waits],
                           [min(1.0, one / passed) for one in runs])
    return total + (share or 0.0) * passed * len(waits)


def _added(domain: str, name: str, before: Series, after: Series) -> list[float]:
    """Seconds of each vCPU; none of a VM that has started again."""
    found = []
    for (metric, labels), value in after.items():
        if metric == f"pvsync_vcpu_{name}_seconds_total" and ("domain", domain) in labels:
            old = before.get((metric, labels))
            if old is None or value < old:
                return []
            found.append(value - old)
    return found


# Their text


def text(found: Series) -> str:
    """As Prometheus reads it."""
    lines = []
    for metric in METRICS:
        of_it = [(labels, value) for (name, labels), value in found.items() if name == metric.name]
        if of_it:
            lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{_labels(labels)} {value!r}" for labels, value in of_it]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def parse(told: str) -> Series:
    """What `text` wrote; lines that it did not are left out."""
    found: Series = {}
    for line in told.splitlines():
        match = SERIES.fullmatch(line)
        if match:
            labels = tuple((name, _plain(value)) for name, value in LABEL.findall(match[2] or ""))
            try:
                found[match[1], labels] = float(match[3])
            except ValueError:
                continue
    return found


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)
