# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps in docs/results: what is kept of made-up rows, what is said of it, and what is refused."""

import json
import random
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib import figure as figures

from lab.core import paths
from lab.core.errors import UsageError
from lab.machine import provenance
from lab.report import drawing, published, swept, swept_page, swept_pictures
from lab.report.swept import Swept
from lab.sweep import collect, grid, keep, page, search
from lab.sweep.store import Store
from tests.lab import sweeping
from tests.lab.sweeping import BUILD, HOST
from tests.lab.test_sweep import FILE_HERE, Fake
from tests.lab.test_sweep_search import SEARCH

FILE = sweeping.FILE.replace('"ecs-count"]\nvary', '"placebo", "ecs-count"]\nvary').replace(
    "seeds = 3", "seeds = 8")
DEFAULT = "[default]\nextend_us = 1000\nextend_cap = 200\n"
Figure = Callable[[dict[str, Any], str, int, int], float]


def noise(share: float) -> Figure:
    """Figures of no difference: each run is off by up to this share."""
    rng = random.Random(1)
    return lambda _scheme, _workload, vms, _seed: vms * (1 + share * rng.uniform(-1, 1))


def made(folder: Path, text: str = FILE + HOST + DEFAULT) -> Path:
    """The directory of a sweep with all its rows, and with what is kept of them."""
    sweep = sweeping.load(folder, text)
    out = folder / "out"
    Fake(sweep, Store(out)).make(grid.runs(sweep, BUILD))
    keep.write(keep.of(sweep, out, FILE_HERE), out)
    return out


def found(folder: Path, text: str = FILE + HOST + DEFAULT) -> Swept:
    return swept.read(made(folder, text) / swept.FILE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where to publish results of commits that are known."""
    monkeypatch.setattr(provenance, "is_known", lambda commit: commit == "c")
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


# What is said

def test_better_than_the_default(tmp_path: Path) -> None:
    head, rank, beside, best, placebo = swept_page.said(found(tmp_path))
    assert head == ("Beside the default of the project, ecs-count extend_us=1000 extend_cap=200,"
                    " of 3 other settings 2 are shown to be better, and none worse.")
    assert rank.startswith("The default has rank 3 of 4: it takes 1.200 times the time of the best,"
                           " extend_us=250 extend_cap=")
    assert beside == ("Beside pvqspinlock, of 4 other settings 2 are shown to be better, and none"
                      " worse.")
    assert "takes 0.833 of pvqspinlock's time [0.833, 0.833]." in best
    assert placebo == ("The placebo changes nothing: placebo takes 1.000 of pvqspinlock's time"
                       " [1.000, 1.000]. No difference below 0.0% counts.")


def test_nothing_can_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of many settings is before the default by chance, and is not said to be better."""
    monkeypatch.setattr(sweeping, "figure", noise(0.1))
    few = FILE.replace("seeds = 8", "seeds = 5").replace("vms = [1, 2]", "vms = [2]")
    kept = found(tmp_path, few +
                 "[host]\nextend_us = [250, 500, 1000, 2000]\nextend_cap = [50, 100, 200, 400]\n"
                 + DEFAULT)
    head, rank, *others = swept_page.said(kept)
    assert head.startswith(f"{swept_page.NOTHING} Beside the default of the project, ecs-count"
                           " extend_us=1000 extend_cap=200, none of 15 other settings is shown to"
                           " be better or worse.")
    assert rank.endswith("; no difference is shown.") and " times the time of the best" in rank
    assert "none of 16 other settings is shown to be better or worse" in others[0]
    assert others[1].endswith("; no difference is shown.")
    assert any(one.interval and not one.interval[0] < 1 < one.interval[1]
               for one in kept.versus[0].rows if one.worth != 1), "by itself one does"
    assert "15 of the 15 others are not told apart from the best." in kept.flatness


def test_no_difference_smaller_than_the_placebos_is_claimed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 25 % off, settings 20 %, each the same with every seed."""
    real = sweeping.figure
    monkeypatch.setattr(sweeping, "figure", lambda scheme, *run: real(scheme, *run) * (
        1.25 if any("placebo" in one for one in scheme["guest"]) else 1))
    kept = found(tmp_path)
    head, *_, placebo = swept_page.said(kept)
    assert head.startswith(swept_page.NOTHING)
    assert placebo.endswith("takes 1.250 of pvqspinlock's time [1.250, 1.250]. No difference below"
                            " 25.0% counts. Its interval leaves 1 out: it shows a difference where"
                            " there is none.")
    assert kept.flatness[-2:] == (
        "extend_cap: over all else, 100, 200 are within 3% of the best value, 100: all that were"
        " played.",
        "extend_us: over all else, 250 is within 3% of the best value, 250. Not told apart from"
        " it: 1000.")


def test_too_few_seeds_show_nothing(tmp_path: Path) -> None:
    kept = found(tmp_path, FILE.replace("seeds = 8", "seeds = 2") + HOST + DEFAULT)
    assert swept_page.said(kept)[0].startswith(swept_page.NOTHING)
    assert "Fewer than 3 seeds give no interval: nothing can be shown." in swept_page.block(
        "x", kept)


def test_a_sweep_without_a_placebo_and_a_default(tmp_path: Path) -> None:
    kept = found(tmp_path, sweeping.FILE + HOST)
    head, *_, last = swept_page.said(kept)
    assert kept.versus == () and head.startswith("Beside pvqspinlock, of 4 other settings 2 are")
    assert last.startswith("No placebo beside it")


def test_schemes_alone_are_ranked(tmp_path: Path) -> None:
    """As in a file of consolidation curves, which varies nothing."""
    kept = found(tmp_path, FILE.replace('vary = ["ecs-count"]\n', ""))
    assert len(kept.ranking) == 3 and not kept.values and not kept.flatness
    assert "Values over all else" not in swept_page.block("x", kept)


def test_a_setting_that_fails_is_not_better(tmp_path: Path) -> None:
    kept = found(tmp_path)
    one = next(one for one in kept.versus[0].rows if one.worth < 1)
    assert swept.differs(one, None) and not swept.differs(replace(one, missing=1), None)


def test_the_scheme_as_it_is_for_a_default(tmp_path: Path) -> None:
    kept = found(tmp_path, FILE + "as_is = true\n" + HOST)
    assert [one.default for one in kept.versus] == ["ecs-count"]
    head, rank, *_ = swept_page.said(kept)
    assert "the default of the project, ecs-count as it is, of 4 other settings 2 are" in head
    assert " of 5: it takes 1.200 times" in rank


def test_a_search_is_judged_by_the_workloads_held_out(tmp_path: Path) -> None:
    """And the placebo plays these, too."""
    text = SEARCH.replace('"pvqspinlock", ', '"pvqspinlock", "placebo", ').replace(
        "held_out", "held_seeds = 8\nheld_out")
    sweep = sweeping.load(tmp_path, text)
    fake = Fake(sweep, Store(tmp_path))
    fake.make(grid.runs(sweep, BUILD))
    before = keep.of(sweep, tmp_path, FILE_HERE)
    assert "ecs-count as it is, has no run to be compared with on the held-out" in " ".join(
        swept_page.said(before))
    search.run(fake, tmp_path)
    assert {row.setting for row in fake.store.rows.values() if row.workload == "dedup-short"
            and row.seed == search.HELD_SEEDS_FROM} > {"pvqspinlock", "placebo", "ecs-count"}
    after = keep.of(sweep, tmp_path, FILE_HERE)
    assert {row for one in after.versus[0].rows for row in one.by_workload} == {"dedup-short"}
    head = swept_page.said(after)[0]
    assert "on the held-out workloads." in head and "3 are shown to be better" in head


# What is published

def test_publish_makes_data_page_and_picture(folder: Path, tmp_path: Path) -> None:
    out = made(tmp_path)
    assert {file.name for file in published.publish(out, "limits", folder)} == {
        "limits.json", "sweep-limits.md", "sweep-limits.svg"}
    text = (folder / "sweep-limits.md").read_text()
    assert text.startswith("<!-- SPDX") and "\n# Sweep limits: two limits\n" in text
    block = published.BLOCK.search(text)
    assert block and block["body"].strip().startswith("**Beside the default of the project")
    assert "| ecs-count extend\\_us=1000 extend\\_cap=200 | " in text, "the default's row"
    assert "| extend\\_us=250 | 0.833 [0.833, 0.833] | 0.833 (0.833 to 0.833) |" in text
    assert "Made by `./pvsync sweep lab/sweeps/limits.toml`" in text
    assert "192 runs in 24 boots of hosts by 1 worker, 0.02 core-hours" in " ".join(text.split())
    assert f"kernel {BUILD.kernel}; images {BUILD.images}; emulator" in " ".join(text.split())
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("|"))
    root = ET.fromstring((folder / "sweep-limits.svg").read_text())
    texts = " ".join(one.text or "" for one in root.iter() if one.tag.endswith("}text"))
    for label in ("time over pvqspinlock's, below 1 is better; bar: 95 % interval",
                  "bar: quartiles", "extend_us", "dedup-short (s)",
                  "number of VMs (4 vCPUs each, 4 pCPUs)"):
        assert label in texts
    assert (tmp_path / "out" / swept.FILE).read_text() == (
        folder / "data/sweeps/limits.json").read_text()


def test_nothing_is_cut_off_in_the_picture(
        folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of settings to the left, legends to the right."""
    def inside(name: str, _caption: str, size: tuple[float, float],
               draw: Callable[[figures.Figure], None]) -> drawing.Plot:
        with mpl.rc_context(drawing.STYLE):
            figure = figures.Figure(figsize=size)
            draw(figure)
            drawn = figure.get_tightbbox()
        assert drawn.x0 >= 0 and drawn.y0 >= 0, drawn
        assert drawn.x1 <= size[0] and drawn.y1 <= size[1], drawn
        seen.append(name)
        return drawing.Plot(name, "", "<svg/>")

    seen: list[str] = []
    monkeypatch.setattr(drawing, "plot", inside)
    published.publish(made(tmp_path), "limits", folder)
    for file in sorted((paths.ROOT / "docs/results/data/sweeps").glob("*.json")):
        kept = swept.read(file)
        if not kept.hunted:
            swept_pictures.overview(file.stem, kept, swept_page.chosen(kept))
    assert len(seen) >= 3, seen


def test_pages_and_pictures_are_held_to_the_data(folder: Path, tmp_path: Path) -> None:
    """The same functions hold those of docs/results to theirs, in test_published."""
    published.publish(made(tmp_path), "limits", folder)
    assert published.render(folder) == []
    assert [text == wanted for _, text, wanted in published.pages(folder)] == [True]
    picture, = published.pictures(folder)
    assert picture == (folder / "sweep-limits.svg", (folder / "sweep-limits.svg").read_text())
    data = folder / "data/sweeps/limits.json"
    document = json.loads(data.read_text())
    document["ranking"][0]["worth"] = 0.5
    data.write_text(json.dumps(document))
    assert [text == wanted for _, text, wanted in published.pages(folder)] == [False]
    assert next(iter(published.pictures(folder)))[1] != picture[1]


def test_what_is_kept_names_no_place_and_no_single_run(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path, FILE + HOST + DEFAULT + '[cluster]\nqueue = "secret"\n')
    store, runs = Store(tmp_path / "out"), grid.runs(sweep, BUILD)
    Fake(sweep, store).make(runs[1:])
    row = store.rows[runs[1].key]
    store.add("x", [replace(row, valid=False, figure=None, figures=(), made=row.made + 9,
                            reason="/home/x/y/boot.log: rcu stall", commit="d")])
    file = tmp_path / "out" / swept.FILE
    keep.write(keep.of(sweep, tmp_path / "out", FILE_HERE), tmp_path / "out")
    text = file.read_text()
    assert "secret" not in text and "/home" not in text and "ratios" not in text
    kept = swept.read(file)
    assert kept.facts.failed == {"boot.log: rcu stall": 1} and kept.facts.lacking == 1
    assert swept_page.alerts(kept)[:2] == [
        "1 run of the sweep's file had not been made.",
        "Not valid: 1 of 191 runs (1: boot.log: rcu stall)."]
    assert swept_page.alerts(kept)[2].startswith("Rows of 2 source commits are together")


def test_the_page_keeps_it_too(tmp_path: Path) -> None:
    out = made(tmp_path)
    before = (out / swept.FILE).read_text()
    (out / swept.FILE).unlink()
    said = page.make(sweeping.load(tmp_path, FILE + HOST + DEFAULT), out, FILE_HERE)
    assert (out / swept.FILE).read_text() == before and "The default has rank 3 of 4" in said


# What is refused

def damaged(out: Path) -> None:
    (out / swept.FILE).write_text('{"sweep": 3}')


def cut(out: Path) -> None:
    (out / swept.FILE).write_text((out / swept.FILE).read_text()[:500])


def unfinished(out: Path) -> None:
    (out / swept.FILE).unlink()


def older(out: Path) -> None:
    part = next((out / "parts").iterdir())
    shutil.copy(part, part.with_name("9-later.parquet"))


@pytest.mark.parametrize(("harm", "message"), [
    (damaged, r"sweep\.json: sweep must be a table"), (cut, r"sweep\.json: "),
    (unfinished, r"has rows of a sweep and no sweep\.json: \./pvsync sweep FILE\.toml --out"),
    (older, r"sweep\.json is older than the rows beside it: \./pvsync sweep FILE\.toml")])
def test_a_damaged_directory_is_refused(folder: Path, tmp_path: Path,
                                        harm: Callable[[Path], None], message: str) -> None:
    out = made(tmp_path)
    harm(out)
    with pytest.raises(UsageError, match=message):
        published.publish(out, "limits", folder)
    assert [*folder.iterdir()] == []


def test_an_empty_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty/parts").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"no sweep\.json"):
        published.publish(tmp_path / "empty", "limits", folder)
    with pytest.raises(UsageError, match="has no run of a sweep: make some with"):
        keep.of(sweeping.load(tmp_path, FILE + HOST), tmp_path / "empty", FILE_HERE)
    (tmp_path / "empty/parts/1-x.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="is damaged"):
        keep.of(sweeping.load(tmp_path, FILE + HOST), tmp_path / "empty", FILE_HERE)


def test_rows_of_an_unknown_commit_are_refused(folder: Path, tmp_path: Path) -> None:
    out = made(tmp_path)
    text = (out / swept.FILE).read_text().replace('"commits": ["c"]', '"commits": ["c-dirty"]')
    (out / swept.FILE).write_text(text)
    with pytest.raises(UsageError, match="nobody could make it again"):
        published.publish(out, "limits", folder)


@pytest.mark.parametrize(("more", "message"), [
    ("[default]\nextend_us = 1000\n", "default must name each of extend_us, extend_cap"),
    ("[default]\nextend_us = 1000\nextend_cap = 300\n", "the default 300 is none of its values"),
])
def test_a_wrong_default_is_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sweeping.load(tmp_path, FILE + HOST + more)
    with pytest.raises(UsageError, match="not both"):
        sweeping.load(tmp_path, FILE + "as_is = true\n" + HOST + DEFAULT)
    with pytest.raises(UsageError, match="takes values in host or guest"):
        sweeping.load(tmp_path, SEARCH.replace("seeds = 3", "seeds = 3\nas_is = true", 1))


def test_the_defaults_of_the_sweeps_here_are_the_kernels() -> None:
    host = (paths.KERNEL / "overlay/kernel/pvsync/host.c").read_text()
    now = dict(re.findall(r'\.name = "(\w+)",[^}]*?\.now = (\d+)', host))
    named = [(name, str(value)) for file in (paths.LAB / "sweeps").glob("*.toml")
             for name, value in grid.load(file).default.items()]
    assert named and all(now[name] == value for name, value in named)


def test_rows_of_failed_units_are_counted(tmp_path: Path) -> None:
    sweep = sweeping.load(tmp_path, FILE + HOST + DEFAULT)
    store, runs = Store(tmp_path / "out"), grid.runs(sweep, BUILD)
    Fake(sweep, store).make(runs)
    unit = next(one for one in grid.units(runs, (), 24) if one.runs[0].setting.values)
    store.add(unit.key, collect.failed(unit, "its worker died", "c"))
    kept = keep.of(sweep, tmp_path / "out", FILE_HERE)
    assert kept.facts.failed == {"its worker died": len(unit.runs)}
    assert swept_page.said(kept)[0].startswith(swept_page.NOTHING), "a run of each is missing"
