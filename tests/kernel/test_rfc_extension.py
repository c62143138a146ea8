# SPDX-License-Identifier: GPL-2.0-only
"""kernel/rfc/04-section-extension with Linux guests that say that they hold spinlocks.

It needs a kernel that no other test does, so it is for --soak.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lab.build import images
from lab.core.progress import Silent
from lab.plan import config
from lab.run import runner
from tests.kernel.conftest import HERE, opened
from tests.kernel.test_rfc import PREEMPT, SCHEMES, SECTION, SEVERAL, STATISTICS, TRACE, seen

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

EXTENSIONS, EXPIRED = "section_extensions", "section_extensions_expired"
NAMES = (*STATISTICS, EXTENSIONS, EXPIRED)
LENGTH_NS = "/sys/module/kvm/parameters/section_extension_ns"
OFF, ON = "0", "50000"
AT_INTERRUPT = "at_instruction_boundary 1"
"""Of a preemption after an exit for an interrupt of the host."""
ROUNDS = 3


@pytest.mark.parametrize(("preempt", "fewer"), [("full", AT_INTERRUPT), ("voluntary", SECTION)])
def test_fewer_are_preempted_in_sections(preempt: str, fewer: str, tmp_path: Path) -> None:
    """Two VMs share the CPUs. None goes on unless the host lets it.

    A fully preemptible kernel preempts vCPUs while it handles their other exits, as before.
    """
    plan = replace(config.experiment(str(HERE / "rfc.toml")), schemes=SCHEMES[:1],
                   variant="rfc-04", vms=(2,))
    found = {length: Counter[str]() for length in (OFF, ON)}
    files = images.of_experiment(plan, None, (), Silent())
    with opened(plan, runner.host_spec(plan, "vt", files), tmp_path) as session:
        control = session.machine.control
        control.write_file(PREEMPT, preempt)
        for length in (OFF, ON) * ROUNDS:
            control.write_file(LENGTH_NS, length)
            print(f"{preempt}, {length} ns:", end=" ", flush=True)
            found[length].update(seen(session, "section", NAMES).statistics)
            found[length][AT_INTERRUPT] += control.run("cat", TRACE)[1].count(AT_INTERRUPT)
        assert session.machine.trouble() == ""
    print(preempt, found)
    off, on = found[OFF], found[ON]
    assert off[EXTENSIONS] == off[EXPIRED] == 0, off
    assert on[EXTENSIONS] > SEVERAL, on
    assert on[EXPIRED] * 2 < on[EXTENSIONS], on
    assert on[fewer] * 2 < off[fewer], found
