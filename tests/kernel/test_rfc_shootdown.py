# SPDX-License-Identifier: GPL-2.0-only
"""kernel/rfc/05-ranged-shootdown, with Linux guests that ask KVM to flush and with others.

It needs a kernel that no other test does, so it is for --soak.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lab.build import images
from lab.core.model import Scheme, Workload
from lab.core.progress import Silent
from lab.plan import config
from lab.plan.schedule import PlannedRun
from lab.run import runner
from lab.run.session import Session
from tests.kernel.conftest import HERE, opened
from tests.kernel.test_rfc import SEVERAL, UNNAMED, statistics

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

ABOUT = "the same kernel, whose CPU does not have the feature"
SCHEMES = (
    Scheme("range", "a guest that has KVM flush TLBs of other CPUs", cpu=UNNAMED),
    Scheme("interrupts", ABOUT, label="interrupts"),
    Scheme("interrupts", ABOUT, label="interrupts:2"),
)
"""The last one is compared with the one before, where only chance makes a difference."""
TARGETS, LEFT = "pv_tlb_flush_targets", "pv_tlb_flush_left"
STATISTICS = ("exits", "hypercalls", "irq_injections", "tlb_flush", TARGETS, LEFT)
TOLD = "grep TLB: /proc/interrupts"
RECEIVED = re.compile(r"TLB: +((?:\d+ +)+)TLB shootdowns")
ROUNDS, SEEDS = 3, (0, 1, 2)
WORKLOADS = {
    "mmap-short": "",
    "munmap-loop": "/usr/lib/pvsync/bin/tlb-loop -m munmap -S 0.2",
    "madvise-loop": "/usr/lib/pvsync/bin/tlb-loop -m madvise -S 0.2",
}
"""Those that change page tables, and a shorter command than their own."""


@dataclass
class Seen:
    """Of all runs of a scheme with a workload."""

    figures: list[float] = field(default_factory=list)
    """The workload's, of each guest."""
    counts: Counter[str] = field(default_factory=Counter)
    """KVM's statistics, and the guests' interrupts for flushes."""

    def __str__(self) -> str:
        mean = sum(self.figures) / len(self.figures)
        singles = ", ".join(f"{one:.0f}" for one in self.figures)
        counted = ", ".join(f"{name} {value}" for name, value in self.counts.items())
        return f"{mean:.0f} ({singles}); {counted}"


def told(workload: Workload, command: str) -> Workload:
    """It tells how many interrupts for flushes there were, before it runs and after."""
    return replace(workload, command=f"{TOLD}\n{command or workload.command}\n"
                                     f"status=$?\n{TOLD}\nexit $status")


def received(output: str) -> int:
    """Interrupts for flushes between the first two lines that tell of them."""
    before, after = (sum(map(int, line.split())) for line in RECEIVED.findall(output)[:2])
    return after - before


def look(session: Session, seen: Seen, planned: PlannedRun) -> None:
    """Have the guests of a scheme run, and add what comes of it."""
    control = session.machine.control
    (workload,) = (one for one in session.experiment.workloads if one.name == planned.workload)
    before = Counter(statistics(control, STATISTICS))
    run = session.run(planned, 0)
    assert run.valid, run.reason
    seen.counts.update(Counter(statistics(control, STATISTICS)) - before)
    for guest in run.guests:
        output = (session.out / guest.output).read_text()
        seen.figures.append(float(re.findall(workload.pattern, output)[-1]))
        seen.counts["interrupts for flushes"] += received(output)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_fewer_interrupts(name: str, seed: int, tmp_path: Path) -> None:
    """Two VMs of 4 vCPUs share 4 CPUs, and both kinds of guests are in one boot.

    -s shows the figures of docs/results/selftests.md. Nothing is said of the workload's own
    figure: see there.
    """
    workload = told(config.workloads()[name], WORKLOADS[name])
    plan = replace(config.experiment(str(HERE / "rfc.toml")), schemes=SCHEMES, vms=(2,),
                   pcpus=4, variant="rfc-05", workloads=(workload,), reps=ROUNDS)
    files = images.of_experiment(plan, None, (), Silent())
    found: defaultdict[str, Seen] = defaultdict(Seen)
    with opened(plan, runner.host_spec(plan, "vt", files, seed=seed), tmp_path) as session:
        for rep in range(ROUNDS):
            for scheme in SCHEMES if rep % 2 else SCHEMES[::-1]:
                label = scheme.label or scheme.name
                look(session, found[label], PlannedRun(0, rep, label, name, 2))
        assert session.machine.trouble() == ""
    for label, seen in found.items():
        print(f"{name}, seed {seed}, {label}: {seen}", flush=True)
    asked, not_asked = found["range"].counts, found["interrupts"].counts
    assert asked[TARGETS] > SEVERAL, asked
    assert asked[LEFT] * 2 < asked[TARGETS], asked
    assert not_asked[TARGETS] == not_asked[LEFT] == 0, not_asked
    assert asked["interrupts for flushes"] * 2 < not_asked["interrupts for flushes"], found
