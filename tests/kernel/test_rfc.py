# SPDX-License-Identifier: GPL-2.0-only
"""The proposals of kernel/rfc, booted: their selftests, and Linux as a guest of the second one.

They need kernels that no other test does, so they are for --soak.
"""

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import pytest

from lab.build import images, kernel, rfc, series
from lab.core import content
from lab.core.model import Scheme
from lab.core.progress import Silent
from lab.machine.control import Control
from lab.plan import config, kconfig
from lab.plan.schedule import PlannedRun
from lab.run import runner
from lab.run.session import Session
from tests.kernel import placebo, suites, yields
from tests.kernel.conftest import HERE, opened
from tests.kernel.test_selftests import suite

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

LIMIT_S = 600
UNNAMED = ("migratable=off",)
"""QEMU passes on features of KVM that it has no name for."""
SCHEMES = (
    Scheme("section", "a guest that says when it holds spinlocks", cpu=UNNAMED),
    Scheme("section-off", "the same kernel, whose CPU does not have the feature"),
    Scheme("section-stock", "a kernel without the patch, whose byte is read", cpu=UNNAMED,
           variant="stock"),
)
SECTION = "preempted_in_section"
STATISTICS = (SECTION, "preemption_reported", "preemption_other")
KVM = "/sys/kernel/debug/kvm/*-*"
EVENT = "/sys/kernel/debug/tracing/events/kvm/kvm_vcpu_preempted_in_section/enable"
PREEMPT = "/sys/kernel/debug/sched/preempt"
NRIPS = ("-global", "qemu64-x86_64-cpu.nrip-save=on")
"""The processor says how long an instruction is. KVM's fastpath takes no exit without."""
TRACE = "/sys/kernel/debug/tracing/trace"
TRACED = re.compile(r"kvm_vcpu_preempted_in_section: vcpu (\d+) in_section (\d+)"
                    r" at_instruction_boundary [01] in_kernel ([01])\s*$", re.MULTILINE)
SEVERAL = 5
"""Of preemptions in a run: more than 100 were seen, and 48 in sections."""
YIELDING = (
    Scheme("stock", "a stock guest: it asks for yields to vCPUs that it has interrupted"),
    Scheme("native", "native spinlocks, whose waiters the host sees spin", ("nopvspin",)),
)
YIELD_SEEDS = (1, 2, 3, 4)
MANY, MORE = 50, 0.1
"""Accepted yields of a run, and by how much a share is larger, at least: see the cover letter."""


@dataclass(frozen=True)
class Proposal:
    """A folder of kernel/rfc that is booted."""

    folder: str
    selftest: str
    """That the folder adds."""
    preempt: tuple[str, ...]
    """How preemptible the host's kernel is, one after the other: with `full`, the first selftest
    skips."""
    qemu: tuple[str, ...] = ()
    """More for the command line of the host's QEMU."""


PROPOSALS = {
    "rfc-01": Proposal("01-instruction-boundary", "x86_64/steal_time_preempted_test",
                       ("voluntary",), NRIPS),
    "rfc-02": Proposal("02-preempted-in-section", "x86_64/preempted_in_section_test", ("full",)),
    "rfc-04": Proposal("04-section-extension", "x86_64/section_extension_test",
                       ("full", "voluntary", "none")),
    "rfc-05": Proposal("05-ranged-shootdown", "x86_64/flush_tlb_range_test", ("full",)),
}
"""Of each variant."""
BUILT_BY = {
    "kernel/sched/syscalls.c": "kernel/sched/build_policy.o",
    "include/trace/events/sched.h": "kernel/sched/core.o",
}
"""The object that has a file which no object is named after."""
WITH = {"rfc-05": ("rfc-05",)}
"""Options of the base without which some of these objects are not compiled."""
COMPILED = [name for name, variant in kconfig.variants().items() if variant.rfc]
VERDICTS = [("rfc-01", "rfc-01", "pass"), ("rfc-01", "stock", "fail"),
            ("rfc-02", "rfc-02", "pass"), ("rfc-02", "stock", "skip"),
            ("rfc-04", "rfc-04", "pass"), ("rfc-04", "stock", "skip"),
            ("rfc-05", "rfc-05", "pass"), ("rfc-05", "stock", "skip")]
"""Whose selftest, in which host, and what comes of it."""


@dataclass(frozen=True)
class Seen:
    """What the host saw of one run."""

    statistics: dict[str, int]
    """KVM's, of all vCPUs."""
    traced: list[tuple[int, int, int]]
    """Of each event: the vCPU, its byte, and whether it was in the guest's kernel."""
    elapsed: list[float]
    """Seconds, of each guest."""


@pytest.mark.parametrize(("proposal", "host", "how"), VERDICTS)
def test_selftest(proposal: str, host: str, how: str, tmp_path: Path) -> None:
    """It passes with the patches.

    The bare base has all of what the first one looks at, and nothing of the others'.
    """
    tried = PROPOSALS[proposal]
    with suite(host, tmp_path, (tried.selftest,), backend="vt", proposal=tried.folder,
               qemu=tried.qemu) as (machine, programs):
        assert programs == [tried.selftest]
        for preempt in tried.preempt:
            machine.control.write_file(PREEMPT, preempt)
            (found,) = suites.run(machine.control, programs, LIMIT_S)
            print(preempt, found.said)
            assert found.how == how, found


def objects_of(folder: Path) -> tuple[str, ...]:
    """What is built of the kernel's own C files that a proposal changes."""
    changed = {name for patch in series.patches(folder)
               for name in re.findall(r"^\+\+\+ b/(\S+)$", patch.read_text(), re.MULTILINE)}
    own = {name for name in changed if name.endswith(".c") and not name.startswith("tools/")}
    return tuple(sorted({BUILT_BY.get(name, f"{name.removesuffix('.c')}.o")
                         for name in own | changed & set(BUILT_BY)}))


@pytest.mark.parametrize("name", [name for name in COMPILED if not name.endswith("-lockdep")])
def test_each_patch_compiles(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those before it, and without those after it; options that a patch adds are off.

    Those of the suite's programs are not built here: test_selftest builds them, all together.
    """
    variant = replace(kconfig.variant(name), name=f"{name}-parts",
                      fragments=("base", "host", *WITH.get(name, ())))
    whole, part = rfc.folder(kconfig.variant(name).rfc), tmp_path / "part"
    part.mkdir()
    monkeypatch.setattr(kconfig, "variant", lambda _: variant)
    monkeypatch.setattr(rfc, "folder", lambda _: part)
    wanted = objects_of(whole)
    assert len(wanted) > 1
    own = series.own_patches(whole)
    for number, patch in enumerate(series.patches(whole), 1):
        shutil.copy(patch, part / f"{number:04}-{patch.name}")
        if patch not in own:
            continue  # It is compiled with its own folder.
        objects = kernel.objects(variant.name, wanted)
        print(f"{name}: {patch.name}: {len(wanted)} objects", flush=True)
    # What does not compile is left for a look.
    for folder in (objects, objects.with_name(f"src-{variant.name}")):
        content.remove(folder)
    for file in (f"src-{variant.name}.changed", f"{variant.name}.log"):
        objects.with_name(file).unlink()


def statistics(control: Control, names: Sequence[str]) -> dict[str, int]:
    """Of all vCPUs of all guests, added up."""
    texts = {name: control.run("sh", "-c", f"cat {KVM}/{name}") for name in names}
    assert not any(status for status, _ in texts.values()), texts
    return {name: sum(map(int, text.split())) for name, (_, text) in texts.items()}


def seen(session: Session, scheme: str, names: Sequence[str] = STATISTICS) -> Seen:
    """Have the guests of this scheme run, and no others."""
    control, (workload,) = session.machine.control, session.experiment.workloads
    before = statistics(control, names)
    control.write_file(TRACE, "")
    control.write_file(EVENT, "1")
    (vms,) = session.experiment.vms
    run = session.run(PlannedRun(0, 0, scheme, workload.name, vms), 0)
    control.write_file(EVENT, "0")
    after = statistics(control, names)
    assert run.valid, run.reason
    traced = [(int(vcpu), int(byte), int(kernel))
              for vcpu, byte, kernel in TRACED.findall(control.run("cat", TRACE)[1])]
    grown = {name: after[name] - before[name] for name in names}
    print(scheme, *(f"{name}: {value}" for name, value in grown.items()),
          f"bytes: {dict(Counter(byte for _, byte, _ in traced))}",
          *(f"{guest.guest}: {guest.elapsed} s" for guest in run.guests))
    return Seen(grown, traced, [guest.elapsed or 0.0 for guest in run.guests])


def test_linux_says_that_it_holds_spinlocks(tmp_path: Path) -> None:
    """The host counts and traces preemptions of vCPUs that do, and of no guest without the patch.

    All are preempted, as four vCPUs share two CPUs.
    """
    plan = replace(config.experiment(str(HERE / "rfc.toml")), schemes=SCHEMES)
    files = images.of_experiment(plan, None, (), Silent())
    with opened(plan, runner.host_spec(plan, "vt", files), tmp_path) as session:
        found = {one.name: seen(session, one.name) for one in SCHEMES}
        assert session.machine.trouble() == ""
    for one in found.values():
        assert one.statistics["preemption_reported"] + one.statistics["preemption_other"] > SEVERAL
        assert len(one.traced) == one.statistics[SECTION], one
    section, *others = (one.statistics[SECTION] for one in found.values())
    assert section > SEVERAL, found
    assert others == [0, 0], found
    traced = found["section"].traced
    assert len({vcpu for vcpu, _, _ in traced}) > 1, traced
    assert all(byte and kernel for _, byte, kernel in traced), traced


@pytest.mark.parametrize("seed", YIELD_SEEDS)
def test_more_yields_land(seed: int, tmp_path: Path) -> None:
    """With patch 2, by what patch 1 traces, for guests of the bare base: see the cover letter.

    Two VMs share the CPUs. One kernel has all ways, as patch 2 can be switched off. So it is for
    the placebo, too.
    """
    change = config.Overrides(variant="rfc-03", vms=(2,))
    plan = replace(config.experiment(str(HERE / "rfc.toml"), change), schemes=YIELDING)
    files = images.of_experiment(plan, None, (), Silent())
    found: dict[tuple[str, str], yields.Outcomes] = {}
    took: dict[tuple[str, str], str] = {}
    with opened(plan, runner.host_spec(plan, "vt", files, seed=seed), tmp_path) as session:
        for scheme in YIELDING:
            for number, way in enumerate(placebo.turns(seed)):
                def run(name: str = scheme.name, number: int = number, way: str = way) -> None:
                    planned = PlannedRun(0, number, name, plan.workloads[0].name, 2)
                    record = session.run(planned, 0)
                    assert record.valid, record.reason
                    took[name, way] = ", ".join(f"{guest.elapsed:.3f}" for guest in record.guests)

                outcome = yields.during(session.machine.control, way == placebo.TRIED, run)
                print(scheme.name, way, outcome, flush=True)
                found[scheme.name, way] = outcome
            cells = [(found[scheme.name, way], took[scheme.name, way]) for way in placebo.WAYS]
            print(placebo.row(f"{scheme.name}, {seed}", *(
                cell for one, _ in cells for cell in (str(one.accepted), f"{one.share:.1%}")),
                *(seconds for _, seconds in cells)), flush=True)
        assert session.machine.trouble() == ""
    for scheme in YIELDING:
        *others, ahead = (found[scheme.name, way] for way in placebo.WAYS)
        assert min(one.accepted for one in (*others, ahead)) > MANY, found
        shares = [one.share for one in others]
        assert ahead.share > max(shares) and ahead.share > mean(shares) + MORE, found
