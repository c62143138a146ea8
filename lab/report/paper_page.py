# SPDX-License-Identifier: GPL-2.0-only
"""The page of a paper: its numbers beside ours, from what is kept of the runs.

`paper.json`, beside the results of a paper's rows, holds all that the page shows of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lab.plan import papers
from lab.plan.papers import SHARES, Paper, Row
from lab.report import jsonlines, markdown, reproduction
from lab.report.grids import number
from lab.report.reproduction import MEANING, Found, Verdict
from lab.report.summary import Summary
from lab.run import records

FILE = "paper.json"


@dataclass(frozen=True)
class Played:
    """What was found of one row."""

    row: str
    """Its name."""
    commit: str
    setting: str
    """Guests, host, machine model and versions, as a sentence."""
    found: tuple[Found, ...]
    command: tuple[str, ...] = ()
    """What played it; empty where the paper's did."""
    about: str = ""
    differs: str = ""
    """What the row was when it was played; the first of them is empty in older records."""
    workload: str = ""
    """What a claim is about that names none."""


@dataclass(frozen=True)
class Reproduction:
    """What was found of a paper."""

    paper: str
    """Its short name."""
    quick: bool
    command: tuple[str, ...]
    rows: tuple[Played, ...]


def of(paper: Paper, rows: Iterable[tuple[Row, Summary]], quick: bool,
       command: tuple[str, ...]) -> Reproduction:
    """Judge each claim by the results of its row."""
    return Reproduction(paper.name, quick, command, tuple(
        Played(row.name, summary.results.manifest.commit, _setting(summary),
               tuple(reproduction.found(row, summary, quick)), about=row.about,
               differs=row.differs, workload=row.first) for row, summary in rows))


def joined(earlier: Reproduction, rows: Reproduction, paper: Paper) -> Reproduction:
    """`earlier` with what was found of `rows` in place of what it had, made by their command.

    Rows that the paper has no more are left out.
    """
    new = {one.row: replace(one, command=rows.command) for one in rows.rows}
    known = {one.row: one for one in earlier.rows} | new
    return replace(earlier, rows=tuple(
        known[row.name] for row in paper.rows if row.name in known))


def _setting(summary: Summary) -> str:
    m = summary.results.manifest
    tied = ", each tied to one" if m.pin else ""
    return (f"{m.vcpus} vCPUs on {m.pcpus} CPUs{tied}, {', '.join(w.name for w in m.workloads)};"
            f" {m.backend}, machine {m.machine}, Linux {m.base_version}, commit {m.commit[:12]}.")


def keep(kept: Reproduction, directory: Path) -> None:
    """Write FILE."""
    records.replace(directory / FILE, jsonlines.as_json(kept))


def read(file: Path) -> Reproduction:
    """What was kept; UsageError when it is damaged."""
    return jsonlines.read(Reproduction, file)


def counted(kept: Reproduction) -> str:
    """How many claims have which verdict, in words."""
    counts = dict[Verdict, int]()
    for played in kept.rows:
        for one in played.found:
            counts[one.verdict] = counts.get(one.verdict, 0) + 1
    return ", ".join(f"{many} {verdict}" for verdict, many in counts.items()) or "nothing yet"


def all_found(kept: Reproduction) -> list[Found]:
    """Of all rows, in their order."""
    return [one for played in kept.rows for one in played.found]


def is_ratio(one: Found) -> bool:
    """Whether it was played, and has another scheme to be compared with: it can be drawn."""
    return bool(one.claim.against) and one.ours is not None


def page(kept: Reproduction, paper: Paper | None = None) -> str:
    """The whole page, in Markdown."""
    paper = paper or papers.load(kept.paper)
    return f"# {paper.title}\n\n{body(kept, paper)}"


def body(kept: Reproduction, paper: Paper | None = None, picture: str = "") -> str:
    """The page without its head; a row of the paper that was not played says so.

    `picture` is the name of one beside the page, if the page is kept.
    """
    paper = paper or papers.load(kept.paper)
    played = {one.row: one for one in kept.rows}
    short = ", the short form: small loads and few seeds" if kept.quick else ""
    lines = [
        f"**Of its claims: {counted(kept)}.** {paper.source}; {paper.setting}.", "",
        f"Made by `{' '.join(kept.command)}`{short}.", "",
        *([f"![Ratios of the paper and ours, with intervals]({picture}.svg)", ""]
          if picture and any(map(is_ratio, all_found(kept))) else []),
        *(line for row in paper.rows for line in _section(row, played.get(row.name))),
        "## Not made", "", "| what | why |", "|---|---|",
        *(f"| {one.name} | {one.why} |" for one in paper.missing), "",
        "## What the verdicts mean", "",
        *(f"- {verdict}: {MEANING[verdict]}." for verdict in MEANING), "",
        "Performance is work in a time, or one over the time. A ratio is that of the medians over"
        " seeds; in brackets a 95 % interval by bootstrap over seeds, or the range of all pairs"
        " of two.", "",
    ]
    return "\n".join(map(_wrapped, lines))


def _wrapped(line: str) -> str:
    """Prose in lines of a width; a table's row stays one, and a block as it is."""
    if line.startswith(("|", "#")) or "\n" in line:
        return line
    return markdown.wrapped(line, "  " if line.startswith("- ") else "")


def _section(row: Row, played: Played | None) -> list[str]:
    about, differs = ((played.about, played.differs) if played and played.about
                      else (row.about, row.differs))
    lines = [f"## {row.name}", "", f"{about[0].upper()}{about[1:]}.", ""]
    if differs:
        lines += [f"Otherwise than in the paper: {differs}.", ""]
    if played is None:
        return [*lines, "Not made in this run.", ""]
    said = [f"- {claim.scheme} at {claim.vms} VM{'s' * (claim.vms > 1)}, in the paper's words:"
            f" {claim.says}."
            for claim in (one.claim for one in played.found) if claim.says]
    many = len({one.claim.workload for one in played.found}) > 1
    return [*lines, *table(played.found, many), "", *said, *[""] * bool(said),
            *([f"Why: {row.reason}", ""] if row.reason else []), played.setting, "",
            *([markdown.made_by(played.command), ""] if played.command else [])]


def table(results: Iterable[Found], many: bool) -> list[str]:
    """Lines of a table of claims; `many` is whether it names their workloads."""
    heads = [*["workload"] * many, "VMs", "scheme", "over", "what", "paper", "ours", "placebo",
             "seeds", "verdict"]
    return [f"| {' | '.join(cells)} |" for cells in (
        heads, ["---"] * len(heads), *(cells(one, many) for one in results))]


def cells(one: Found, many: bool) -> list[str]:
    """Of a row of a table: workload, if it has many, to verdict."""
    claim = one.claim
    unit = " %" if claim.measure in SHARES else ""
    paper = number(claim.value) + (f" to {number(claim.most)}" if claim.most else "")
    ours = "" if one.ours is None else (
        f"{number(one.ours)} [{number(one.least)}, {number(one.most)}]{unit}")
    return [*[claim.workload] * many, str(claim.vms), claim.scheme, claim.over,
            claim.measure, paper + unit, ours,
            "" if one.placebo is None else f"{100 * one.placebo:.1f} %", str(one.seeds),
            f"**{one.verdict}**"]
