# SPDX-License-Identifier: GPL-2.0-only
"""Damaged texts of what kernels count; `test_fuzz.py` says what has to come out."""

import math
from dataclasses import asdict, replace

from hypothesis import given
from hypothesis import strategies as st

from lab.core.model import GuestRun, RunRecord
from lab.observe import cpu_waits, figures, flushes, observed, windows
from tests.lab.damage import COUNT, any_or_damaged, damaged, interleaved
from tests.lab.synthetic import cpu_wait_lines, latency_lines, sections

SNAPSHOT = sections({
    "debug/tlb_latency": latency_lines({"ipi": [(900, 800), (7, 6)], "kvmtlb": [(5000, 40)]}),
    "debug/lock_waits": ["9 12 3400", "10 7 5000"],
    "debug/counters": ["lock_acquisitions 1234", "lock_wait_ns 98765", "preempt_lock 3"],
    "vm/a-0/cpu_waits": ["4 17 200000", "23 1 4300000000", "longest 4300000000"],
    "vm/a-0/counters": ["extend_granted 17", "preempt_lock 12"],
    "/groups/pvsync-a-0/cpu.stat": ["usage_usec 987654", "user_usec 3"],
})
RUN = RunRecord("r", 0, 0, 0, "a", "w", 2, 2, 2, True, "",
                (GuestRun("a-0", 10.0, 12.5, 2.5, 0, ""),
                 GuestRun("a-1", 10.05, 12.0, 1.95, 0, "")), 1.0)


def test_snapshots_cut_at_every_byte() -> None:
    whole = observed.parse(SNAPSHOT)
    assert whole.flushes and whole.waits and whole.cpu_waits and len(whole.counters) == 3
    for end in range(len(SNAPSHOT)):
        found = observed.parse(SNAPSHOT[:end])
        assert found.counters.items() <= whole.counters.items()
        assert found.cpu_usec.items() <= whole.cpu_usec.items()
        assert found.vms.get("a-0", {}).items() <= whole.vms["a-0"].items()
        assert (found.waits or {}).items() <= whole.waits.items()
        assert found.cpu_waits in ({}, whole.cpu_waits)
        assert found.flushes in (None, whole.flushes)


@given(st.text() | any_or_damaged(SNAPSHOT.encode()).map(lambda d: d.decode(errors="replace")),
       damaged(SNAPSHOT.encode()).map(lambda d: d.decode(errors="replace")))
def test_figures_of_damaged_snapshots(before: str, after: str) -> None:
    change = observed.between(observed.parse(before), observed.parse(after))
    seen = observed.observation(RUN, lambda _: change, ("a-0", "a-1"))
    numbers = [figures.spinning(seen), figures.share_deviation(seen),
               *figures.spin_figures(seen), *figures.flush_figures(seen),
               *figures.extend_figures(seen), *figures.park_figures(seen),
               *figures.preempted(seen).kinds.values()]
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert all(value is None or value >= 0 for value in change.counters.values())
    flushes.figures(flushes.merged(seen.flushes))
    cpu_waits.figures([(seen.cpu_waits, seen.seconds)])


@given(interleaved(SNAPSHOT.splitlines(), SNAPSHOT.replace("1234", "5678").splitlines()))
def test_two_guests_in_one_snapshot(lines: list[str]) -> None:
    found = observed.parse("".join(f"{line}\n" for line in lines))
    known = {"lock_acquisitions": {1234, 5678}, "lock_wait_ns": {98765}, "preempt_lock": {3, 12},
             "longest": {4300000000}, "extend_granted": {17}, "usage_usec": {987654},
             "user_usec": {3}}
    assert all(value in known[name] for name, value in found.counters.items())


WAITS = st.lists(st.integers(0, 10**11))


@given(WAITS, WAITS)
def test_waits_for_a_cpu_and_back(before: list[int], later: list[int]) -> None:
    """What a VM waited in a run comes out as it was, with bounds that hold."""
    first, second = (cpu_waits.parse(cpu_wait_lines(one)) for one in (before, before + later))
    found = cpu_waits.between(first, second)
    assert found and sum(waits for waits, _ in found.bins.values()) == len(later)
    assert sum(ns for _, ns in found.bins.values()) == sum(later)
    assert max(later, default=0) <= found.longest_ns <= max(before + later, default=0)
    seen = cpu_waits.figures([((found, found), 2.0)])
    assert seen and seen.per_s == len(later) and seen.longest_ms == found.longest_ns / 1e6
    assert seen.p99_ms is None or sum(ns > 1e6 * seen.p99_ms for ns in later) <= len(later) / 100


@given(st.lists(st.text(max_size=20) | st.sampled_from(
    ["0 1 1", "23 9 9", "24 1 1", "3 0 0", "longest 0", "longest 7", "9 " + "9" * 20 + " 1"])))
def test_any_waits_for_a_cpu(lines: list[str]) -> None:
    found = cpu_waits.parse(lines)
    assert found is None or lines[-1].startswith("longest ")
    cpu_waits.figures([((found,), 0.0), ((cpu_waits.between(found, found),), 1.0)])
    cpu_waits.figures([((found,), 0.0)])


LENGTHS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=9)


@given(st.dictionaries(st.sampled_from(["ipi", "kvmtlb", "shoot4u"]), LENGTHS))
def test_flush_times_and_back(values: dict[str, list[tuple[int, int]]]) -> None:
    found = flushes.parse(latency_lines(values))
    assert found is not None and set(found) == set(values)
    for name, pairs in values.items():
        assert found[name].calls == len(pairs)
        assert found[name].wall.sum_ns == sum(wall for wall, _ in pairs)
        assert flushes.percentile(found[name].ran, 100) <= max(r for _, r in pairs)


@given(st.lists(st.text(max_size=20) | st.sampled_from(
    ["mechanism a", "calls 1", "wall_ns 1 1", "ran_ns 1 1", "8 1 1", "9 1 1", "9" * 20 + " 1 1"])))
def test_any_flush_times(lines: list[str]) -> None:
    found = flushes.parse(lines)
    flushes.figures(flushes.between({}, found))
    flushes.figures(flushes.between(found, found))


SAMPLES = st.lists(st.tuples(st.integers(0, 10**9), COUNT, st.none() | COUNT, COUNT, COUNT),
                   min_size=2, max_size=6, unique_by=lambda row: row[0])


@given(SAMPLES)
def test_windows_and_back(rows: list[tuple[int, int, int | None, int, int]]) -> None:
    """Whatever the host noted comes out as it was, or not at all."""
    noted = [[row[0] / 1e3, *row[1:]] for row in sorted(rows)]
    run = replace(RUN, guests=tuple(replace(one, began=0.0, ended=1e6) for one in RUN.guests))
    found = windows.parse(windows.as_text(("a-0", "a-1"), noted), run)
    columns = list(zip(*noted, strict=True))
    rises = all(list(column) == sorted(column) for column in (columns[1], columns[3]))
    assert (found is not None) == rises
    if found:
        assert list(found.times) == list(columns[0])
        assert list(found.used) == list(zip(columns[1], columns[3], strict=True))
        windows.figures([found])


WINDOWS = windows.as_text(("a-0", "a-1"), [[10.05 + n / 10, 1000 * n, n, 900 * n, 0]
                                           for n in range(12)])


def test_windows_cut_at_every_byte() -> None:
    whole = windows.parse(WINDOWS, RUN)
    assert whole
    for end in range(len(WINDOWS)):
        found = windows.parse(WINDOWS[:end], RUN)
        assert found is None or found.used == whole.used[:len(found.used)]


@given(any_or_damaged(WINDOWS.encode()))
def test_damaged_windows(data: bytes) -> None:
    found = windows.figures([windows.parse(data.decode(errors="replace"), RUN)])
    assert found is None or all(math.isfinite(value) for value in asdict(found).values()
                                if value is not None)
