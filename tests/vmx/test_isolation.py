# SPDX-License-Identifier: GPL-2.0-only
"""Shootdowns of guests with isolated page tables and PCIDs, on VMX; for `make soak`.

Their kernel is one more to build. Processors with SVM have no need of the isolation, and the
emulated ones have no PCIDs.
"""

from pathlib import Path

import pytest

from lab.machine import console
from tests.vmx.test_vmx import ALONE, PAIR, SEARCH, WELL, counts, lines, of_guest, run_guests

VARIANT = "isolation"
ISOLATED = "Kernel/User page tables isolation: enabled"
GUEST = """
grep -m 1 -o -w pcid /proc/cpuinfo
grep -m 1 -o -w invpcid /proc/cpuinfo
dmesg | grep -e pvsync: -e isolation:
tlb-checker -S 2 || exit 1
ebizzy-like -S 2 || exit 1
cat /sys/kernel/debug/pvsync/counters
"""


def test_every_mechanism_with_isolated_page_tables(tmp_path: Path) -> None:
    """What a process has of each translation twice, under two PCIDs, goes in both."""
    text = run_guests(tmp_path, (ALONE, "wait", *PAIR), GUEST, variant=VARIANT)
    said = lines(text)
    for name, form in ("a", "shoot4u"), ("b", "shoot4u"), ("c", "mixed"):
        own = of_guest(said, name)
        for line in ("said: pcid", "said: invpcid", ISOLATED, f"TLB shootdown: {form}", *WELL):
            assert line in own, f"{line}: {own}"
    counted = counts(said)
    assert counted["tlb_pages"] > 0 < counted["tlb_full"] and not counted["tlb_refused"], counted
    assert not console.scan(text.encode())


@pytest.mark.parametrize("arguments", ["pti=on", "nopti"])
def test_lost_shootdowns_are_noticed(tmp_path: Path, arguments: str) -> None:
    """With it and without it in this kernel: or the test above could not fail."""
    said = lines(run_guests(tmp_path, (f"{ALONE} {arguments}",), SEARCH,
                            "assert_shootdown=N busted_shootdown=Y", variant=VARIANT))
    assert "said: tlb-checker: stale translation (swap" in said and "said: ended: 1" in said, said
