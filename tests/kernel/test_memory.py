# SPDX-License-Identifier: GPL-2.0-only
"""Memory that vCPUs share with the host goes away under it: no word, no page, no answer is wrong.

Programs on the host are monitors of small machines: vm-memory-check takes the memory
away in each way there is and looks what the host makes of it, vm-memory-storm does it all at
once and at random. vm-shootdown-check is one vCPU that takes a page away from another one in
the midst of its write to it.
"""

from contextlib import ExitStack

import pytest

from lab.machine.control import Control
from lab.run.parameters import parameter_file
from lab.run.session import Session
from tests.kernel import host_log
from tests.kernel.conftest import Host, borrowed, meminfo, written
from tests.kernel.monitors import check_awaited, check_each_way, storm_counts
from tests.kernel.test_debug import VARIANTS

CHECK = "/usr/lib/pvsync/bin/vm-memory-check"
STORM = "/usr/lib/pvsync/bin/vm-memory-storm"
SHOOTDOWN = "/usr/lib/pvsync/bin/vm-shootdown-check"
POLICIES = {"extend": "ecs", "candidate": "ecs", "yield": "strong"}
"""With these the host reads and writes the records most often."""
MEMORY = "/proc/meminfo"
PAGE = 4096
LONGEST = 3600
"""Seconds that the second one takes for a length."""


def check_storm(control: Control, seconds: int, seed: int) -> None:
    """Of the pages that went while they were shared the host has kept next to none."""
    before = control.read_file(MEMORY).decode()
    status, said = control.run(STORM, "-S", str(seconds), "-s", str(seed),
                               timeout=3 * seconds + 180)
    after = control.read_file(MEMORY).decode()
    lost = meminfo(before, "MemAvailable") - meminfo(after, "MemAvailable")
    print(f"{said}lost: {lost} bytes")
    assert status == 0, said
    assert lost < storm_counts(said)["pages given back"] * PAGE // 2, said


def check_shootdown(session: Session) -> None:
    """A host that awaits nobody on purpose is caught, so it is seen to await."""
    control = session.machine.control
    for busted in (False, True):
        with written(session, parameter_file("busted_await"), "Y" if busted else "N"):
            check_awaited(*control.run(SHOOTDOWN, timeout=120), busted=busted)


def check_host(session: Session, seconds: int) -> None:
    control = session.machine.control
    with ExitStack() as meanwhile:
        for name, value in POLICIES.items():
            meanwhile.enter_context(written(session, parameter_file(name), value))
        check_each_way(*control.run(CHECK, timeout=300))
        check_storm(control, seconds, seed=1)


def test_memory_goes_away(common: Session) -> None:
    with borrowed(common) as shared:
        check_shootdown(common)
        check_host(common, 10)
        host_log.check(shared.console(), host_log.MANY)


@pytest.mark.soak
@pytest.mark.parametrize("variant", ["test", *VARIANTS])
def test_memory_goes_away_for_long(host: Host, variant: str, length: int) -> None:
    with host("hostile.toml", variant) as session:
        check_shootdown(session)
        check_host(session, min(length, LONGEST))
        assert session.machine.trouble() == ""
        host_log.check(session.machine.console_text().decode(errors="replace"), host_log.MANY)
