# SPDX-License-Identifier: GPL-2.0-only
"""All claims of all papers in one table, from what is kept of papers that were reproduced."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.plan import papers
from lab.plan.papers import Paper, Row
from lab.report import kept, paper_page
from lab.report.paper_page import Reproduction
from lab.report.reproduction import Found

HEADS = ("paper", "row", "workload", "VMs", "scheme", "over", "what", "paper's", "ours", "placebo",
         "seeds", "verdict")


def block(data: Path, where: kept.Where) -> str:
    """A row for each claim, and one for each row of a paper that is not made.

    `data` is docs/results/data, `where` has the page of each paper.
    """
    kind = kept.KINDS["paper"]
    rows = [HEADS, ("---",) * len(HEADS)]
    for name in papers.names():
        paper, page = papers.load(name), where.get(("paper", name))
        file = kind.place(data, name)
        found = paper_page.read(file) if file.is_file() else None
        head = f"[{name}]({page})" if page else name
        for line in _of_paper(paper, found):
            rows.append((head, *line))
            head = ""
    return "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n\n"


def _of_paper(paper: Paper, kept_of_it: Reproduction | None) -> Iterator[tuple[str, ...]]:
    played = {one.row: one.found for one in kept_of_it.rows} if kept_of_it else {}
    for row in paper.rows:
        if row.name in played:
            yield from _of_row(row, played[row.name])
        else:
            yield _not_made(row.name, "not run")
    for missing in paper.missing:
        yield _not_made(missing.name, missing.why)


def _of_row(row: Row, results: tuple[Found, ...]) -> Iterator[tuple[str, ...]]:
    head = row.name
    for one in results:
        workload = one.claim.workload or next(iter(row.workloads))
        yield (head, *paper_page.cells(
            replace(one, claim=replace(one.claim, workload=workload)), True))
        head = ""


def _not_made(name: str, why: str) -> tuple[str, ...]:
    empty = ("",) * (len(HEADS) - 3)
    return (name, *empty, f"not made: {why}")
