# SPDX-License-Identifier: GPL-2.0-only
"""The text of the comparison."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lab.core.model import BootRecord, Observe, Paper
from lab.observe import preemptions
from lab.report import grids, table
from lab.report.summary import load, summarize
from tests.lab.synthetic import HACKBENCH, THROUGHPUT, Counted, Synthetic


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.112, "0.112"), (0.01234, "0.0123"), (1.234, "1.23"), (9.996, "10.0"), (12.34, "12.3"),
     (99.96, "100"), (123.4, "123"), (1842204.0, "1,842,204"), (0, "0")],
)
def test_number(value: float, text: str) -> None:
    assert grids.number(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.1234, "+12.3 %"), (-0.04, "-4.0 %"), (2.123, "+212 %"), (0, "+0.0 %")]
)
def test_percent(ratio: float, text: str) -> None:
    assert grids.percent(ratio) == text


def text_of(made: Synthetic, directory: Path) -> str:
    return table.as_text(summarize(load(made.write(directory))))


def line(text: str, start: str) -> str:
    return next(row for row in text.splitlines() if row.strip().startswith(start))


def test_cell_forms(tmp_path: Path) -> None:
    cell = summarize(load(Synthetic().write(tmp_path))).cell("pmt", "hackbench", 1)
    made = replace(cell, median=1.234, spread=0.04, vs_baseline=0.123, significant=True)
    assert table.cell_text(made) == "1.23 ± 4 %  (+12.3 %)*"
    assert table.cell_text(replace(made, significant=False)) == "1.23 ± 4 %  (+12.3 %)"
    assert table.cell_text(replace(made, vs_baseline=None, significant=False)) == "1.23 ± 4 %"
    assert table.cell_text(replace(made, median=None)) == "-"


def test_whole_table(tmp_path: Path) -> None:
    text = text_of(Synthetic(), tmp_path)
    head, mark, rest = text.partition("hackbench: time (s), lower is better; 2-vCPU guests on 2")
    assert mark and "time over what sharing without loss takes" in head
    assert max(len(row) for row in text.splitlines()) <= 128
    text = mark + rest
    assert "%)" not in line(text, "pvqspinlock")
    assert line(text, "ticket  ").endswith("%)*")
    assert "1.00    1.00    1.00" in text.split("speed-up over ticket")[1]
    assert "two-sided Mann-Whitney U, p < 0.01 after Holm's correction" in text
    assert "(6 comparisons)" in text and "n = 10 valid runs a cell (5 in each of 2 host" in text
    assert "No star is possible" not in text and "NOT VALID" not in text
    assert line(text, "ideal").split()[1:] != []


def test_tied_vcpus_are_told(tmp_path: Path) -> None:
    for pin in (False, True):
        text = text_of(Synthetic(pin=pin), tmp_path / str(pin))
        assert ("2-vCPU guests on 2 pCPUs, tied\n" in text) is pin


def test_few_values_say_that_no_star_can_be(tmp_path: Path) -> None:
    text = " ".join(text_of(Synthetic(reps=3, boots=1), tmp_path).split())
    assert "No star is possible here: it takes 7 values a cell, and no cell has more than 3" in text


def test_missing_and_invalid_runs_are_told(tmp_path: Path) -> None:
    made = Synthetic(invalid={("pmt", 3): "g1: rcu stall", ("tas", 1): "x"},
                     schemes=("pmt", "tas"), lost=frozenset({("tas", 2)}))
    made.write(tmp_path)
    boot = BootRecord(7, "", "", False, "triple fault", 1.0)
    guest = BootRecord(7, "pmt-0", "pmt", False, "stalls on CPUs/tasks:", 1.0)
    with (tmp_path / "boots.jsonl").open("a") as file:
        file.write("".join(json.dumps(asdict(one)) + "\n" for one in (boot, guest)) + '{"boo')
    text = table.as_text(summarize(load(tmp_path)))
    assert "too few: tas/hackbench/2 VMs has 9" in text and "NOT VALID" in text
    assert "2 of 61 runs were invalid and are in no figure: g1: rcu stall; x." in text
    assert "1 of 3 host boots failed: triple fault." in text
    assert "1 of 1 guest boots failed: stalls on CPUs/tasks." in text
    assert "Warning: boots.jsonl, line 5, was cut short and is left out." in text


def test_speedup_of_rates_is_turned_round(tmp_path: Path) -> None:
    made = Synthetic(("ticket", "pmt"), THROUGHPUT, reps=1, boots=1,
                     value=lambda name, *_: {"ticket": 1.0, "pmt": 4.0}[name])
    text = text_of(made, tmp_path).split("speed-up over ticket")[1]
    assert line(text, "pmt").split() == ["pmt", "4.00", "4.00", "4.00"]


def test_no_speedups_without_the_reference(tmp_path: Path) -> None:
    assert "speed-up" not in text_of(Synthetic(("pmt", "tas")), tmp_path)


def test_empty_results(tmp_path: Path) -> None:
    Synthetic().write(tmp_path)
    (tmp_path / "runs.jsonl").write_text("")
    text = table.as_text(summarize(load(tmp_path)))
    assert line(text, "pmt").split() == ["pmt", "-", "-", "-"]
    assert "Nothing was compared" in text and "NOT VALID" in text


def test_observed_tables(tmp_path: Path) -> None:
    def counted(label: str, vms: int) -> Counted:
        helped = label == "pmt"
        return Counted(
            guest={"lock_acquisitions": 1, "lock_wait_ns": 100_000_000 * vms, "lock_stolen_ns": 0,
                   "lock_halted_ns": 0, "lock_kicks": 123_456_789_012 if helped else 0},
            host={name: helped * count for name, count in {
                "spin_events": 12, "spin_candidates": 30, "spin_ns": 36_000_000 * vms,
                "yield_attempted": 8, "yield_refused": 2, "yield_denied": 1, "yield_picked": 4,
                "yield_moved": 2, "yield_ran": 1}.items()},
            usec=(1_000_000, 2_000_000)[:vms],
        )

    made = Synthetic(("tas", "pmt"), vms=(1, 2), reps=3, boots=1, counted=counted,
                     value=lambda *_: 1.8)
    text = text_of(made, tmp_path)
    _, _, spinning, host, counters = text.split("hackbench: ")
    assert " ".join(spinning.split()).startswith("spinning (% of the CPU time of the VMs)")
    assert line(spinning, "pmt").split() == ["pmt", "10.0", "13.3"]
    heads = line(host, "scheme").split()
    assert heads[:5] == ["scheme", "VMs", "events/s", "candidates/event", "attempted"]
    assert [row.split() for row in host.splitlines() if row.strip().startswith("pmt")] == [
        ["pmt", "1", "6.67", "2.50", "8.00", "75.0", "50.0", "25.0", "12.5", "1.00", "1.00", "-"],
        ["pmt", "2", "6.67", "2.50", "8.00", "75.0", "50.0", "25.0", "12.5", "1.00", "2.00",
         "33.3"]]
    assert "tas" not in host
    assert line(counters, "lock_kicks").split() == ["lock_kicks", "0", "740,740,734,072"]
    assert "lock_kicks: halted waiters that a release woke." in counters
    assert "\u2026" not in text and "spin_events" not in counters


def flushed(label: str, vms: int) -> Counted:
    """kvmtlb has two mechanisms, and takes four times as long beside another VM."""
    slow = 4 if vms > 1 else 1
    pairs = {"ipi": [(1_000_000 * vms, 500_000), (3_000_000, 100)]}
    if label == "kvmtlb":
        pairs = {"kvmtlb": [(100_000 * slow, 99_000)] * 3, "ipi": [(500_000 * slow, 7)]}
    host = {"tlb_calls": 10, "tlb_running": 1, "tlb_preempted": 2, "tlb_halted": 3,
            "tlb_in_host": 4, "tlb_merged": 5, "tlb_full": 6, "tlb_pages": 7, "tlb_refused": 0,
            "tlb_awaited": 1, "tlb_ns": 200_000}
    return Counted(flushes=pairs, host=host if label == "kvmtlb" else {})


def flush_text(directory: Path, paper: Paper | None, seen: Callable[[str, int], Counted] = flushed,
               observe: Observe = "tlb") -> str:
    made = Synthetic(("ipi", "kvmtlb"), replace(HACKBENCH, paper=paper), vms=(1, 2, 3), reps=2,
                     boots=1, counted=seen, observe=observe, value=lambda *_: 1.0)
    return text_of(made, directory)


def test_flush_times_in_the_form_of_the_paper(tmp_path: Path) -> None:
    text = flush_text(tmp_path, "shoot4u")
    part = text.split("hackbench: latency of remote TLB flushes (us)")[1].split("hackbench:")[0]
    lines = [row.strip().partition("  ") for row in part.splitlines()]
    rows = {label: cells.split() for label, _, cells in lines if " VM" in label[:4]}
    assert part.split("\n")[2].split() == [
        "guests", "ipi", "kvmtlb", "paper:", "baseline", "paper:", "kvmtlb", "paper:", "shoot4u"]
    assert rows == {
        "1 VM, mean": ["2,000", "200", "(-90.0", "%)", "166", "122", "28"],
        "1 VM, max": ["3,000", "500", "24,428", "9,953", "453"],
        "1 VM, max ran": ["500", "99.0", "-", "-", "-"],
        "2 VMs, mean": ["2,500", "800", "(-68.0", "%)", "9,048", "5,401", "22"],
        "2 VMs, max": ["3,000", "2,000", "194,108", "126,923", "15,034"],
        "2 VMs, max ran": ["500", "99.0", "-", "-", "-"],
        "3 VMs, mean": ["3,000", "800", "(-73.3", "%)", "-", "-", "-"],
        "3 VMs, max": ["3,000", "2,000", "-", "-", "-"],
        "3 VMs, max ran": ["500", "99.0", "-", "-", "-"],
    }
    assert "for comparison only: PARSEC's dedup" in " ".join(part.split())
    assert "\u2026" not in text


def test_no_paper_unless_the_workload_asks_for_it(tmp_path: Path) -> None:
    text = flush_text(tmp_path, None)
    assert "latency of remote TLB flushes" in text and "paper" not in text.lower()


def test_schemes_that_timed_no_flush_have_no_column(tmp_path: Path) -> None:
    def seen(label: str, vms: int) -> Counted:
        one = flushed(label, vms)
        return replace(one, flushes={}) if label == "ipi" else one

    text = " ".join(flush_text(tmp_path, None, seen).split())
    part = text.split("latency of remote TLB flushes (us)")[1].split("hackbench:")[0]
    words = [word for word in part.split() if not set(word) <= {"\u2500"}]
    assert words[:5] == ["guests", "kvmtlb", "1", "VM,", "mean"] and words[5] == "200"
    assert "ipi" not in words


def test_flush_details(tmp_path: Path) -> None:
    text = flush_text(tmp_path, None)
    part = text.split("hackbench: remote TLB flushes by mechanism (us)")[1].split("hackbench:")[0]
    rows = [cells for cells in map(str.split, part.splitlines()) if cells[:1] == ["kvmtlb"]]
    assert [cells[:4] for cells in rows if cells[1] == "2"] == [
        ["kvmtlb", "2", "all", "16"], ["kvmtlb", "2", "ipi", "4"], ["kvmtlb", "2", "kvmtlb", "12"]]
    ipi = rows[[cells[1:3] for cells in rows].index(["1", "ipi"])]
    assert ipi[4:] == ["500"] * 5 + ["0.00700"] * 5, "no percentile is above the maximum"
    assert line(part, "ipi").split()[:6] == ["ipi", "1", "ipi", "4", "2,000", "1,032"]


def test_what_the_host_did_about_flushes(tmp_path: Path) -> None:
    text = flush_text(tmp_path, None)
    part = text.split("hackbench: what the host did about requests to flush translations")[1]
    assert line(part, "kvmtlb").split() == [
        "kvmtlb", "1", "10.0", "1.00", "10.0", "20.0", "30.0", "40.0", "50.0", "10.0", "6.00",
        "7.00", "0", "20.0", "0.0100"]
    assert "about spinning vCPUs" not in text


def preempted(label: str, vms: int) -> Counted:
    """stock says nothing; the others are preempted with a lock, and ecs extends. All park."""
    host = {f"preempt_{kind}": 0 for kind in preemptions.KINDS} | {
        "extend_granted": 0, "extend_avoided": 0, "extend_expired": 0, "extend_returned": 0,
        "extend_denied": 0, "extend_capped": 0, "extend_ns": 0, "preempt_yielded": 0,
        "preempt_unmarked": 0, "yield_unmarked": 0}
    host |= {"stock": {"preempt_unknown": 20 * vms, "preempt_user": 4},
             "watch": {"preempt_lock": 10, "preempt_yielded": 30, "preempt_unmarked": 4,
                       "yield_unmarked": 26},
             "ecs": {"preempt_lock": 2, "preempt_stuck": 10, "preempt_waiter": 6,
                     "extend_granted": 40, "extend_avoided": 38, "extend_expired": 2,
                     "extend_returned": 30,
                     "extend_denied": 1, "extend_capped": 3, "extend_ns": 2_000_000}}[label]
    guest = {"park_slept": 10, "park_spun": 30 if label == "ecs" else 0, "park_wakeups": 5,
             "park_wakeup_ns": 100_000}
    return Counted(guest, {}, host, (1_000_000,) * vms, vms=(host, *[host] * (vms - 1)))


def ecs_text(directory: Path, **more: Any) -> str:
    made = Synthetic(("stock", "watch", "ecs"), vms=(1, 2), reps=2, boots=1, counted=preempted,
                     observe="ecs", value=lambda *_: 2.0, **more)
    return text_of(made, directory)


def table_rows(text: str, title: str) -> list[str]:
    """Head, rule and rows of a table, with single spaces."""
    part = text.partition(title)[2].partition("hackbench:")[0]
    return [" ".join(row.split()) for row in part.splitlines()[2:]]


def test_why_vcpus_were_preempted(tmp_path: Path) -> None:
    text = ecs_text(tmp_path)
    head, _, *rows = table_rows(text, "hackbench: why vCPUs were preempted (1/s)")
    assert head == ("scheme VMs of them all kinds irq lock reader rcu mutex stuck waiter kernel"
                    " user unknown unavoidable avoided % with stuck % granted/s us/grant"
                    " borrowed % unmarked %")
    assert rows[:6] == [
        "stock 1 all 12.0 0 0 0 0 0 0 0 0 2.00 10.0 0 - - 0 - 0 0",
        "stock 2 all 22.0 0 0 0 0 0 0 0 0 2.00 20.0 0 - - 0 - 0 0",
        "watch 1 all 5.00 0 5.00 0 0 0 0 0 0 0 0 5.00 0 0 0 - 0 75.0",
        "watch 2 all 5.00 0 5.00 0 0 0 0 0 0 0 0 5.00 0 0 0 - 0 75.0",
        "ecs 1 all 9.00 0 1.00 0 0 0 5.00 3.00 0 0 0 6.00 90.5 76.0 20.0 50.0 0.200 0",
        "ecs 2 all 9.00 0 1.00 0 0 0 5.00 3.00 0 0 0 6.00 90.5 76.0 20.0 50.0 0.100 0"]
    assert "unknown: in the kernel of a guest that does not say" in " ".join(text.split())
    host = table_rows(text, "what the host did about preemptions in critical sections")
    assert "ecs 2 40.0 95.0 75.0 5.00 1.00 3.00" in host
    waits = table_rows(text, "hackbench: waits for mutexes and rwsems")
    assert {"ecs 2 40.0 25.0 20.0", "watch 2 10.0 100 20.0"} < set(waits)
    assert "timed the wake-ups of waiters for mutexes and rwsems" in " ".join(text.split())
    assert "in windows of" not in text and "\u2026" not in text


def test_vms_that_differ_have_rows_of_their_own(tmp_path: Path) -> None:
    rows = table_rows(ecs_text(tmp_path, neighbour=()), "why vCPUs were preempted (1/s)")
    names = [" ".join(row.split()[:3]) for row in rows]
    assert [name for name in names if name.startswith(("ecs ", "stock 2"))] == [
        "stock 2 all", "ecs 1 all", "ecs 2 all", "ecs 2 first", "ecs 2 others"]


def test_a_kernel_that_does_not_park_timed_nothing(tmp_path: Path) -> None:
    text = " ".join(flush_text(tmp_path, None, observe=True).split())
    assert "timed their remote TLB flushes" in text and "wake-ups" not in text
    assert "why vCPUs were preempted" not in text and "waits for mutexes" not in text


def test_waits_for_a_cpu(tmp_path: Path) -> None:
    def counted(label: str, vms: int) -> Counted:
        own = ({12: (99, 297_000_000), 23: (1, 5_000_000_000)}, 5_000_000_000)
        return Counted(cpu_waits=(({2: (50, 150_000)}, 3500), own)[:vms] if label == "pmt" else ())

    made = Synthetic(("tas", "pmt"), vms=(1, 2), reps=2, boots=1, counted=counted,
                     value=lambda *_: 2.0)
    text = text_of(made, tmp_path)
    head, _, *rows = table_rows(text, "hackbench: waits for a CPU")
    assert head == "scheme VMs waits/s mean ms p99 ms longest ms longest of each VM ms"
    assert rows[:3] == ["pmt 1 25.0 0.00300 0.00350 0.00350 0.00350",
                        "pmt 2 75.0 35.3 4.10 5,000 0.00350 / 5,000", ""]
    said = "one that was not over when its run ended counts in the longest only"
    assert said in " ".join(text.split())


def test_a_host_that_does_not_tell_of_waits(tmp_path: Path) -> None:
    assert "waits for a CPU" not in ecs_text(tmp_path)


def test_windows(tmp_path: Path) -> None:
    def counted(label: str, vms: int) -> Counted:
        less = 0 if label == "tas" else 1000
        return Counted(windows=((50_000 - less, 50_000),) * 20, granted=2)

    made = Synthetic(("tas", "pmt"), vms=(2,), reps=2, boots=1, counted=counted, window_ms=100,
                     value=lambda *_: 2.5)
    text = text_of(made, tmp_path)
    title = "CPU time of the first VM less that of the others, in windows of 100 ms"
    assert [row for row in table_rows(text, title) if row.startswith(("tas", "pmt"))] == [
        "tas 2 20.0 2.00 0 0 0 0 0 4.00", "pmt 2 20.0 2.00 1.00 1.00 -20.0 -2.02 -2.02 4.00"]


@pytest.mark.parametrize(("observe", "words"), [
    ("tlb", "Observed: the guests timed their remote TLB flushes, which"),
    (True, "Observed: the guests counted their locks, which slows each acquisition, and timed"),
    ("locks", "Observed: the guests counted their locks, which slows each acquisition; compare"),
])
def test_what_was_observed_is_said(tmp_path: Path, observe: Observe, words: str) -> None:
    assert words in " ".join(flush_text(tmp_path, None, observe=observe).split())


def test_a_folder_from_before_flushes_were_timed(tmp_path: Path) -> None:
    text = flush_text(tmp_path, "shoot4u", lambda *_: Counted(), observe=True)
    assert "TLB" not in text and "counted their locks, which slows each acquisition; compare" in (
        " ".join(text.split()))


def test_an_unknown_counter_is_shown_as_unknown(tmp_path: Path) -> None:
    made = Synthetic(("tas", "pmt"), vms=(1,), reps=2, boots=1,
                     counted=lambda *_: Counted(guest={"lock_kicks": 5, "lock_halts": 0}))
    made.write(tmp_path)
    assert line(table.as_text(summarize(load(tmp_path))), "lock_kicks").split()[1:] == ["10", "10"]
    for file in tmp_path.glob("raw/*-r0/g0.after.txt"):
        file.unlink()
    text = table.as_text(summarize(load(tmp_path)))
    assert line(text, "lock_kicks").split()[1:] == ["-", "-"] and "spinning" not in text
