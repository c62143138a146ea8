# SPDX-License-Identifier: GPL-2.0-only
"""kernel/rfc/04-section-extension with Linux guests that say that they hold spinlocks.

It needs a kernel that no other test does, so it is for --soak.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.build import images
from lab.core.progress import Silent
from lab.plan import config
from lab.run import runner
from tests.kernel.conftest import HERE, opened
from tests.kernel.placebo import AS_IS, PLACEBO, TRIED, WAYS, counts, row, times, turns
from tests.kernel.test_rfc import PREEMPT, SCHEMES, SECTION, SEVERAL, STATISTICS, TRACE, seen

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

EXTENSIONS, EXPIRED = "section_extensions", "section_extensions_expired"
NAMES = (*STATISTICS, EXTENSIONS, EXPIRED)
LENGTH_NS = "/sys/module/kvm/parameters/section_extension_ns"
LENGTHS = {AS_IS: "0", PLACEBO: "0", TRIED: "50000"}
AT_INTERRUPT = "at_instruction_boundary 1"
"""Of a preemption after an exit for an interrupt of the host."""
ALL = "preemptions"
ROUNDS = 3


@pytest.mark.parametrize(("preempt", "fewer"), [("full", AT_INTERRUPT), ("voluntary", SECTION)])
def test_fewer_are_preempted_in_sections(preempt: str, fewer: str, tmp_path: Path) -> None:
    """Two VMs share the CPUs. None goes on unless the host lets it.

    A fully preemptible kernel preempts vCPUs while it handles their other exits, as before.
    """
    plan = replace(config.experiment(str(HERE / "rfc.toml")), schemes=SCHEMES[:1],
                   variant="rfc-04", vms=(2,))
    found: dict[str, list[dict[str, int]]] = {way: [] for way in WAYS}
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    files = images.of_experiment(plan, None, (), Silent())
    with opened(plan, runner.host_spec(plan, "vt", files), tmp_path) as session:
        control = session.machine.control
        control.write_file(PREEMPT, preempt)
        for way in (way for number in range(ROUNDS) for way in turns(number)):
            control.write_file(LENGTH_NS, LENGTHS[way])
            print(f"{preempt}, {way}:", end=" ", flush=True)
            run = seen(session, "section", NAMES)
            counted = {**run.statistics,
                       AT_INTERRUPT: control.run("cat", TRACE)[1].count(AT_INTERRUPT)}
            counted[ALL] = counted["preemption_reported"] + counted["preemption_other"]
            found[way].append(counted)
            took[way] += run.elapsed
        assert session.machine.trouble() == ""
    print(row(preempt, *WAYS))
    for name in (ALL, SECTION, AT_INTERRUPT, EXTENSIONS, EXPIRED):
        print(row(name, *(counts([one[name] for one in found[way]]) for way in WAYS)))
    print(row("hackbench, s", *(times(took[way]) for way in WAYS)))
    on = {name: sum(one[name] for one in found[TRIED]) for name in found[TRIED][0]}
    for off in (found[AS_IS], found[PLACEBO]):
        assert not any(one[EXTENSIONS] or one[EXPIRED] for one in off), off
        assert on[fewer] * 2 < sum(one[fewer] for one in off), found
    assert on[EXTENSIONS] > SEVERAL, on
    assert on[EXPIRED] * 2 < on[EXTENSIONS], on
