# SPDX-License-Identifier: GPL-2.0-only
"""What the pages of results show is what their data give."""

import json
import random
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from lab.core.errors import UsageError
from lab.machine import provenance
from lab.plan import papers
from lab.report import kept, markdown, paper_page, published, sensitivity, table
from lab.report.grids import Grid
from lab.report.published import FOLDER
from lab.report.sensitivity import Variant
from lab.report.summary import load, summarize
from tests.lab.synthetic import HACKBENCH, Counted, Synthetic

NAMES = published.names()
SCHEMES = ("ticket", "pmt", "pv-ticket", "pv-pmt")
"""Of figure 5."""


def test_every_picture_is_of_its_data() -> None:
    """If the form has changed on purpose: ./pvsync publish."""
    made = dict(published.pictures())
    wrong = [file.name for file, svg in made.items() if file.read_text() != svg]
    assert not wrong, f"{wrong}: ./pvsync publish makes them again"
    assert {*FOLDER.glob("*.svg")} == {*made}


def test_every_block_is_of_its_data() -> None:
    wrong = [page.name for page, text, wanted in published.pages() if text != wanted]
    assert not wrong, f"{wrong}: ./pvsync publish makes them again"


def test_all_data_are_shown_and_known() -> None:
    shown = {(found["kind"], found["name"]) for page in FOLDER.glob("*.md")
             for found in published.BLOCK.finditer(page.read_text()) if found["name"]}
    others = {(kind, name) for kind, one in kept.KINDS.items()
              for name in one.names(FOLDER / "data")}
    assert NAMES and shown == {*(("data", name) for name in NAMES), *others}
    for page in FOLDER.glob("*.md"):
        text = page.read_text()
        begun = sum(text.count(f"<!-- {one}") for one in (
            "data: ", "paper: ", "sensitivity: ", "sweep: ", "verdicts -->", "papers -->",
            "claims -->"))
        assert begun == text.count("<!-- end -->") == len(
            [*published.BLOCK.finditer(text)]), page.name


SCREEN = 40
"""Lines of a page that is read without scrolling."""
RANGED = re.compile(r"[\d.]+ \[[\d.]+, [\d.]+\]")
"""A figure with its interval."""


def unfounded(row: str, folder: Path = FOLDER) -> list[str]:
    """Figures of a row that no page shows which the row has a link to."""
    pages = [folder / name for name in re.findall(r"\]\(([\w.-]+\.md)", row)]
    shown = "".join(page.read_text() for page in pages).replace(" on average", "")
    return [figure for figure in RANGED.findall(row) if figure not in shown]


def test_the_summary_is_one_screen_of_figures_that_pages_show() -> None:
    lines = (FOLDER / "README.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(lines) <= SCREEN and len(rows) == 7
    assert sum(len(RANGED.findall(row)) for row in rows) > 10
    items = re.split(r"^- ", "\n".join(lines), flags=re.MULTILINE)[1:]
    assert not [figure for said in (*rows, *items) for figure in unfounded(said)]


def test_a_figure_that_no_page_shows_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("| x1.08 [1.04, 1.12] |\n")
    row = "| faults | [here](one.md) 1.08 [1.04, 1.12]; 1.80 [1.04, 1.12] |"
    assert unfounded(row, tmp_path) == ["1.80 [1.04, 1.12]"]


def flushing(label: str, vms: int) -> Counted:
    times = [(7000 * vms, 6000), (9000, 8000)] * (3 if label == "tas" else 5)
    return Counted(guest={"lock_kicks": 5}, flushes={"ipi": times})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where to publish results of commits that are known."""
    monkeypatch.setattr(provenance, "is_known", lambda commit: commit == "0000000")
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def test_publish_begins_a_page(folder: Path, tmp_path: Path) -> None:
    made = Synthetic(reps=2, boots=1).write(tmp_path / "made")
    assert {file.name for file in published.publish(made, "new", folder)} == {
        "new.json", "new.svg", "new.md"}
    page = (folder / "new.md").read_text()
    assert page.startswith("<!-- SPDX") and "# synthetic\n" in page
    summary = summarize(load(made))
    for scheme in ("pvqspinlock", "ticket", "pmt"):
        for vms in (1, 2, 3):
            text = table.cell_text(summary.cell(scheme, "hackbench", vms))
            assert f" {text.replace('*', chr(92) + '*')} |" in page
    assert "Verdict against pvqspinlock" in page and "![synthetic: " in page
    assert "Made by `pvsync run synthetic`" in page and "at commit 0000000" in page
    assert all(len(line) <= 100 for line in page.splitlines() if not line.startswith("|"))
    root = ET.fromstring((folder / "new.svg").read_text())
    texts = " ".join(one.text or "" for one in root.iter() if one.tag.endswith("}text"))
    for label in ("time (s), lower is better", "number of VMs (2 vCPUs each, 2 pCPUs)",
                  "ideal (pvqspinlock)", "pmt", "hackbench"):
        assert label in texts


def test_verdicts_of_all_data(folder: Path, tmp_path: Path) -> None:
    page = folder / "README.md"
    page.write_text("# All\n<!-- verdicts -->\n<!-- end -->\n")

    def value(label: str, vms: int, _: int, rng: random.Random) -> float:
        return vms * (0.5 if label == "b" else 1.0) * (1 + 1e-4 * rng.random())

    for name, vms in (("one", (1, 2)), ("two", (4,))):
        made = Synthetic(("a", "b", "a:2"), vms=vms, reps=1, boots=4, value=value)
        published.publish(made.write(tmp_path / name), name, folder)
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in page.read_text().splitlines() if line.startswith("|")]
    assert rows[0] == ["figures", "scheme", "against", "1 VM", "2 VMs", "4 VMs"]
    assert rows[2] == ["[one](one.md), 2 vCPUs on 2", "b", "a", "**x2.00** [2.00, 2.00]",
                       "**x2.00** [2.00, 2.00]", "-"]
    assert rows[3][:3] == ["", "a:2 (placebo)", "a"] and rows[3][3].startswith("x1.00 [")
    assert rows[4][0] == "[two](two.md), 2 vCPUs on 2" and rows[4][3:5] == ["-", "-"]
    assert len(rows) == 6


def test_each_file_of_data_is_read_once(folder: Path, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        published.publish(Synthetic(reps=1, boots=1).write(tmp_path / name), name, folder)
    (folder / "README.md").write_text("# All\n<!-- verdicts -->\n<!-- end -->\n")
    seen, read = list[str](), published.read

    def counted(name: str, where: Path) -> published.Published:
        seen.append(name)
        return read(name, where)

    monkeypatch.setattr(published, "read", counted)
    assert [file.name for file in published.render(folder)] == ["README.md"]
    assert sorted(seen) == ["one", "two"]


def test_publish_again_replaces_and_leaves_what_is_by_hand(folder: Path, tmp_path: Path) -> None:
    page = folder / "some.md"
    page.write_text("# Some\nBefore.\n\n<!-- data: one -->\nold\n<!-- end -->\n\nAfter.\n")
    for seed in (1, 2):
        made = Synthetic(reps=2, boots=1, seed=seed).write(tmp_path / str(seed))
        written = published.publish(made, "one", folder)
        assert [file.name for file in written] == ["one.json", "one.svg", "some.md"]
        text = page.read_text()
        assert text.startswith("# Some\nBefore.\n\n<!-- data: one -->\n")
        assert text.endswith("<!-- end -->\n\nAfter.\n") and "old" not in text
        assert table.cell_text(summarize(load(made)).cell("pvqspinlock", "hackbench", 2)) in text
    assert not (folder / "one.md").exists() and published.render(folder) == []
    page.write_text(page.read_text().replace("ticket", "other", 1))
    assert [(one.name, text != wanted) for one, text, wanted in published.pages(folder)] == [
        ("some.md", True)]


def test_what_is_kept_is_what_it_was(tmp_path: Path, folder: Path) -> None:
    """Tables from the data are those of the report; counters and places are left out."""
    made = Synthetic(("tas", "pmt"), reps=3, boots=1, counted=flushing,
                     invalid={("pmt", 3): "g1: rcu stall"})
    directory = made.write(tmp_path / "made")
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["command"] = ["./pvsync", "run", "/a/b.toml", "--out", "/x/y", "--jobs=3", "--seeds",
                           "3"]
    (directory / "manifest.json").write_text(json.dumps(manifest))
    published.publish(directory, "kept", folder)
    text = (folder / "data" / "kept.json").read_text()
    for gone in ("/x/y", "/a/", "jobs", "lock_kicks", str(tmp_path)):
        assert gone not in text
    data, summary = published.read("kept", folder), summarize(load(directory))
    assert data == published.trimmed(summary)
    assert data.manifest.command == ("./pvsync", "run", "b.toml", "--seeds", "3")
    assert [replace(cell, observed=None) for cell in data.cells] == [
        replace(cell, observed=None) for cell in summary.cells]
    shown = [*table.main_grids(summary, HACKBENCH),
             *table.main_grids(data.summary(), HACKBENCH)]
    assert shown[0] == shown[1]
    page = (folder / "kept.md").read_text()
    assert "latency of remote TLB flushes (us)" in page and "1 of 19 runs were invalid" in page
    assert "remote TLB flush (us)" in (folder / "kept.svg").read_text()


def test_options_of_places() -> None:
    assert kept.command(("./pvsync", "run", "x", "--resume", "d", "--vms", "2")) == (
        "./pvsync", "run", "x", "--vms", "2")
    assert kept.command(("--out=d", "--jobs", "--jobs")) == ()


@pytest.mark.parametrize(("name", "commit", "message"), [
    ("../x", "0000000", "small letters"), ("New", "0000000", "small letters"),
    ("new", "0000000-dirty", "nobody could make it again"),
])
def test_refusals(folder: Path, tmp_path: Path, name: str, commit: str, message: str) -> None:
    directory = Synthetic(reps=1, boots=1).write(tmp_path / "made")
    file = directory / "manifest.json"
    file.write_text(file.read_text().replace('"0000000"', f'"{commit}"'))
    with pytest.raises(UsageError, match=message):
        published.publish(directory, name, folder)
    assert [*folder.iterdir()] == []


def test_damaged_and_missing_data(folder: Path) -> None:
    (folder / "page.md").write_text("<!-- data: none -->\n<!-- end -->\n")
    with pytest.raises(UsageError, match=r"none\.json is not there"):
        published.render(folder)
    (folder / "data").mkdir()
    (folder / "data" / "none.json").write_text('{"manifest": 3}')
    with pytest.raises(UsageError, match=r"none\.json: manifest must be a table"):
        published.render(folder)


def check_claims(page: str) -> None:
    """Each claim of the row that was played, and all other rows of all papers as not made."""
    heads = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    assert heads == {*papers.names()} - {"pmt"} | {"[pmt](paper-pmt.md)"}
    verdicts = [line.split("|")[-2].strip() for line in page.splitlines() if line.startswith("|")]
    assert sum(one in ("**confirmed**", "**cannot tell**") for one in verdicts) == 8
    assert len(verdicts) == 10
    every = [papers.load(name) for name in papers.names()]
    left_out = sum(len(one.rows) + len(one.missing) for one in every) - 1
    assert page.count(", not made: ") == left_out


def test_a_paper_and_a_sensitivity(folder: Path, tmp_path: Path) -> None:
    """Each has a page of its own, from data that name no place; and the papers a table."""
    (folder / "README.md").write_text("# All\n<!-- papers -->\n<!-- end -->\n")
    (folder / "claims.md").write_text("# Claims\n<!-- claims -->\n<!-- end -->\n")
    paper = papers.load("pmt")
    rows = [(row, summarize(load(Synthetic(SCHEMES, reps=2, boots=1).write(
        tmp_path / row.folder)))) for row in paper.rows[1:2]]
    told = ("./pvsync", "reproduce", "pmt", "--out", "/x/y")
    kept = paper_page.of(paper, rows, False, told)
    paper_page.keep(paper_page.joined(kept, kept, paper), tmp_path)
    assert {file.name for file in published.publish(tmp_path, "pmt", folder)} == {
        "pmt.json", "paper-pmt.svg", "paper-pmt.md", "README.md", "claims.md"}
    picture = (folder / "paper-pmt.svg").read_text()
    assert "3 VMs: pv-pmt over ticket" in picture and "the paper" in picture
    assert "waiters" not in picture  # of table 1: a share is no ratio
    page = (folder / "paper-pmt.md").read_text()
    assert f"# {paper.title}\n" in page and "Made by `./pvsync reproduce pmt`.\n" in page
    assert "Made by `./pvsync reproduce pmt`\n" in page, "of the row that was played alone"
    assert "](paper-pmt.svg)" in page
    assert "/x/y" not in page
    assert "/x/y" not in (folder / "data" / "papers" / "pmt.json").read_text()
    assert "| [pmt](paper-pmt.md) | 7 confirmed, 1 cannot tell | whole loads |" in (
        folder / "README.md").read_text()
    check_claims((folder / "claims.md").read_text())

    base = summarize(load(Synthetic(reps=2, boots=1).write(tmp_path / "made")))
    half = sensitivity.of([(Variant(), base), (Variant("exit", 0.5), base)])
    sensitivity.write(half, tmp_path / "made")
    published.publish(tmp_path / "made", "all", folder)
    page = (folder / "sensitivity-all.md").read_text()
    assert "| hackbench, 1 VMs: pmt |" in page and "No ratio moved by more than 10%" in page
    assert published.render(folder) == []
    (folder / "data" / "sensitivity" / "all.json").unlink()
    with pytest.raises(UsageError, match=r"all\.json is not there"):
        published.render(folder)


def test_known_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert not provenance.is_known("HEAD")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run((*git, "init", "-q"), check=True)
    subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "x"), check=True)
    commit = provenance.git_commit()
    assert provenance.is_known(commit) and not provenance.is_known(f"{commit}-dirty")
    assert not provenance.is_known("unknown") and not provenance.is_known("")
    subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "y"), check=True)
    gone = provenance.git_commit()
    subprocess.run((*git, "reset", "-q", "--soft", commit), check=True)
    subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "z"), check=True)
    assert provenance.is_known(commit) and not provenance.is_known(gone)


def test_markdown_reads_as_it_is() -> None:
    text = markdown.grid(Grid("a|b_c", "scheme", ["1 VM"], [("x*", ["1 <2>*"])], ("note *",)))
    assert text == ("**a\\|b\\_c**\n\n| scheme | 1 VM |\n| --- | ---: |\n| x\\* | 1 \\<2>\\* |"
                    "\n\nnote \\*")


def test_a_page_of_several_workloads_has_sentences(tmp_path: Path) -> None:
    def value(*_: object) -> float:
        return random.Random(1).random() + 1

    summary = summarize(load(Synthetic(("a", "b"), vms=(1,), value=value).write(tmp_path)))
    several = replace(summary, verdicts=tuple(replace(one, workloads=2)
                                              for one in summary.verdicts))
    text = " ".join(markdown.document(several).split())
    assert "- b, 1 VM: x1.00 on average" in text and "over 2 workloads, best hackbench" in text


def test_the_page_of_verdicts_says_how_many_show_a_difference() -> None:
    page = (FOLDER / "verdicts.md").read_text()
    said = re.search(r"^\*\*(\d+) show a difference", page, re.MULTILINE)
    assert said and int(said[1]) == len(re.findall(r"\*\*x[\d.]+\*\*", page)) > 0
