# SPDX-License-Identifier: GPL-2.0-only
"""Why vCPUs lost their CPUs: figures by values computed by hand."""

import pytest

from lab.core.cells import Preemptions
from lab.observe import counters, figures, observed, preemptions
from lab.observe.observed import Observation

COUNT: dict[str, int | None] = {
    "preempt_irq": 1, "preempt_lock": 2, "preempt_reader": 3, "preempt_rcu": 4, "preempt_mutex": 5,
    "preempt_stuck": 10, "preempt_waiter": 6, "preempt_kernel": 7, "preempt_user": 8,
    "preempt_unknown": 9, "preempt_yielded": 100, "preempt_unmarked": 7, "yield_unmarked": 24,
    "extend_granted": 50, "extend_avoided": 45, "extend_expired": 3, "extend_returned": 40,
    "extend_denied": 2, "extend_capped": 1, "extend_vetoed": 6, "extend_ns": 4_000_000}


def test_the_kernel_counts_what_is_shown() -> None:
    """The names are those of the kernel's list, and every kind of it is shown."""
    listed = counters.descriptions()
    kinds = {name.removeprefix("preempt_") for name in listed if name.startswith("preempt_")}
    assert kinds == {*preemptions.KINDS, "yielded", "unmarked"}
    assert set(COUNT) == {"yield_unmarked"} | {
        name for name in listed if name.startswith(preemptions.COUNTERS)}


def test_figures() -> None:
    seen = preemptions.figures(COUNT, 5.0, 2.0)
    assert seen == Preemptions(
        vms="all", per_s=55 / 5,
        kinds={"irq": 0.2, "lock": 0.4, "reader": 0.6, "rcu": 0.8, "mutex": 1.0, "stuck": 2.0,
               "waiter": 1.2, "kernel": 1.4, "user": 1.6, "unknown": 1.8},
        avoided=45 / 63, avoided_with_stuck=45 / 70, unavoidable_per_s=5.0, granted_per_s=10,
        us_per_grant=80, borrowed=0.002, unmarked=31 / 155)
    assert preemptions.figures(COUNT, 5.0).borrowed is None
    assert preemptions.are_counted(COUNT) and not preemptions.are_counted({"tlb_calls": 1})


def test_a_loan_that_expired_avoided_nothing() -> None:
    """A run of which all loans but those that expired were called avoided, by 1.0."""
    count = dict.fromkeys(COUNT, 0) | {
        "extend_granted": 925, "extend_avoided": 644, "extend_expired": 281, "preempt_stuck": 2283}
    seen = preemptions.figures(count, 1.0)
    assert seen.avoided == 644 / 925
    assert seen.avoided_with_stuck == pytest.approx(0.22, abs=0.001)
    # Of those that expired only as many were stuck; the others are in their kinds.
    seen = preemptions.figures(count | {"preempt_stuck": 81, "preempt_lock": 200}, 1.0)
    assert seen.avoided == 644 / 925
    assert preemptions.figures(count | {"extend_expired": 0}, 1.0).avoided == 1


def test_a_loan_for_the_kernel_that_expired_avoided_nothing() -> None:
    """The vCPUs of guests that say nothing are in no section, before the loan and after it."""
    count = dict.fromkeys(COUNT, 0) | {
        "extend_granted": 40, "extend_avoided": 30, "extend_expired": 10, "preempt_unknown": 50}
    seen = preemptions.figures(count, 1.0)
    assert (seen.avoided, seen.avoided_with_stuck) == (0.75, 0.75)


def test_nothing_happened_is_not_unknown() -> None:
    seen = preemptions.figures(dict.fromkeys(COUNT, 0), 5.0, 2.0)
    assert (seen.per_s, seen.granted_per_s, seen.borrowed) == (0, 0, 0)
    assert seen.avoided is None and seen.us_per_grant is None and seen.unmarked is None
    all_late = preemptions.figures(COUNT | {"extend_avoided": 0}, 5.0)
    assert all_late.avoided == 0


@pytest.mark.parametrize(("lost", "unknown"), [
    ("preempt_lock", {"per_s", "avoided", "avoided_with_stuck", "unavoidable_per_s", "unmarked"}),
    ("preempt_stuck", {"per_s", "avoided", "avoided_with_stuck", "unavoidable_per_s", "unmarked"}),
    ("extend_expired", {"avoided", "avoided_with_stuck"}),
    ("preempt_user", {"per_s", "unmarked"}),
    ("extend_avoided", {"avoided", "avoided_with_stuck"}),
    ("extend_granted", {"granted_per_s", "us_per_grant"}),
    ("extend_ns", {"us_per_grant", "borrowed"}), ("preempt_yielded", {"unmarked"}),
    ("preempt_unmarked", {"unmarked"}), ("yield_unmarked", {"unmarked"}),
])
def test_what_is_unknown_makes_its_figures_unknown(lost: str, unknown: set[str]) -> None:
    for count in ({**COUNT, lost: None}, {name: n for name, n in COUNT.items() if name != lost}):
        seen = vars(preemptions.figures(count, 5.0, 2.0))
        assert {name for name, value in seen.items() if value is None} == unknown
        assert {f"preempt_{kind}" for kind, value in seen["kinds"].items() if value is None} == (
            {lost} & {f"preempt_{kind}" for kind in preemptions.KINDS})


def run_of(*vms: dict[str, int | None], cpu_s: tuple[float | None, ...]) -> Observation:
    return Observation((), figures.total(vms), cpu_s, 4.0, 2.0, (), vms)


def test_all_vms_the_first_and_the_others() -> None:
    twice: dict[str, int | None] = {name: 2 * (number or 0) for name, number in COUNT.items()}
    seen = run_of(COUNT, twice, twice, cpu_s=(1.0, 2.0, 3.0))
    found = [figures.preempted(seen, vms) for vms in ("all", "first", "others")]
    assert [one.vms for one in found] == ["all", "first", "others"]
    assert [one.per_s for one in found] == [275 / 2, 55 / 2, 220 / 2]
    assert [one.borrowed for one in found] == pytest.approx([0.02 / 6, 0.004, 0.016 / 5])
    unknown = [figures.preempted(run_of(COUNT, {}, cpu_s=(1.0, None)), vms)
               for vms in ("all", "first", "others")]
    assert [one.per_s for one in unknown] == [None, 55 / 2, None]
    assert [one.borrowed for one in unknown] == [None, 0.004, None]
    assert figures.preempted(run_of(COUNT, COUNT, cpu_s=(1.0, None))).borrowed is None


def test_medians_are_of_the_runs_that_know() -> None:
    runs = [preemptions.figures(COUNT, 5.0 * n, 2.0) for n in (1, 2, 5)]
    runs.append(preemptions.figures({"preempt_irq": 70}, 1.0))
    seen = figures.medians(runs)
    assert (seen.vms, seen.per_s, seen.granted_per_s) == ("all", 5.5, 5)
    assert (seen.avoided_with_stuck, seen.unavoidable_per_s) == (45 / 70, 2.5)
    assert [seen.kinds["irq"], seen.kinds["user"]] == pytest.approx([0.15, 0.8])
    assert figures.medians(runs[3:]).per_s is None


def test_extensions_and_parking() -> None:
    seen = run_of(COUNT, cpu_s=(1.0,))
    named = dict(zip(figures.EXTEND_FIGURES, figures.extend_figures(seen), strict=True))
    assert named == {"granted": 50, "in time %": 90, "returned %": 80, "expired %": 6, "denied": 2,
                     "capped": 1}
    parked = {"park_slept": 30, "park_spun": 10, "park_wakeups": 20, "park_wakeup_ns": 900_000}
    guests = tuple(observed.Change({**parked}, None, {}) for _ in range(2))
    both = Observation(guests, {}, (), 4.0, 2.0, ())
    assert figures.park_figures(both) == (40, 75, 45)
    untimed = Observation((observed.Change({**parked, "park_wakeups": 0}, None, {}),), {}, (),
                          4.0, 2.0, ())
    assert figures.park_figures(untimed) == (20, 75, None)
    nothing = Observation((), {}, (), 4.0, 2.0, ())
    assert figures.park_figures(nothing) == (None,) * 3
    assert figures.extend_figures(nothing) == (None,) * 6
