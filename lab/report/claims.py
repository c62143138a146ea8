# SPDX-License-Identifier: GPL-2.0-only
"""All claims of all papers, from what is kept of papers that were reproduced."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.plan import papers
from lab.plan.papers import Paper, Row
from lab.report import kept, markdown, paper_page
from lab.report.paper_page import Played, Reproduction
from lab.report.reproduction import Found


def block(data: Path, where: kept.Where) -> str:
    """For each row of each paper a table of its claims, and a list of what is not made.

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
    for row in paper.rows:
        if row.name in played:
            yield f"**{row.name}**"
            yield "\n".join(paper_page.table(_named(row, played[row.name]), True))
    left_out = [(row.name, "not run") for row in paper.rows if row.name not in played]
    left_out += [(one.name, one.why) for one in paper.missing]
    if left_out:
        yield markdown.items([f"{name}, not made: {why}." for name, why in left_out])


def _named(row: Row, played: Played) -> Iterator[Found]:
    """What was found of a row, each with the workload that it is about."""
    for one in played.found:
        workload = one.claim.workload or played.workload or row.first
        yield replace(one, claim=replace(one.claim, workload=workload))
