# SPDX-License-Identifier: GPL-2.0-only
"""Guests of a host that has nothing of pvsync: what they have by themselves works there.

It needs a kernel that no other test does, so it is for --soak.
"""

import re

import pytest

from tests.kernel.conftest import HERE, Lab

COMMAND = """
echo 1 >/sys/kernel/debug/pvsync/lock_stat
hackbench -g 2 -l 100 >/dev/null && /usr/lib/pvsync/bin/tlb-checker -S 4 || exit 1
grep -a . /sys/kernel/debug/pvsync/counters
dmesg | grep -a 'pvsync:'
"""
REFUSED = (
    "pvsync.help=auto has no effect here: the host does not offer it",
    "pvsync.tlb=shoot4u is kvmtlb here: the host does not offer it",
    "pvsync.ecs=count is off here: the host does not offer it",
    "pvsync.park=eschdspin is stock here: the host does not offer it",
)


@pytest.mark.soak
def test_guests_on_a_stock_host(lab: Lab) -> None:
    result = lab(str(HERE / "stock_host.toml"), "--cmd", COMMAND)
    assert result.status == 0, result.output
    assert ", host " in result.summary["kernel"], result.summary["kernel"]
    for scheme in ("pv-ticket", "pv-pmt"):
        output = result.guest_output(scheme)
        assert output.count(f"spinlocks: {scheme}") == 2, output
        for name in ("lock_halts", "lock_kicks"):
            counted = re.findall(rf"^{name} (\d+)$", output, re.M)
            assert len(counted) == 2 and all(map(int, counted)), output
    output = result.guest_output("guest-alone")
    assert output.count("spinlocks: pmt") == 2, output
    for line in REFUSED:
        assert output.count(line) == 2, f"{line}: {output}"
