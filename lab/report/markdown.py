# SPDX-License-Identifier: GPL-2.0-only
"""Tables and sentences of a report as Markdown."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from lab.report import opening, table
from lab.report.grids import Grid
from lab.report.summary import Summary

WIDTH = 100
"""Columns of prose."""
BLOCK = "    "
"""Before each line of code."""
GOES_ON = " \\\n"
"""Between two lines of a command."""
SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\*_<|`"})


def escaped(text: str) -> str:
    """As it reads, whatever it holds."""
    return text.translate(SPECIAL)


def grid(one: Grid) -> str:
    """Its caption, the table, and what a reader of it has to know."""
    rows = ([one.first, *one.columns], ["---", *("---:" for _ in one.columns)],
            *([escaped(label), *map(escaped, cells)] for label, cells in one.rows))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n\n".join([wrapped(f"**{escaped(one.caption)}**"), "\n".join(lines),
                        *(wrapped(escaped(note)) for note in one.notes)])


def wrapped(text: str, indent: str = "") -> str:
    """Prose in lines of at most WIDTH; lines after the first are indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def items(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(wrapped(f"- {escaped(line.strip())}", "  ") for line in lines)


def verdict(summary: Summary) -> list[str]:
    """What is wrong, and the verdict; parts that are empty are left out."""
    wrong = items(opening.alerts(summary))
    speedups = opening.grid(summary)
    if speedups:
        parts = [wrong, grid(speedups)]
    else:
        head, *lines = opening.verdict(summary) or [""]
        parts = [wrong, wrapped(escaped(head)), items(lines)]
    if free := opening.ideals(summary):
        parts.append(grid(free))
    return [part for part in parts if part]


def document(summary: Summary) -> str:
    """All of a report: the verdict, the tables, and how to read them."""
    grids = [one for workload in summary.results.manifest.workloads
             for one in table.grids(summary, workload)]
    parts = [*verdict(summary), *map(grid, grids), items(table.notes(summary)),
             provenance(summary)]
    return "\n\n".join(parts) + "\n"


def provenance(summary: Summary) -> str:
    """What the figures were made on and with."""
    m = summary.results.manifest
    kind = {"vt": "machine model {}, in virtual time (backend vt)"}.get(
        m.backend, "{}, backend " + m.backend).format(m.machine)
    return "\n".join((made_by(m.command), wrapped(
        f"at commit {m.commit[:12]}, {m.created[:10]}: {escaped(kind)}; kernel {escaped(m.kernel)}"
        f" on Linux {m.base_version}; QEMU {escaped(m.qemu)}.")))


def made_by(command: Sequence[str]) -> str:
    """The command: in a line, or in several of a block that a shell takes as one."""
    line = f"Made by `{' '.join(command)}`"
    if len(line) <= WIDTH:
        return line
    room = WIDTH - len(BLOCK) - 2
    parts = textwrap.wrap(" ".join(command), room, subsequent_indent=BLOCK,
                          break_long_words=False, break_on_hyphens=False)
    lines = GOES_ON.join("\\\n".join(_lists(part, room)) for part in parts)
    return "\n".join(["Made by", "", *(f"{BLOCK}{one}" for one in lines.splitlines()), ""])


def _lists(part: str, room: int) -> Iterator[str]:
    """A line in pieces of that room; a list is cut after commas, and goes on without a blank."""
    while len(part) > room and "," in part[:room]:
        cut = part.rindex(",", 0, room) + 1
        yield part[:cut]
        part = part[cut:]
    yield part
