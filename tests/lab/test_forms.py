# SPDX-License-Identifier: GPL-2.0-only
"""The forms in which `report` gives a result directory."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lab.cli.report import report as command
from lab.core.errors import UsageError
from lab.report import markdown, report, table
from lab.report.summary import as_json, load, summarize
from tests.lab.synthetic import Synthetic


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return Synthetic(("a", "b"), vms=(1, 2), reps=2, boots=1).write(tmp_path / "made")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_other_forms_print_and_write_nothing(made: Path, form: str) -> None:
    before = {file: file.read_bytes() for file in made.rglob("*") if file.is_file()}
    found = call(str(made), "--format", form)
    assert found.exit_code == 0 and "Report:" not in found.output
    assert {file: file.read_bytes() for file in made.rglob("*") if file.is_file()} == before


def test_json_is_the_file(made: Path) -> None:
    printed = call(str(made), "--format", "json").output
    report.make(made, page=False)
    assert printed == (made / "summary.json").read_text() == as_json(summarize(load(made)))


def test_csv_has_a_row_a_cell(made: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(call(str(made), "--format", "csv").output)))
    cells = json.loads(as_json(summarize(load(made))))["cells"]
    assert len(rows) == len(cells) == 4
    for row, cell in zip(rows, cells, strict=True):
        assert [float(one) for one in row["values"].split()] == cell["values"]
        assert row["n"] == str(len(cell["values"]))
        for name, text in row.items():
            if name not in {"n", "values"}:
                value = cell[name]
                assert text == ("" if value is None else str(value).lower()
                                if isinstance(value, bool) else str(value)), name


def test_markdown_has_every_cell(made: Path) -> None:
    text = call(str(made), "--format", "markdown").output
    summary = summarize(load(made))
    assert text.index("Verdict against a") < text.index("**hackbench: time (s)")
    for cell in summary.cells:
        assert f" {markdown.escaped(table.cell_text(cell))} |" in text


def test_text_is_what_a_run_prints(made: Path) -> None:
    assert call(str(made)).output == (
        table.as_text(summarize(load(made))) + f"Report: {made / report.PAGE}\n")


def test_an_invalid_result_has_status_1(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), reps=1, boots=1, lost=frozenset({("b", 1)})).write(tmp_path)
    found = call(str(made), "--format", "csv")
    assert found.exit_code == 1 and ",hackbench," not in found.output
    assert len(found.output.splitlines()) == 7


def boxes(file: Path) -> Sequence[float]:
    """Width and height of a PDF's page, inches."""
    words = file.read_bytes().partition(b"/MediaBox [")[2].partition(b"]")[0].split()
    return [float(word) / 72 for word in words[2:]]


def test_pdf(made: Path) -> None:
    assert call(str(made), "--pdf", "--width", "3.3in", "--format", "csv").exit_code == 0
    drawn = sorted(file.name for file in (made / "plots").glob("*"))
    assert drawn == ["hackbench-fairness.pdf", "hackbench-figure.pdf", "hackbench-slowdown.pdf"]
    figure = made / "plots" / "hackbench-figure.pdf"
    assert boxes(figure)[0] == pytest.approx(3.3, abs=0.01)
    first = figure.read_bytes()
    report.pdfs(made, 3.3)
    assert figure.read_bytes() == first
    report.pdfs(made, 7)
    assert boxes(figure)[0] == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize("width", ["0in", "3.3cm", "nan", "41"])
def test_widths_that_are_none(made: Path, width: str) -> None:
    found = call(str(made), "--pdf", "--width", width)
    assert found.exit_code == click.UsageError.exit_code and "is no width" in found.output


def test_a_width_needs_pdf(made: Path) -> None:
    with pytest.raises(UsageError, match="--width is of --pdf"):
        call(str(made), "--width", "3.3in")
