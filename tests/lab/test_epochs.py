# SPDX-License-Identifier: GPL-2.0-only
"""Reading what a host says of the epochs of a VM."""

from collections.abc import Callable

import pytest

from lab.core.cells import WindowCost
from lab.core.model import GuestRun, RunRecord
from lab.observe import epochs, observed
from lab.observe.epochs import Epoch

LINES = [
    epochs.HEADS,
    "7 10000000000 1000 8192 51234 1 2 3 9216",
    "8 12500000000 1001 9216 41000 1 2 3 0",
]
TRACE = (Epoch(10.0, 1000, 8192, 0.051234), Epoch(12.5, 1001, 9216, 0.041))


def test_parse() -> None:
    assert epochs.parse(LINES) == TRACE
    assert epochs.parse(LINES[:1]) == ()


@pytest.mark.parametrize("damage", [
    lambda lines: [],
    lambda lines: lines[1:],
    lambda lines: [lines[0], lines[2], lines[1]],
    lambda lines: [lines[0], lines[1], lines[1]],
    lambda lines: [*lines, "9 13000000000 1000"],
    lambda lines: [*lines, "9 13000000000 1000 8192 - 1 2 3 0"],
    lambda lines: [*lines, "9 12000000000 1000 8192 5 1 2 3 0"],
])
def test_damage_leaves_nothing(damage: Callable[[list[str]], list[str]]) -> None:
    assert epochs.parse(damage(LINES)) is None


def run(*times: tuple[float | None, float | None]) -> RunRecord:
    guests = tuple(GuestRun(f"x-{n}", began, ended, 1.0, 0, f"raw/x-{n}.out")
                   for n, (began, ended) in enumerate(times))
    return RunRecord("x", 1, 1, 1, "tas", "hackbench", len(guests), 2, 2, True, "", guests, 1.0)


@pytest.mark.parametrize(("times", "expected"), [
    (((9.0, 11.0), (9.5, 13.0)), TRACE),
    (((9.0, 10.0), (9.5, 12.0)), TRACE[:1]),
    (((10.5, 13.0),), TRACE[1:]),
    (((None, None),), ()),
])
def test_those_of_a_run(times: tuple[tuple[float | None, float | None], ...],
                        expected: tuple[Epoch, ...]) -> None:
    assert epochs.during(run(*times), TRACE) == expected


def test_costs_by_window() -> None:
    """Each epoch counts once, at the step that its mean window is nearest to."""
    at = ((8600, 0.75), (8703, 0.25), (4096, 0.6), (8705, 0.9), (7681, 0.5))
    traces = [tuple(Epoch(1.0, 1000, *one) for one in part) for part in (at[:2], (), at[2:])]
    assert epochs.by_window(traces) == (
        WindowCost(4096, 1, 0.6, (0.6, 0.6)),
        WindowCost(8192, 3, 0.5, (0.375, 0.625)),
        WindowCost(9216, 1, 0.9, (0.9, 0.9)),
    )
    assert epochs.by_window([()]) == ()


def test_a_snapshot_has_those_of_each_vm() -> None:
    text = "\n".join(["==> vm/a-0/epochs <==", *LINES, "", "==> vm/a-0/counters <==", "epochs 9",
                      "==> vm/a-1/epochs <==", *LINES[:2], "==> vm/a-1/counters <==", ""])
    seen = observed.parse(text)
    assert seen.epochs == {"a-0": TRACE, "a-1": TRACE[:1]}
    assert seen.vms["a-0"] == {"epochs": 9}
    before = observed.host_snapshot({"a-0": "/vm"}, "before")
    assert ": </vm/pvsync/epochs;" in before and "cat /vm/pvsync/epochs" not in before
    assert "cat /vm/pvsync/epochs" in observed.host_snapshot({"a-0": "/vm"}, "after")
