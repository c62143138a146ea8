# SPDX-License-Identifier: GPL-2.0-only
"""pvsync.extend=kernel: stock guests are lent time while they are in their kernel."""

from typing import Any

import pytest

from tests.kernel.conftest import HERE, Lab, Result

pytestmark = [pytest.mark.virtual, pytest.mark.sampled]
LONGEST_NS = 1_050_000
"""Of a loan of 1 ms, whose timer is a few microseconds late."""


def host(result: Result, scheme: str, workload: str) -> dict[str, Any]:
    """What the host counted of the guests."""
    (cell,) = (one for one in result.summary["cells"]
               if (one["scheme"], one["workload"]) == (scheme, workload))
    return dict(cell["observed"]["host"])


def test_the_kernel_of_stock_guests_is_lent_to(lab: Lab) -> None:
    """Those that make system calls; a guest that computes hardly ever is in its kernel."""
    result = lab(str(HERE / "extend_kernel.toml"), "--backend", "vt")
    assert result.status == 0, result.output
    for workload in ("hackbench-short", "cpu-burn"):
        assert host(result, "pvqspinlock", workload)["extend_granted"] == 0
    calling, computing = (host(result, "extend-kernel", workload)
                          for workload in ("hackbench-short", "cpu-burn"))
    print(calling, computing)

    def share(seen: dict[str, Any]) -> float:
        lost = sum(seen[f"preempt_{where}"] for where in ("user", "unknown"))
        assert lost > 20, seen
        return float(seen["extend_granted"] / lost)

    assert share(calling) > 0.3 > share(computing), (calling, computing)
    assert calling["extend_ns"] <= calling["extend_granted"] * LONGEST_NS, calling
