# SPDX-License-Identifier: GPL-2.0-only
"""From result directories to cells and summary.json."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core import stats
from lab.core.errors import UsageError
from lab.report.summary import Summary, as_json, load, summarize
from tests.lab.synthetic import HACKBENCH, THROUGHPUT, Counted, Synthetic, bucket


def summary_of(made: Synthetic, directory: Path) -> Summary:
    return summarize(load(made.write(directory)))


def fixed(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
    """Known figures: guest g gets (1 + g) times the cell's base."""
    base = {"a": 1.0, "b": 2.0}[scheme] * vms
    return base * (1 + guest) + 1e-6 * rng.random()


def test_beside_neighbours_the_first_guest_counts(tmp_path: Path) -> None:
    directory = Synthetic(("a",), reps=3, boots=1, value=fixed).write(tmp_path)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["workloads"][0]["neighbour"] = "true"
    (directory / "manifest.json").write_text(json.dumps(manifest))
    for output in directory.glob("raw/*/g1.out"):
        output.write_text("no figure\n")
    cell = summarize(load(directory)).cell("a", "hackbench", 3)
    assert cell.values == pytest.approx([3.0] * 3, abs=1e-5) and cell.fairness is None


def test_values_are_means_over_guests(tmp_path: Path) -> None:
    summary = summary_of(Synthetic(("a", "b"), reps=3, boots=1, value=fixed), tmp_path)
    cell = summary.cell("a", "hackbench", 3)
    assert cell.values == pytest.approx([3 * (1 + 2 + 3) / 3] * 3, abs=1e-5)
    assert cell.median == pytest.approx(6.0, abs=1e-5)
    assert cell.fairness == pytest.approx(3.0, abs=1e-4)
    assert summary.cell("a", "hackbench", 1).fairness is None


def test_which_host_was_first_does_not_show(tmp_path: Path) -> None:
    """Hosts side by side end their runs in an order that is this machine's."""
    directory = Synthetic(("a", "b"), reps=1, boots=3, value=fixed).write(tmp_path)
    before = as_json(summarize(load(directory)))
    for name in ("runs.jsonl", "boots.jsonl"):
        file = directory / name
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(sorted(lines, key=lambda line: -json.loads(line)["boot"])))
        assert file.read_text() != "".join(lines)
    assert as_json(summarize(load(directory))) == before


def test_rates_have_harmonic_means_and_divided_ideals(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), THROUGHPUT, reps=3, boots=1, value=fixed)
    summary = summary_of(made, tmp_path)
    cell = summary.cell("a", "dbench", 2)
    assert cell.values == pytest.approx([2 / (1 / 2 + 1 / 4)] * 3, abs=1e-5)
    assert cell.ideal == pytest.approx(0.5, abs=1e-5)


def test_baseline_and_ideal(tmp_path: Path) -> None:
    summary = summary_of(Synthetic(("a", "b"), reps=3, boots=1, value=fixed), tmp_path)
    base, other = summary.cell("a", "hackbench", 2), summary.cell("b", "hackbench", 2)
    assert (base.vs_baseline, base.significant, base.p_value) == (None, False, None)
    assert other.vs_baseline == pytest.approx(1.0, abs=1e-5)
    assert base.ideal == pytest.approx(2.0, abs=1e-5)
    assert other.ideal == pytest.approx(4.0, abs=1e-5)


def test_no_ideal_without_a_1_vm_cell(tmp_path: Path) -> None:
    summary = summary_of(Synthetic(("a", "b"), vms=(2, 3), value=fixed), tmp_path)
    assert all(cell.ideal is None for cell in summary.cells)


def test_stars(tmp_path: Path) -> None:
    summary = summary_of(Synthetic(), tmp_path)
    assert summary.comparisons == 6
    assert summary.cell("ticket", "hackbench", 3).significant
    few = summary_of(Synthetic(reps=2), tmp_path / "few")
    assert few.alikeness is not None
    assert few.smallest_n == stats.smallest_n(6, few.alikeness, 2) >= 7
    assert not any(cell.significant for cell in few.cells)


def test_same_scheme_twice_has_no_star(tmp_path: Path) -> None:
    for seed in range(10):
        made = Synthetic(("pmt", "pmt:2"), vms=(1, 3), reps=10, boots=1, seed=seed,
                         value=lambda _, vms, __, rng: vms * rng.lognormvariate(0, 0.1))
        summary = summary_of(made, tmp_path / str(seed))
        assert summary.cell("pmt:2", "hackbench", 3).vs_baseline is not None
        assert not any(cell.significant for cell in summary.cells)


def test_invalid_runs_are_counted_never_averaged(tmp_path: Path) -> None:
    clean = summary_of(Synthetic(), tmp_path / "clean")
    made = Synthetic(invalid={("pmt", 3): "g1: rcu stall"})
    summary = summary_of(made, tmp_path / "dirty")
    cell = summary.cell("pmt", "hackbench", 3)
    assert cell.invalid_runs == 1 and summary.valid
    assert cell.values == clean.cell("pmt", "hackbench", 3).values
    assert [run.reason for run in summary.results.invalid()] == ["g1: rcu stall"]


def test_a_missing_value_makes_it_invalid(tmp_path: Path) -> None:
    assert summary_of(Synthetic(), tmp_path / "whole").valid
    made = Synthetic(lost=frozenset({("ticket", 2)}))
    summary = summary_of(made, tmp_path / "lost")
    assert not summary.valid and len(summary.cell("ticket", "hackbench", 2).values) == 9


def test_no_run_at_all_is_a_table_without_values(tmp_path: Path) -> None:
    Synthetic().write(tmp_path)
    (tmp_path / "runs.jsonl").write_text("")
    summary = summarize(load(tmp_path))
    assert not summary.valid and len(summary.cells) == 9 and summary.comparisons == 0
    assert {cell.median for cell in summary.cells} == {None}


@pytest.mark.parametrize("content", [None, "", "Running in process mode\nTime: 0.000\n"])
def test_valid_run_without_figure_is_invalid(tmp_path: Path, content: str | None) -> None:
    Synthetic().write(tmp_path)
    victim = tmp_path / "raw" / "b0-pmt-2-r0" / "g1.out"
    if content is None:
        victim.unlink()
    else:
        victim.write_text(content)
    summary = summarize(load(tmp_path))
    (bad,) = summary.results.invalid()
    assert bad.reason.startswith("g1: ") and not summary.valid
    assert summary.cell("pmt", "hackbench", 2).invalid_runs == 1


def test_run_with_too_few_guests_is_invalid(tmp_path: Path) -> None:
    Synthetic().write(tmp_path)
    file = tmp_path / "runs.jsonl"
    lines = file.read_text().splitlines()
    record = json.loads(lines[2])
    assert record["vms"] == 3
    record["guests"].pop()
    file.write_text("\n".join([*lines[:2], json.dumps(record), *lines[3:]]) + "\n")
    (bad,) = load(tmp_path).invalid()
    assert bad.reason == "2 guests reported, not 3"


def test_foreign_runs_are_refused(tmp_path: Path) -> None:
    Synthetic(("pmt", "tas")).write(tmp_path)
    other = Synthetic().write(tmp_path / "other")
    (tmp_path / "manifest.json").write_text((other / "manifest.json").read_text())
    with pytest.raises(UsageError, match="run b0-tas-1-r0 is of tas under hackbench"):
        load(tmp_path)


def test_baseline_must_be_a_scheme(tmp_path: Path) -> None:
    Synthetic().write(tmp_path)
    file = tmp_path / "manifest.json"
    file.write_text(file.read_text().replace('"baseline": "pvq', '"baseline": "x'))
    with pytest.raises(UsageError, match="the baseline is none of its schemes"):
        load(tmp_path)


def test_summary_json(tmp_path: Path) -> None:
    document = json.loads(as_json(summary_of(Synthetic(), tmp_path)))
    assert {"experiment", "kernel", "base_version", "backend", "machine", "valid", "cells"} <= set(
        document)
    assert document["test"]["name"] == stats.TEST
    for cell in document["cells"]:
        assert {"scheme", "workload", "vms", "vcpus", "pcpus", "metric", "unit", "better",
                "values", "median", "mean", "ideal", "vs_baseline", "significant",
                "invalid_runs", "spread", "fairness"} <= set(cell)
        assert type(cell["median"]) is float and type(cell["significant"]) is bool
        assert (cell["metric"], cell["unit"]) == (HACKBENCH.metric, HACKBENCH.unit)


def observed_run(scheme: str, vms: int) -> Counted:
    """Every guest waits 0.3 s and spins 0.1 s for each VM."""
    return Counted(
        guest={"lock_acquisitions": 10, "lock_wait_ns": vms * 300_000_000,
               "lock_stolen_ns": vms * 150_000_000, "lock_halted_ns": vms * 50_000_000},
        waits={7: (vms, 100 * vms)},
        host={"spin_events": 9} if scheme == "b" else {},
        usec=(1_000_000, 3_000_000, 2_000_000)[:vms],
    )


def test_observed_cells(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), reps=2, boots=2, value=fixed, counted=observed_run,
                     invalid={("b", 2): "x"}, lost=frozenset({("b", 3)}))
    document = json.loads(as_json(summary_of(made, tmp_path)))
    cells = {(c["scheme"], c["vms"]): c["observed"] for c in document["cells"]}
    assert cells["b", 2] == {
        "spinning": pytest.approx(2 * 0.2 / 4),
        "counters": {"lock_acquisitions": 8 * 10, "lock_wait_ns": 8 * 600_000_000,
                     "lock_stolen_ns": 8 * 300_000_000, "lock_halted_ns": 8 * 100_000_000},
        "waits": [[7, 8 * 2, 8 * 200]],
        "host": {"spin_events": 4 * 9},
        "share_deviation": pytest.approx(0.5),
        "flushes": None, "preemptions": None, "windows": None, "cpu_waits": None,
        "window_costs": [],
    }
    assert cells["b", 3]["host"] == {"spin_events": 3 * 9}
    assert cells["a", 1]["share_deviation"] is None and cells["a", 1]["host"] == {}


def test_a_lost_snapshot_is_no_number(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), reps=3, boots=1, value=fixed, counted=observed_run)
    folder = made.write(tmp_path) / "raw" / "b0-a-2-r0"
    (folder / "g1.after.txt").unlink()
    (folder / "host.before.txt").write_bytes(b"\0\xff" * 99)
    cell = summarize(load(tmp_path)).cell("a", "hackbench", 2).observed
    assert cell and cell.spinning == pytest.approx(0.1) and cell.share_deviation is not None
    assert set(cell.counters.values()) == {None} and cell.waits == ()


def flushed(scheme: str, vms: int) -> Counted:
    """Each guest flushes once by interrupts and twice otherwise, for longer beside others."""
    return Counted(flushes={"ipi": [(900 * vms, 800)], scheme: [(50, 40), (70_000 * vms, 7)]})


def test_flush_times_of_all_guests_and_runs(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), reps=2, boots=2, value=fixed, counted=flushed, observe="tlb",
                     invalid={("b", 2): "x"})
    document = json.loads(as_json(summary_of(made, tmp_path)))
    cells = {(c["scheme"], c["vms"]): c["observed"]["flushes"] for c in document["cells"]}
    whole, b, ipi = cells["b", 2]
    assert [one["mechanism"] for one in (whole, b, ipi)] == ["all", "b", "ipi"]
    assert [one["calls"] for one in (whole, b, ipi)] == [24, 16, 8]
    assert b["wall"] == {"mean_ns": pytest.approx(70_025), "p50_ns": pytest.approx(50, abs=3),
                         "p90_ns": pytest.approx(140_000, rel=1 / 8),
                         "p99_ns": pytest.approx(140_000, rel=1 / 8), "max_ns": 140_000}
    assert b["ran"]["max_ns"] == 40 and b["ran"]["mean_ns"] == pytest.approx(23.5)
    assert ipi["buckets"] == [[bucket(800), 0, 8], [bucket(1800), 8, 0]]
    assert whole["wall"]["max_ns"] == 140_000 and whole["wall"]["p50_ns"] < 1920
    assert sorted({tuple(row) for row in [*b["buckets"], *ipi["buckets"]]}) == [
        tuple(row) for row in whole["buckets"]]


def test_flush_times_beside_neighbours_are_those_of_the_first_guest(tmp_path: Path) -> None:
    directory = Synthetic(("a",), reps=3, boots=1, value=fixed, counted=flushed,
                          observe="tlb").write(tmp_path)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["workloads"][0]["neighbour"] = "true"
    (directory / "manifest.json").write_text(json.dumps(manifest))
    for file in directory.glob("raw/*/g1.after.txt"):
        file.write_text(file.read_text().replace("calls 1", "calls 9000000"))
    seen = summarize(load(directory)).cell("a", "hackbench", 3).observed
    assert seen and seen.flushes and seen.flushes[0].calls == 3 * 3


def test_a_lost_snapshot_makes_flush_times_unknown(tmp_path: Path) -> None:
    directory = Synthetic(("a",), reps=3, boots=1, value=fixed, counted=flushed,
                          observe="tlb").write(tmp_path)
    (directory / "raw" / "b0-a-2-r0" / "g1.after.txt").unlink()
    summary = summarize(load(directory))
    seen = {vms: summary.cell("a", "hackbench", vms).observed for vms in (1, 2)}
    assert seen[2] and seen[2].flushes is None and seen[1] and seen[1].flushes


def preempted(scheme: str, vms: int) -> Counted:
    """The first VM is in sections and the others in user mode; `a` puts nothing off."""
    first = {"preempt_lock": 6, "extend_granted": 0}
    if scheme == "b":
        first = {"preempt_lock": 2, "extend_granted": 8, "extend_avoided": 6, "extend_ns": 400_000}
    names = dict.fromkeys(("preempt_irq", "preempt_lock", "preempt_reader", "preempt_rcu",
                           "preempt_mutex", "preempt_stuck", "preempt_waiter", "preempt_kernel",
                           "preempt_user", "preempt_unknown", "extend_granted", "extend_avoided",
                           "extend_expired", "extend_ns"), 0)
    own = (names | first, *(names | {"preempt_user": 4} for _ in range(vms - 1)))
    return Counted(host={name: sum(one[name] for one in own) for name in names}, vms=own,
                   usec=(1_000_000,) * vms)


def test_preemptions_of_all_vms_and_where_they_differ(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), vms=(1, 2), reps=2, boots=1, value=lambda *_: 2.0,
                     counted=preempted, observe="ecs", neighbour=())
    document = json.loads(as_json(summary_of(made, tmp_path)))
    cells = {(c["scheme"], c["vms"]): c["observed"]["preemptions"] for c in document["cells"]}
    kinds = dict.fromkeys(("irq", "lock", "reader", "rcu", "mutex", "stuck", "waiter", "kernel",
                           "user", "unknown"), 0)
    assert cells["a", 2] == [{"vms": "all", "per_s": 5, "kinds": kinds | {"lock": 3, "user": 2},
                              "avoided": 0, "avoided_with_stuck": 0, "unavoidable_per_s": 3,
                              "granted_per_s": 0, "us_per_grant": None,
                              "borrowed": 0, "unmarked": None}]
    assert cells["b", 2] == [
        {"vms": "all", "per_s": 3, "kinds": kinds | {"lock": 1, "user": 2}, "avoided": 0.75,
         "avoided_with_stuck": 0.75, "unavoidable_per_s": 1,
         "granted_per_s": 4, "us_per_grant": 50, "borrowed": 0.0002,
         "unmarked": None},
        {"vms": "first", "per_s": 1, "kinds": kinds | {"lock": 1}, "avoided": 0.75,
         "avoided_with_stuck": 0.75, "unavoidable_per_s": 1,
         "granted_per_s": 4, "us_per_grant": 50, "borrowed": 0.0004,
         "unmarked": None},
        {"vms": "others", "per_s": 2, "kinds": kinds | {"user": 2}, "avoided": None,
         "avoided_with_stuck": None, "unavoidable_per_s": 0,
         "granted_per_s": 0, "us_per_grant": None, "borrowed": 0, "unmarked": None}]
    assert [one["vms"] for one in cells["b", 1]] == ["all"]


def test_vms_with_other_commands_are_told_apart_too(tmp_path: Path) -> None:
    made = Synthetic(("a",), replace(HACKBENCH, neighbour="true"), vms=(2,), reps=1, boots=1,
                     counted=preempted)
    seen = summary_of(made, tmp_path).cells[0].observed
    assert seen and seen.preemptions
    assert [one.vms for one in seen.preemptions] == ["all", "first", "others"]


def waited(scheme: str, vms: int) -> Counted:
    """Each VM waits 99 times for 3 ms; the last one under `b` once for 5 s as well."""
    often = {12: (99, 297_000_000)}
    starved = (often | {23: (1, 5_000_000_000)}, 5_000_000_000) if scheme == "b" else (often, 10**7)
    return Counted(cpu_waits=(*((often, 4_000_000),) * (vms - 1), starved))


def test_waits_for_a_cpu(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), vms=(1, 2), reps=2, boots=2, value=lambda *_: 2.0, counted=waited)
    document = json.loads(as_json(summary_of(made, tmp_path)))
    cells = {(c["scheme"], c["vms"]): c["observed"]["cpu_waits"] for c in document["cells"]}
    assert cells["a", 2] == {"per_s": 99, "mean_ms": 3, "p99_ms": 4.096, "longest_ms": 4.096,
                             "vms_longest_ms": [4, 4.096]}
    assert cells["b", 1] == {"per_s": 50, "mean_ms": pytest.approx(52.97), "p99_ms": 4.096,
                             "longest_ms": 5000, "vms_longest_ms": [5000]}
    assert cells["b", 2]["vms_longest_ms"] == [4, 5000]


@pytest.mark.parametrize(("when", "old", "new"), [
    ("after", "longest 4000000\n", ""), ("before", "==> vm/g0/cpu_waits <==", "==> x <=="),
    ("after", "12 100 ", "12 0 ")])
def test_waits_that_one_run_does_not_tell(tmp_path: Path, when: str, old: str, new: str) -> None:
    directory = Synthetic(("a",), vms=(1, 2), reps=3, boots=1, counted=waited).write(tmp_path)
    file = directory / "raw" / "b0-a-2-r1" / f"host.{when}.txt"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    summary = summarize(load(directory))
    seen = {vms: summary.cell("a", "hackbench", vms).observed for vms in (1, 2)}
    assert seen[2] and seen[2].cpu_waits is None and seen[1] and seen[1].cpu_waits


def windowed(scheme: str, vms: int) -> Counted:
    """5 windows, in each of which the first VM gets 2 ms more."""
    return Counted(windows=((52_000, *[50_000] * (vms - 1)),) * 5, granted=3)


@pytest.mark.parametrize("observe", [True, False])
def test_windows(tmp_path: Path, observe: bool) -> None:
    made = Synthetic(("a",), vms=(1, 2), reps=2, boots=1, value=lambda *_: 2.0, counted=windowed,
                     window_ms=100, observe=observe)
    document = json.loads(as_json(summary_of(made, tmp_path)))
    seen = {cell["vms"]: cell["observed"]["windows"] for cell in document["cells"]}
    assert seen[1] is None
    assert seen[2] == {
        "number": 5, "seconds": pytest.approx(0.5), "mean_ms": pytest.approx(2),
        "most_ms": pytest.approx(2), "end_ms": pytest.approx(10), "end": pytest.approx(10 / 255),
        "worst": pytest.approx(10 / 255), "granted": 6}


def test_windows_are_those_in_which_all_were_measured(tmp_path: Path) -> None:
    made = Synthetic(("a",), vms=(2,), reps=1, boots=1, counted=windowed, window_ms=100,
                     value=lambda scheme, vms, guest, rng: 0.35 if guest else 0.9)
    seen = summary_of(made, tmp_path).cells[0].observed
    assert seen and seen.windows and seen.windows.number == 3


def test_observed_is_null_unless_it_was(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), reps=1, boots=1, value=fixed, counted=observed_run)
    made.write(tmp_path)
    file = tmp_path / "manifest.json"
    manifest = json.loads(file.read_text())
    assert manifest.pop("observe") is True
    file.write_text(json.dumps(manifest))
    document = json.loads(as_json(summarize(load(tmp_path))))
    assert [cell["observed"] for cell in document["cells"]] == [None] * 6
