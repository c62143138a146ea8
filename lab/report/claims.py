# SPDX-License-Identifier: GPL-2.0-only
"""All claims of all papers, from what is kept of papers that were reproduced."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lab.plan import papers
from lab.plan.papers import Paper, Row
from lab.report import kept, markdown, paper_page
from lab.report.paper_page import Played, Reproduction

HEADS = ("row", "workload", "VMs", "scheme", "over", "what", "paper", "ours", "placebo", "seeds",
         "verdict")


def block(data: Path, where: kept.Where) -> str:
    """For each paper a table with a row for each claim, and a list of what is not made.

    `data` is docs/results/data, `where` has the page of each paper.
    """
    kind = kept.KINDS["paper"]
    parts = []
    for name in papers.names():
        file, page = kind.place(data, name), where.get(("paper", name))
        found = paper_page.read(file) if file.is_file() else None
        parts.append(f"## {f'[{name}]({page})' if page else name}")
        parts += _of_paper(papers.load(name), found)
    return "\n" + "\n\n".join(parts) + "\n\n"


def _of_paper(paper: Paper, found: Reproduction | None) -> Iterator[str]:
    played = {one.row: one for one in found.rows} if found else {}
    rows = [cells for row in paper.rows if row.name in played
            for cells in _of_row(row, played[row.name])]
    if rows:
        table = HEADS, ("---",) * len(HEADS), *rows
        yield "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    left_out = [(row.name, "not run") for row in paper.rows if row.name not in played]
    left_out += [(one.name, one.why) for one in paper.missing]
    if left_out:
        yield markdown.items([f"{name}, not made: {why}." for name, why in left_out])


def _of_row(row: Row, played: Played) -> Iterator[Sequence[str]]:
    head = row.name
    for one in played.found:
        claim = replace(one.claim, workload=one.claim.workload or played.workload or row.first)
        yield head, *paper_page.cells(replace(one, claim=claim), True)
        head = ""
