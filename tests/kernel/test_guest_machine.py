# SPDX-License-Identifier: GPL-2.0-only
"""What a guest's machine is made of, by its QEMU's own words."""

import re

import pytest

from lab.run.session import Session
from tests.kernel.conftest import borrowed
from tests.kernel.test_loans import GUEST

MONITOR = "human-monitor-command"


@pytest.fixture(scope="module")
def interrupts(common: Session) -> str:
    """What QEMU counts of interrupts, by the controller that got them."""
    with borrowed(common):
        common.machine.control.call("switch", run=[GUEST])
        return str(common.machine.control.call(
            "qmp", name=GUEST, command=MONITOR, arguments={"command-line": "info irq"})["return"])


def test_kvm_has_the_io_apic(interrupts: str) -> None:
    """Not QEMU, which loses an interrupt that is raised as another one ends."""
    assert re.search(r"^IRQ statistics for kvm-ioapic:\s(?:.*\s)*?23: \d", interrupts, re.M)
    assert "IRQ statistics for ioapic" not in interrupts, interrupts
