# SPDX-License-Identifier: GPL-2.0-only
"""Results that the pages of docs/results show: their data, and what is made of them.

docs/results/data/NAME.json holds what is left of a result directory's summary. From it alone
come docs/results/NAME.svg and, in any page there, what stands between `<!-- data: NAME -->`
and `<!-- end -->`. Between `<!-- verdicts -->` and that end stand the verdicts of all data,
between `<!-- claims -->` and that end all claims of papers.
What was found of papers and of machine models, and sweeps, have blocks of their own, see `kept`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lab.core import paths
from lab.core.cells import Cell, Observed
from lab.core.errors import UsageError
from lab.core.model import Manifest
from lab.machine import provenance
from lab.plan.sweeps import PARTS
from lab.report import (
    claims,
    footer,
    grids,
    jsonlines,
    kept,
    markdown,
    opening,
    placebo,
    swept,
    table,
)
from lab.report.summary import Results, Summary, load, summarize
from lab.report.verdict import Verdict
from lab.run import records

FOLDER = paths.ROOT / "docs" / "results"
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
BLOCK = re.compile(r"(?P<head>^<!-- (?P<kind>data|paper|sensitivity|sweep|verdicts|papers|"
                   r"claims)(?:: (?P<name>\S+))? -->\n)(?P<body>.*?)(?P<end>^<!-- end -->$)",
                   re.MULTILINE | re.DOTALL)
LICENSE = "<!-- SPDX-License-Identifier: GPL-2.0-only -->\n"


@dataclass(frozen=True)
class Published:
    """What is kept of a summary."""

    manifest: Manifest
    comparisons: int
    smallest_n: int
    alikeness: float | None
    valid: bool
    warnings: tuple[str, ...]
    invalid: tuple[str, ...]
    """Sentences on runs that are in no figure."""
    verdicts: tuple[Verdict, ...]
    cells: tuple[Cell, ...]
    ideals: tuple[Verdict, ...] = ()

    def summary(self) -> Summary:
        """As it was, without its runs."""
        return Summary(Results(Path(), self.manifest, (), (), self.warnings), self.cells,
                       self.comparisons, self.smallest_n, self.alikeness, self.valid,
                       self.verdicts, self.ideals)


Reader = Callable[[str], Published]
"""Has the data of a name."""


def trimmed(summary: Summary) -> Published:
    """What is to be kept: no place of the machine, and of what was observed figures alone."""
    m = summary.results.manifest
    return Published(
        manifest=replace(m, command=kept.command(m.command)), comparisons=summary.comparisons,
        smallest_n=summary.smallest_n, alikeness=summary.alikeness, valid=summary.valid,
        warnings=summary.results.warnings, invalid=tuple(footer.invalid_notes(summary)),
        verdicts=summary.verdicts, ideals=summary.ideals,
        cells=tuple(replace(cell, observed=_figures(cell.observed)) for cell in summary.cells))


def _figures(seen: Observed | None) -> Observed | None:
    if seen is None:
        return None
    times = seen.flushes and tuple(replace(one, buckets=()) for one in seen.flushes)
    return replace(seen, counters={}, waits=(), host={}, window_costs=(), flushes=times)


def read(name: str, folder: Path = FOLDER) -> Published:
    """The data of that name; UsageError when there are none or they are damaged."""
    file = folder / "data" / f"{name}.json"
    if not file.is_file():
        raise UsageError(f"{file} is not there: publish {name} first.")
    return jsonlines.read(Published, file)


def reader(folder: Path = FOLDER) -> Reader:
    """`read`, which reads each file once."""
    return cache(lambda name: read(name, folder))


def names(folder: Path = FOLDER) -> list[str]:
    """Of all data that there are."""
    return sorted(file.stem for file in (folder / "data").glob("*.json"))


def block(name: str, published: Published) -> str:
    """What stands between the markers in a page."""
    summary = published.summary()
    m = summary.results.manifest
    shown = [one for workload in m.workloads
             for one in (*table.main_grids(summary, workload),
                         *grids.waits(summary, workload),
                         *grids.flush_means(summary, workload))]
    parts = [f"![{m.experiment}: figures against the number of VMs]({name}.svg)",
             *markdown.verdict(summary), *map(markdown.grid, shown),
             "<details><summary>How to read it</summary>",
             markdown.items([*table.notes(summary), *published.invalid]), "</details>",
             markdown.provenance(summary)]
    return "\n" + "\n\n".join(parts) + "\n\n"


def picture(name: str, published: Published) -> str:
    """NAME.svg."""
    from lab.report import pictures  # loads matplotlib

    return LICENSE + pictures.overview(name, published.summary()).svg


def pictures(folder: Path = FOLDER, data: Reader | None = None) -> Iterator[tuple[Path, str]]:
    """Each picture by the data, and where it is to be."""
    data = data or reader(folder)
    for name in names(folder):
        yield folder / f"{name}.svg", picture(name, data(name))
    for kind, one in kept.KINDS.items():
        if one.picture is None:
            continue
        for name in one.names(folder / "data"):
            if svg := one.picture(one.place(folder / "data", name)):
                yield folder / f"{kind}-{name}.svg", LICENSE + svg


def pages(folder: Path = FOLDER, data: Reader | None = None) -> Iterator[tuple[Path, str, str]]:
    """Each page with blocks: its text, and what it has to be by the data."""
    data = data or reader(folder)
    texts = _texts(folder)
    where = {(found["kind"], found["name"]): page.name for page, text in reversed(texts.items())
             for found in BLOCK.finditer(text)}

    def made(kind: str, name: str) -> str:
        if kind == "data":
            return block(name, data(name))
        if kind == "verdicts":
            return _overview(folder, data, where)
        if kind == "claims":
            return claims.block(folder / "data", where)
        if kind == "papers":
            return kept.overview(folder / "data", where)
        return kept.KINDS[kind].block(folder / "data", name)

    def body(found: re.Match[str]) -> str:
        return found["head"] + made(found["kind"], found["name"]) + found["end"]

    for page, text in texts.items():
        if BLOCK.search(text):
            yield page, text, BLOCK.sub(body, text)


def _texts(folder: Path) -> dict[Path, str]:
    """All pages, by name."""
    return {page: page.read_text() for page in sorted(folder.glob("*.md"))}


def _overview(folder: Path, data: Reader, where: kept.Where) -> str:
    """The verdicts of all data: a row for each scheme, bold where it differs.

    `where` has the page of each.
    """
    all_data = [(name, data(name)) for name in names(folder)]
    counts = sorted({vms for _, one in all_data for vms in one.manifest.vms})
    heads = ["figures", "scheme", "against", *grids.columns(tuple(counts))]
    rows = [heads, ["---"] * len(heads)]
    for name, one in all_data:
        m, page = one.manifest, where.get(("data", name))
        about = f"[{name}]({page}), {m.vcpus} vCPUs on {m.pcpus}" if page else name
        for scheme in dict.fromkeys(verdict.scheme for verdict in one.verdicts):
            own = {verdict.vms: opening.short(verdict) for verdict in one.verdicts
                   if verdict.scheme == scheme}
            same = scheme in placebo.labels(m) and scheme != "placebo"
            rows.append([about, scheme + " (placebo)" * same, m.baseline,
                         *(own.get(vms, "-") for vms in counts)])
            about = ""
    return "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n\n"


def publish(directory: Path, name: str, folder: Path = FOLDER) -> list[Path]:
    """Keep the data of a result directory under that name; what was written.

    UsageError when it is no result directory, or nobody could make it again.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"The name {name} must be small letters, digits and hyphens.")
    kind, place, text, title, commits = _kept(directory, name, folder)
    for commit in commits:
        if not provenance.is_known(commit):
            raise UsageError(f"{directory} was made at commit {commit or 'unknown'}, which is"
                             " not in the history of this one: nobody could make it again.")
    place.parent.mkdir(parents=True, exist_ok=True)
    records.replace(place, text)
    if not any((found["kind"], found["name"]) == (kind, name) for text in _texts(folder).values()
               for found in BLOCK.finditer(text)):
        page = folder / (f"{name}.md" if kind == "data" else f"{kind}-{name}.md")
        before = page.read_text().rstrip() + "\n" if page.exists() else f"{LICENSE}# {title}\n"
        records.replace(page, f"{before}\n<!-- {kind}: {name} -->\n<!-- end -->\n")
    return [place, *render(folder)]


def _kept(directory: Path, name: str,
          folder: Path) -> tuple[str, Path, str, str, tuple[str, ...]]:
    """Of a directory: its kind, the file to keep and its text, a title, and commits."""
    for kind, one in kept.KINDS.items():
        if (directory / one.file).is_file():
            text, title, commits = one.kept(directory / one.file)
            return kind, one.place(folder / "data", name), text, title, commits
    if (directory / PARTS).is_dir():
        raise UsageError(f"{directory} has rows of a sweep and no {swept.FILE}:"
                         f" {swept.remake(directory)}")
    summary = summarize(load(directory))
    m = summary.results.manifest
    return ("data", folder / "data" / f"{name}.json", jsonlines.as_json(trimmed(summary)),
            m.experiment, (m.commit,))


def render(folder: Path = FOLDER) -> list[Path]:
    """Make pictures and blocks of all data again; those that have changed."""
    data = reader(folder)
    made = dict(pictures(folder, data))
    made |= {page: wanted for page, _, wanted in pages(folder, data)}
    changed = [file for file, text in made.items()
               if not file.exists() or file.read_text() != text]
    for file in changed:
        records.replace(file, made[file])
    return changed
