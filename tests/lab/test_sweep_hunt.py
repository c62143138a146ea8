# SPDX-License-Identifier: GPL-2.0-only
"""A sweep that hunts for faults: many seeds from one boot, and what is said of what failed."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from distributed import Client

from lab.cli import sweep
from lab.core.errors import UsageError
from lab.core.progress import Silent
from lab.report import hunted, kept, swept, swept_page
from lab.run import records
from lab.sweep import again, collect, grid, keep, page
from lab.sweep.campaign import Campaign, Prepared
from lab.sweep.model import Unit
from lab.sweep.store import Store
from tests.lab import sweeping
from tests.lab.sweeping import BUILD

HUNT = """
about = "a hunt"
schemes = ["guest-all", "guest-all-pv"]
workloads = ["races-locks", "races-wake"]
vms = [2]
vcpus = [3]
pcpus = [4]
seeds = 10
variant = "test"

[hunt]
seeds_a_boot = 4
"""
HUNG = "guest s0-1 did not end its run within 20 s"


def campaign(folder: Path, text: str = HUNT, **options: Any) -> Campaign:
    sweep = sweeping.load(folder, text, "hunt")
    return Campaign(sweep, Prepared(BUILD, (), {}), Store(folder / "out"),
                    cast("Client", sweeping.Client()), Silent(),
                    **{"play": sweeping.play, **options})


def tasks(one: Campaign) -> list[dict[str, Any]]:
    return cast("sweeping.Client", one.client).tasks


def test_seeds_share_a_boot(tmp_path: Path) -> None:
    """10 seeds, 4 of a boot, of 2 schemes with guests of their own."""
    one = campaign(tmp_path)
    units = grid.units(grid.runs(one.sweep, BUILD), (), one.sweep.per_boot)
    assert [unit.seeds for unit in units] == [[1, 2, 3, 4]] * 2 + [[5, 6, 7, 8]] * 2 + [[9, 10]] * 2
    assert all(len({run.setting.label for run in unit.runs}) == 1 for unit in units)
    played = [grid.experiment(one.sweep, unit) for unit in units]
    assert [(each.boots, each.max_repeats) for each in played] == [(4, 0)] * 4 + [(2, 0)] * 2
    one.make(grid.runs(one.sweep, BUILD))
    assert [(task["seed"], task["snapshot"]) for task in tasks(one)] == [
        (1, True)] * 2 + [(5, True)] * 2 + [(9, True)] * 2
    rows = one.store.rows.values()
    assert len(rows) == 40 and all(row.host_seed == row.seed for row in rows)


def test_how_many_share_a_boot_is_in_the_key(tmp_path: Path) -> None:
    run = sweeping.runs(tmp_path, HUNT)[0]
    assert run.of_boot == 4 and run.key != replace(run, of_boot=5).key
    assert replace(run, of_boot=0).key == sweeping.runs(
        tmp_path, HUNT[:HUNT.index("[hunt]")])[0].key


def test_a_unit_that_lacks_a_run_is_made_as_a_whole(tmp_path: Path) -> None:
    one = campaign(tmp_path)
    runs = grid.runs(one.sweep, BUILD)
    lost = next(run for run in runs if run.seed == 6)
    made = {run.key for run in runs} - {lost.key}
    units = grid.units(runs, made, one.sweep.per_boot)
    assert [unit.seeds for unit in units] == [[5, 6, 7, 8]]
    assert {run.setting.label for run in units[0].runs} == {lost.setting.label}
    assert grid.units(runs, {run.key for run in runs}, one.sweep.per_boot) == []


@pytest.mark.parametrize(("change", "message"), [
    ("seeds_a_boot = 0", "seeds_a_boot is at least 1"),
    ("seeds_a_boot = 4\n[host]\nextend_us = [1, 2]", "vary takes values"),
])
def test_what_is_no_hunt(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sweeping.load(tmp_path, HUNT.replace("seeds_a_boot = 4", change))
    with pytest.raises(UsageError, match="varies nothing but its seeds"):
        sweeping.load(tmp_path, 'vary = ["guest-all"]\n' + HUNT + "[host]\nextend_us = [50, 60]")


def played(folder: Path, fails: dict[tuple[str, int], str]) -> Campaign:
    """A hunt whose runs of a workload and seed fail so."""
    def play(task: dict[str, Any]) -> dict[str, Any]:
        answer = sweeping.play(task)
        for one in answer["runs"]:
            if reason := fails.get((one["workload"], one["seed"])):
                one |= {"valid": False, "reason": reason, "figures": []}
        return answer

    one = campaign(folder, play=play)
    one.make(grid.runs(one.sweep, BUILD))
    return one


def test_what_it_found(tmp_path: Path) -> None:
    splat = "the console of guest s0-0 says: BUG: sleeping function called in /tmp/x/y.c"
    one = played(tmp_path, {("races-wake", 7): HUNG, ("races-locks", 2): splat})
    found = keep.of(one.sweep, tmp_path / "out", tmp_path / "hunt.toml")
    assert found.hunted and found.hunted.seeds == 10 and not found.ranking
    assert found.hunted.runs == {f"{scheme}, {load}": 10 for scheme in (
        "guest-all", "guest-all-pv") for load in ("races-locks", "races-wake")}
    assert [(of.kind, of.place, of.seed) for of in found.hunted.findings] == [
        ("splat", "guest-all, races-locks", 2), ("hang", "guest-all, races-wake", 7),
        ("splat", "guest-all-pv, races-locks", 2), ("hang", "guest-all-pv, races-wake", 7)]
    assert swept_page.said(found) == ["4 of 40 runs showed a fault, by 2 of 10 seeds."]
    assert hunted.grid(found).rows[0] == (
        "guest-all, races-locks", ["10", "1", "0", "0", "0"])
    unit = found.hunted.findings[1].unit
    line = f"hang, guest-all, races-wake, seed 7, unit {unit}: {HUNG}."
    assert hunted.shown(found)[1] == line and "--unit UNIT --out DIR" in hunted.shown(found)[-1]
    block = swept_page.block("sweep-hunt", found)
    assert block.startswith("**4 of 40 runs showed a fault") and "/tmp/x" not in block
    assert unit in " ".join(block.split()) and "![" not in block
    assert again.find(one.sweep, BUILD, unit).seeds == [5, 6, 7, 8]


def test_nothing_found(tmp_path: Path) -> None:
    one = played(tmp_path, {})
    told = page.make(one.sweep, tmp_path / "out", tmp_path / "hunt.toml")
    assert "40 runs of 10 seeds showed no fault." in told
    assert "fewer than 0.26 of its runs, with 95 % confidence" in told
    html = (tmp_path / "out/sweep.html").read_text()
    assert "The best settings" not in html and "guest-all-pv, races-wake" in html
    file = tmp_path / "out" / swept.FILE
    assert swept.current(file).hunted
    picture = kept.KINDS["sweep"].picture
    assert picture and picture(file) is None


def test_a_run_that_never_began_is_no_finding(tmp_path: Path) -> None:
    one = campaign(tmp_path)
    unit = grid.units(grid.runs(one.sweep, BUILD), (), 24)[0]
    one.store.add(unit.key, collect.failed(unit, "its worker died", "c"))
    found = keep.of(one.sweep, tmp_path / "out", tmp_path / "hunt.toml")
    assert found.hunted and found.hunted.findings == ()
    assert swept_page.said(found) == ["No run of the hunt came about."]
    assert "8 of 8 runs (8: its worker died)" in " ".join(swept_page.alerts(found))


@pytest.mark.parametrize("good", [True, False])
def test_a_unit_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: bool) -> None:
    """Its status says how the runs went; results that are there already are not touched."""
    (tmp_path / "hunt.toml").write_text(HUNT)
    asked: list[Any] = []

    def play(*given: Any) -> bool:
        asked.append(given)
        return good

    monkeypatch.setattr(again, "play", play)
    words = [str(tmp_path / "hunt.toml"), "--unit", "ab12", "--out", str(tmp_path / "again")]
    done = CliRunner().invoke(sweep.sweep, words)
    assert done.exit_code == (0 if good else 1), done.output
    assert ("All runs of the unit are valid" in done.output) is good
    assert [given[1:3] for given in asked] == [("ab12", tmp_path / "again")]
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / records.MANIFEST).write_text("theirs")
    refused = CliRunner().invoke(sweep.sweep, words)
    assert isinstance(refused.exception, UsageError) and "has results" in str(refused.exception)
    assert len(asked) == 1 and (tmp_path / "again" / records.MANIFEST).read_text() == "theirs"


def test_a_unit_by_its_key(tmp_path: Path) -> None:
    one = campaign(tmp_path)
    units = grid.units(grid.runs(one.sweep, BUILD), (), one.sweep.per_boot)
    assert isinstance(units[1], Unit) and again.find(one.sweep, BUILD, units[1].key) == units[1]
    with pytest.raises(UsageError, match="6 units of hunt begin with : give more"):
        again.find(one.sweep, BUILD, "")
    with pytest.raises(UsageError, match=r"no unit 00zz\. Keys are of kernel"):
        again.find(one.sweep, BUILD, "00zz")
