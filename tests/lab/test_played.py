# SPDX-License-Identifier: GPL-2.0-only
"""Commands that play several experiments: `sensitivity` and `reproduce`, with made-up results."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.cli import played
from lab.cli.reproduce import reproduce
from lab.cli.sensitivity import sensitivity_command
from lab.core.errors import UsageError
from lab.core.model import Experiment
from lab.core.progress import Progress
from lab.plan import papers
from lab.report import paper_page
from lab.report.summary import Summary, load, summarize
from tests.lab.synthetic import HACKBENCH, Synthetic

Play = Callable[[Experiment, Path, str, int, tuple[str, ...], Progress], Summary]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Folder and model of each experiment that was played; ticket locks like short exits."""
    found: list[tuple[str, str]] = []

    def play(plan: Experiment, directory: Path, model: str, jobs: int, packages: tuple[str, ...],
             progress: Progress) -> Summary:
        found.append((directory.name, model))

        def value(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
            slow = {"ticket": 2.0 if "exit*0.5" in model else 3.0, "pmt": 1.5}.get(
                scheme.partition(":")[0], 1.0)
            return slow * vms * rng.uniform(1, 1.01)

        labels = tuple(scheme.label for scheme in plan.schemes)
        workload = replace(HACKBENCH, name=plan.workloads[0].name)
        made = Synthetic(labels, workload, plan.vms, plan.reps, plan.boots, value=value)
        return summarize(load(made.write(directory)))

    monkeypatch.setattr(played, "play", play)
    return found


def called(command: object, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)  # type: ignore[arg-type]


def test_a_whole_sensitivity(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    """The model as it is, halved and doubled; what moves with it is marked, and kept."""
    done = called(sensitivity_command, "figure5", "--workload", "hackbench-short", "--keys", "exit",
                  "--vms", "2", "--seeds", "3", "--out", str(tmp_path))
    assert calls == [("base", "zen4"), ("exit-x0.5", "zen4:exit*0.5"), ("exit-x2", "zen4:exit*2")]
    assert done.exit_code == 0, done.output
    kept = json.loads((tmp_path / "sensitivity.json").read_text())["rows"]
    moved = {(row["scheme"], row["variant"]): row["moved"] for row in kept}
    assert moved["pmt", "exit*0.5"] == pytest.approx(0.5, abs=0.05)
    assert moved["pmt", "exit*2"] == pytest.approx(0, abs=0.05)
    assert (tmp_path / "sensitivity.txt").read_text() in done.output
    assert "0.75!" in done.output and "moved by more than 10%" in done.output


def test_a_paper_is_reproduced(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    """Rows with the same runs share them; the page is kept and shown."""
    done = called(reproduce, "shoot4u", "pmt", "--quick", "--out", str(tmp_path))
    assert [folder for folder, _model in calls] == [
        "table-1", "figure-6", "figures-1-and-7-a", "table-1", "figure-5-a", "figure-5-b"
    ], "figure 3 of Shoot4U has the runs of table 1"
    assert done.exit_code == 0, done.output
    page = (tmp_path / "pmt-quick.md").read_text()
    assert page in done.output and "| 2 | pmt | ticket | performance | 3.89 | 2.0" in page
    assert "not played" in (tmp_path / "shoot4u-quick.md").read_text()
    called(reproduce, "pmt", "--quick", "--seeds", "3", "--out", str(tmp_path / "more"))
    kept = paper_page.read(tmp_path / "more" / "pmt-quick" / paper_page.FILE)
    assert {one.seeds for row in kept.rows for one in row.found if one.ours} == {3}


def test_a_single_row(tmp_path: Path, calls: list[tuple[str, str]],
                      monkeypatch: pytest.MonkeyPatch) -> None:
    """It is played alone, and named with its command; the page keeps what it has of others."""
    told = ["pmt", "--quick", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["pvsync", "reproduce", *told])
    called(reproduce, *told, "--row", "figure-5-a")
    assert [folder for folder, _model in calls] == ["figure-5-a"]
    assert (tmp_path / "pmt-quick.md").read_text().count("Not made in this run.") == 2
    called(reproduce, *told)
    calls.clear()
    whole = paper_page.read(tmp_path / "pmt-quick" / paper_page.FILE)
    again = [*told, "--row", "table-1", "--seeds", "3"]
    monkeypatch.setattr("sys.argv", ["pvsync", "reproduce", *again])
    called(reproduce, *again)
    assert [folder for folder, _model in calls] == ["table-1"]
    kept = paper_page.read(tmp_path / "pmt-quick" / paper_page.FILE)
    assert [one.row for one in kept.rows] == [one.row for one in whole.rows]
    assert kept.rows[1:] == whole.rows[1:] and kept.command == whole.command
    assert kept.rows[0].command == ("./pvsync", "reproduce", *again)
    page = (tmp_path / "pmt-quick.md").read_text()
    assert page.count("\n    ./pvsync reproduce pmt --quick") == 1, "a block, as it is long"
    assert page.count("--row") == 1 and "Not made in this run." not in page
    calls.clear()
    called(reproduce, "shoot4u", "--quick", "--row", "figure-3", "--out", str(tmp_path))
    assert [folder for folder, _model in calls] == ["table-1"], "its runs are those of figure 3"


def test_rows_that_are_joined(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    """They are in the paper's order, each once; one that the paper has no more is left out."""
    paper = papers.load("pmt")
    table, a, b = paper.rows
    assert papers.pick_rows(paper, [b.folder, table.folder, b.folder]) == [table, b]
    called(reproduce, "pmt", "--quick", "--out", str(tmp_path))
    whole = paper_page.read(tmp_path / "pmt-quick" / paper_page.FILE)
    one = replace(whole, rows=whole.rows[:1], command=("again",))
    dead = replace(whole.rows[0], row="Table 9")
    kept = paper_page.joined(replace(whole, rows=(dead, *whole.rows[1:])), one, paper)
    assert [row.row for row in kept.rows] == [table.name, a.name, b.name]
    assert [row.command for row in kept.rows] == [("again",), (), ()]
    changed = replace(table, about="something else", differs="of everything")
    page = paper_page.page(kept, replace(paper, rows=(changed, a, b)))
    assert "omething else" not in page, "a row says what it was when it was played"


def test_rows_that_are_not_there(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    for names, row, said in ((("pmt",), "table-11", "no row 'table-11', did you mean 'table-1'?"),
                             (("pmt", "ecs"), "table-1", "needs one paper"),
                             ((), "table-1", "needs one paper")):
        with pytest.raises(UsageError, match=re.escape(said)):
            called(reproduce, *names, "--row", row, "--out", str(tmp_path))
    assert not calls


def test_runs_that_are_missing_are_told(tmp_path: Path, calls: list[tuple[str, str]],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """By the status, after all that can be made is made."""
    whole: Play = played.play

    def lost(*arguments: object) -> Summary:
        return replace(whole(*arguments), valid=False)  # type: ignore[arg-type]

    monkeypatch.setattr(played, "play", lost)
    assert called(reproduce, "pmt", "--quick", "--out", str(tmp_path)).exit_code == 1
    assert called(sensitivity_command, "figure5", "--workload", "hackbench-short", "--keys", "exit",
                  "--out", str(tmp_path / "s")).exit_code == 1
    assert len(calls) == 6


def test_an_unknown_paper(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    with pytest.raises(UsageError, match="no paper 'ptm'"):
        called(reproduce, "ptm", "--out", str(tmp_path))
    assert not calls
