# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps without a cluster: from the file to units, rows in the store, and what rows say."""

import errno
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from lab.core import files, paths
from lab.core.errors import LabError, UsageError
from lab.core.progress import Silent
from lab.plan.sweeps import Sweep
from lab.sweep import analysis, artifacts, collect, grid, page, search, worker
from lab.sweep.model import Run, Unit
from lab.sweep.store import Row, Store
from tests.lab import sweeping
from tests.lab.sweeping import BUILD, FILE, HOST

FILE_HERE = Path("lab/sweeps/limits.toml")


def task(sweep: Sweep, unit: Unit) -> dict[str, Any]:
    return {"unit": unit.key, "seed": unit.runs[0].seed,
            "experiment": asdict(grid.experiment(sweep, unit))}


@dataclass
class Fake:
    """Makes runs at once, here."""

    sweep: Sweep
    store: Store
    progress: Any = Silent()  # noqa: RUF009
    played: int = 0

    @property
    def prepared(self) -> Any:
        return replace(self, sweep=self.sweep)

    @property
    def build(self) -> Any:
        return BUILD

    def make(self, runs: Any, name: str = "") -> list[Row]:
        for unit in grid.units(runs, self.store.made(), self.sweep.per_boot):
            self.played += 1
            self.store.add(unit.key, collect.rows(unit, sweeping.play(task(self.sweep, unit)), "c"))
        return collect.chosen(runs, self.store.rows)


def test_the_grid_is_all_of_it_once(tmp_path: Path) -> None:
    runs = sweeping.runs(tmp_path)
    assert len(runs) == (1 + 4) * 2 * 2 * 3 == len({run.key for run in runs})
    labels = {run.setting.label for run in runs}
    assert "pvqspinlock" in labels and "ecs-count extend_us=250 extend_cap=100" in labels
    one = next(run for run in runs if run.setting.label.endswith("us=250 extend_cap=100"))
    assert one.setting.scheme.host == {"extend": "ecs", "extend_us": "250", "extend_cap": "100"}


@pytest.mark.parametrize("change", [
    {"seed": 9}, {"vms": 3}, {"machine": "zen4:exit*2"}, {"vcpus": 8}, {"guest_mem": 300},
    {"build": replace(BUILD, kernel="other")}, {"build": replace(BUILD, images="other")},
    {"build": replace(BUILD, emulator="other")}])
def test_the_key_has_all_that_a_result_follows_from(tmp_path: Path, change: Any) -> None:
    run = sweeping.runs(tmp_path)[0]
    assert replace(run, **change).key != run.key
    assert replace(run, setting=replace(run.setting, scheme=replace(
        run.setting.scheme, about="other words"))).key == run.key


@pytest.mark.parametrize("change", [
    {"command": "true"}, {"metric": "time of something else"}, {"unit": "ms"},
    {"better": "higher"}, {"timeout_s": 7.0}])
def test_the_key_has_what_a_figure_means(tmp_path: Path, change: Any) -> None:
    run = sweeping.runs(tmp_path)[0]
    assert replace(run, workload=replace(run.workload, **change)).key != run.key
    other = replace(run.workload, name="other", about="other words")
    assert replace(run, workload=other).key == run.key


def test_keys_of_a_file_are_the_same_in_another_process(tmp_path: Path) -> None:
    again = [run.key for run in sweeping.runs(tmp_path)]
    assert again == [run.key for run in sweeping.runs(tmp_path)]


def test_a_boot_has_settings_of_the_same_guests(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path)
    runs = grid.runs(sweep, BUILD)
    units = grid.units(runs, (), 24)
    assert sorted(run.key for unit in units for run in unit.runs) == sorted(r.key for r in runs)
    assert [len(unit.runs) for unit in units] == [4, 16] * 3
    for unit in units:
        made = grid.experiment(sweep, unit)
        assert len(made.schemes) * len(made.workloads) * len(made.vms) == len(unit.runs)
        assert made.boots == made.reps == 1
        assert {made.owner(scheme.label) for scheme in made.schemes} == {"s0"}
    assert [len(unit.runs) for unit in grid.units(runs, (), 8)] == [4, 8, 8] * 3


def test_own_parameters_of_a_vm_get_guests_of_their_own(tmp_path: Path) -> None:
    own = FILE + '[host]\n"vm.extend" = ["ecs", "off"]\n'
    assert [len(unit.runs) for unit in grid.units(sweeping.runs(tmp_path, own), (), 99)] == [4] * 9


def test_all_numbers_of_a_machine_model_at_once(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path, FILE + 'machines = ["icelake", "zen4:*"]\n' + HOST)
    assert sweep.machines[:3] == ("icelake", "zen4", "zen4:instruction*2")
    assert "zen4:exit*0.5" in sweep.machines and len(sweep.machines) == 13


def test_only_what_is_missing_is_made(tmp_path: Path) -> None:
    """Any hole is filled with units that are whole experiments, and without another run."""
    sweep = sweeping.load(tmp_path)
    runs = grid.runs(sweep, BUILD)
    for step in (2, 3, 5, 7):
        made = {run.key for run in runs[::step]}
        units = grid.units(runs, made, 24)
        wanted = [run.key for run in runs if run.key not in made]
        assert sorted(run.key for unit in units for run in unit.runs) == sorted(wanted)
        for unit in units:
            planned = grid.experiment(sweep, unit)
            assert len(planned.schemes) * len(planned.workloads) * len(planned.vms) == len(
                unit.runs)
    assert grid.units(runs, {run.key for run in runs}, 24) == []


@pytest.mark.parametrize(("text", "message"), [
    (FILE, "vary takes values"),
    (FILE + "[host]\nextend_us = []\n", "must name at least one"),
    (FILE + "[host]\nextend_us = [5]\n", "extend_us"),
    (FILE.replace('vary = ["ecs-count"]', 'vary = ["pmt"]') + HOST, "vary names pmt"),
    (FILE + 'machines = ["zen9"]\n' + HOST, "zen9"),
    (FILE + "colour = 1\n" + HOST, "unknown key 'colour'"),
    (FILE + '[search]\ntrials = 2\nheld_out = ["dedup-short"]\n'
     "[search.host.extend_us]\nlow = 100\nhigh = 900\n", "held out and seen"),
    (FILE.replace('"pvqspinlock", "ecs', '"ecs-count-2ms", "ecs')
     + "[host]\nextend_us = [1000, 2000]\n", "settings ecs-count-2ms and ecs-count extend_us=2000"),
    (FILE + 'machines = ["zen4", "zen4:exit*1"]\n' + HOST, "machines zen4 and zen4:exit"),
])
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sweeping.load(tmp_path, text)


@pytest.mark.parametrize("file", sorted((paths.LAB / "sweeps").glob("*.toml")),
                         ids=lambda file: file.stem)
def test_the_sweeps_here_can_be_planned(file: Path) -> None:
    sweep = grid.load(file)
    for unit in grid.units(grid.runs(sweep, BUILD), (), sweep.per_boot):
        grid.experiment(sweep, unit)


# The store

def made(tmp_path: Path, text: str = FILE + HOST) -> tuple[Sweep, Store, list[Run]]:
    sweep = sweeping.load(tmp_path, text)
    store = Store(tmp_path / "out")
    runs = grid.runs(sweep, BUILD)
    Fake(sweep, store).make(runs)
    return sweep, store, runs


def test_rows_are_there_again(tmp_path: Path) -> None:
    _, store, runs = made(tmp_path)
    again = Store(tmp_path / "out")
    assert again.rows == store.rows and {*again.rows} == {run.key for run in runs}
    assert again.made() == {run.key for run in runs}
    assert again.core_hours() == pytest.approx(6 * 3.6 / 3600)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, store, runs = made(tmp_path)
    unit = grid.units([replace(run, seed=9) for run in runs], (), 24)[0]

    def full(out: BinaryIO, data: bytes) -> None:
        out.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    rows = collect.rows(unit, {"runs": [], "core_s": 1, "wall_s": 1, "worker": ""}, "c")
    monkeypatch.setattr(files, "_out", full)
    with pytest.raises(OSError, match="No space") as refused:
        store.add(unit.key, rows)
    assert str(tmp_path / "out/parts") in refused.value.filename, "a full disk has a name"
    monkeypatch.undo()
    assert {*Store(tmp_path / "out").rows} == {run.key for run in runs}
    store.add(unit.key, rows)
    assert len(Store(tmp_path / "out").rows) == len(runs) + len(unit.runs)


def test_a_part_that_was_never_finished_is_no_part(tmp_path: Path) -> None:
    _, _, runs = made(tmp_path)
    torn = tmp_path / "out/parts/.1-x.parquet"
    torn.write_bytes(b"PAR1")
    assert len(Store(tmp_path / "out").rows) == len(runs) and torn.exists(), "a sweep writes it"
    assert len(Store(tmp_path / "out", alone=True).rows) == len(runs) and not torn.exists()
    (tmp_path / "out/parts/1-x.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="damaged"):
        Store(tmp_path / "out")


def test_what_failed_is_made_again_when_asked(tmp_path: Path) -> None:
    sweep, store, runs = made(tmp_path)
    unit = grid.units([replace(run, seed=9) for run in runs], (), 24)[0]
    store.add(unit.key, collect.failed(unit, "its worker died", "c"))
    bad = {run.key for run in unit.runs}
    assert bad <= store.made() and not bad & store.made(again=True)
    assert all(store.rows[key].reason == "its worker died" for key in bad)
    store.add(unit.key, collect.rows(unit, sweeping.play(task(sweep, unit)), "c"))
    assert bad <= Store(tmp_path / "out").made(again=True)


# What workers get

def test_an_artifact_arrives_whole_or_not_at_all(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "firmware"
    (source / "deep").mkdir(parents=True)
    (source / "deep/bios").write_bytes(b"x" * 700)
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o755)
    one = artifacts.artifact("firmware", source)
    assert one == artifacts.artifact("firmware", source)
    assert worker.place(asdict(one)) == str(source)  # the same file system
    monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(artifacts, "CHUNK", 512)
    told = {**asdict(one), "path": "/nowhere"}
    assert worker.place(told) == ""

    def damaged(*args: Any) -> str:
        return worker.receive(args[0], args[1].replace(b"x", b"y"), *args[2:])

    with pytest.raises(LabError, match="damaged"):
        artifacts.send(told, {worker.INSIDE: source}, damaged)
    assert worker.place(told) == ""
    artifacts.send(told, {worker.INSIDE: source}, worker.receive)
    there = Path(worker.place(told))
    assert (there / "deep/bios").read_bytes() == b"x" * 700
    assert (there / "run").stat().st_mode & 0o100 and not any((tmp_path / "cache/tmp").iterdir())


def test_folders_that_are_edited_stay_as_they_were(tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PVSYNC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/a.py").write_text("1")
    one = artifacts.frozen("lab", {"lab": tmp_path / "lab"})
    (tmp_path / "lab/a.py").write_text("2")
    assert (Path(worker.place(asdict(one))) / "lab/a.py").read_text() == "1"
    assert artifacts.frozen("lab", {"lab": tmp_path / "lab"}).digest != one.digest


# What rows say

def test_the_best_setting_is_found(tmp_path: Path) -> None:
    sweep, store, _ = made(tmp_path)
    rows = analysis.of_sweep(sweep, store.rows.values())
    ranked = analysis.ranking(rows, "pvqspinlock")
    assert ranked[0].values[0] == "250" and ranked[0].worth == pytest.approx(1.25 / 1.5)
    assert ranked[0].interval == pytest.approx((1.25 / 1.5,) * 2) and ranked[0].runs == 12
    assert next(one for one in ranked if one.setting == "pvqspinlock").worth == 1
    flat = analysis.flatness(ranked, analysis.values(rows, "pvqspinlock"), None)
    assert "2 of 4 settings are within 3% of the best" in flat[0]
    assert "1.20 times its time" in flat[0]
    assert flat[1] == "1 of the 3 others are not told apart from the best."
    assert "extend_cap: over all else, 100, 200 are within 3% of the best value" in flat[2]
    assert flat[3] == ("extend_us: over all else, 250 is within 3% of the best value, 250; 1000"
                       " worse.")


def test_many_values_of_a_search_are_shown_in_spans() -> None:
    played = [("extend_us", str(value)) for value in range(1000, 0, -50)]
    words = [("window", word) for word in "abcdefghijkl"]
    shown = analysis.spans([*played, ("extend_cap", "9"), ("extend_cap", "100"), *words])
    assert shown["extend_us", "50"] == shown["extend_us", "250"] == "50 to 250"
    assert shown["extend_us", "1000"] == "800 to 1000"
    labels = sorted({shown[one] for one in played}, key=analysis.natural)
    assert labels == ["50 to 250", "300 to 500", "550 to 750", "800 to 1000"]
    assert shown["extend_cap", "9"] == "9" and shown["window", "a"] == "a"


def test_a_run_without_a_figure_is_missing_and_not_good(tmp_path: Path) -> None:
    sweep, store, runs = made(tmp_path)
    bad = next(run for run in runs if run.setting.values)
    store.rows[bad.key] = replace(store.rows[bad.key], figure=None, valid=False, reason="it hung")
    ranked = analysis.ranking(analysis.of_sweep(sweep, store.rows.values()), "pvqspinlock")
    assert next(one for one in ranked if one.setting == bad.setting.label).missing == 1


def test_rates_are_the_other_way_round(tmp_path: Path) -> None:
    _, store, _ = made(tmp_path)
    rows = [replace(row, better="higher") for row in store.rows.values()]
    ranked = analysis.ranking(rows, "pvqspinlock")
    assert ranked[-1].values[0] == "250" and ranked[-1].worth == pytest.approx(1.5 / 1.25)


def test_the_interval_is_as_wide_as_seeds_differ() -> None:
    def pairs(*values: float) -> dict[search.Pair, float]:
        return {("w", 1, 1, 1, "zen4", seed): value for seed, value in enumerate(values)}

    assert analysis.interval(pairs(1.0, 2.0)) is None
    assert analysis.interval(pairs(0.9, 0.9, 0.9)) == pytest.approx((0.9, 0.9))
    low, high = analysis.interval(pairs(0.5, 1.0, 2.0)) or (0, 0)
    assert low * high == pytest.approx(1), "around the geometric mean"
    students = 4.303 * math.log(2) / 3 ** 0.5
    assert math.log(high) == pytest.approx(students, rel=0.05)
    twice = {(name, *pair[1:]): value for pair, value in pairs(0.5, 1.0, 2.0).items()
             for name in ("w", "v")}
    assert analysis.interval(twice) == pytest.approx((low, high)), "workloads are no more seeds"


def test_the_page(tmp_path: Path) -> None:
    sweep, _, _ = made(tmp_path)
    said = page.make(sweep, tmp_path / "out", FILE_HERE)
    text = (tmp_path / "out" / page.FILE).read_text()
    assert "within 3% of the best" in said and "extend_us=250" in said
    assert text.count("<svg") == 2 + 2 and "time over pvqspinlock" in text
    assert "VMs (4 vCPUs each, 4 pCPUs)" in text and "hackbench-short (s)" in text
    assert "core-hours" in text and BUILD.kernel in text
    with pytest.raises(UsageError, match="no run of a sweep"):
        page.make(sweep, tmp_path / "empty", FILE_HERE)


def test_rows_of_another_kernel_are_left_out(tmp_path: Path) -> None:
    sweep, store, runs = made(tmp_path)
    unit = grid.units([replace(run, build=replace(BUILD, kernel="newer")) for run in runs], (),
                      24)[0]
    store.add(unit.key, collect.rows(unit, sweeping.play(task(sweep, unit)), "c"))
    page.make(sweep, tmp_path / "out", FILE_HERE)
    text = (tmp_path / "out" / page.FILE).read_text()
    assert f"{len(runs)}, left out" in text and "newer" in text


def test_rows_of_several_commits_are_warned_of(tmp_path: Path) -> None:
    """A row that was made again under another key takes the place of the older one."""
    sweep, store, runs = made(tmp_path)
    assert "source commits" not in page.make(sweep, tmp_path / "out", FILE_HERE)
    row = store.rows[runs[0].key]
    store.add("later", [replace(row, key="other", commit="newer", made=row.made + 9)])
    warning = "Rows of 2 source commits are together here: c, newer."
    assert warning in page.make(sweep, tmp_path / "out", FILE_HERE)
    text = (tmp_path / "out" / page.FILE).read_text()
    assert warning in text and "1, left out" in text


def test_rows_carry_the_names_that_were_asked_for(tmp_path: Path) -> None:
    _, store, runs = made(tmp_path)
    run = runs[-1]
    asked = replace(run, setting=replace(run.setting, values=()),
                    workload=replace(run.workload, name="same-under-another-name"))
    assert asked.key == run.key
    row, = collect.chosen([asked], store.rows)
    assert (row.setting, row.names, row.values) == ("ecs-count", (), ())
    assert row.workload == "same-under-another-name"
    assert row.figure == store.rows[run.key].figure
