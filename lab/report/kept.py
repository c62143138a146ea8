# SPDX-License-Identifier: GPL-2.0-only
"""What is kept in docs/results/data of papers that were reproduced, sensitivities and sweeps.

`data/papers/NAME.json` gives `<!-- paper: NAME -->`, `data/sensitivity/NAME.json` gives
`<!-- sensitivity: NAME -->`, `data/sweeps/NAME.json` gives `<!-- sweep: NAME -->`. Papers and
sweeps have a picture, too. `<!-- papers -->` is a row for each paper.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lab.core.errors import UsageError
from lab.plan import papers
from lab.report import jsonlines, paper_page, sensitivity, swept, swept_page

PLACES = ("--out", "--resume", "--jobs")
"""Options of a command that change no figure, and name places of one machine."""
Where = Mapping[tuple[str, str | None], str]
"""The page that has the block of a kind and a name."""


@dataclass(frozen=True)
class Kind:
    """One kind of data."""

    folder: str
    """Of docs/results/data."""
    file: str
    """By which a result directory of it is known."""
    kept: Callable[[Path], tuple[str, str, tuple[str, ...]]]
    """Of that file: what is to be kept, a title for a page, and the commits that made it."""
    shown: Callable[[Path], str]
    """Of what is kept: the block."""
    picture: Callable[[Path], str | None] | None = None
    """The same: the picture as SVG, if there is anything to draw."""

    def place(self, data: Path, name: str) -> Path:
        """The file that holds this name."""
        return data / self.folder / f"{name}.json"

    def block(self, data: Path, name: str) -> str:
        """What stands between the markers; UsageError without data."""
        file = self.place(data, name)
        if not file.is_file():
            raise UsageError(f"{file} is not there: publish {name} first.")
        return f"\n{self.shown(file).strip()}\n\n"

    def names(self, data: Path) -> list[str]:
        """Of all that are kept."""
        return sorted(file.stem for file in (data / self.folder).glob("*.json"))


def command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without the places where one machine keeps things."""
    kept, skip = list[str](), False
    for word in words:
        if not skip and not word.startswith(tuple(f"{name}=" for name in PLACES)) \
                and word not in PLACES:
            kept.append(Path(word).name if word.startswith("/") else word)
        skip = word in PLACES and not skip
    return tuple(kept)


def _paper(file: Path) -> tuple[str, str, tuple[str, ...]]:
    found = paper_page.read(file)
    rows = tuple(replace(one, command=command(one.command)) for one in found.rows)
    return (jsonlines.as_json(replace(found, command=command(found.command), rows=rows)),
            papers.load(found.paper).title, tuple(one.commit for one in found.rows))


def _sensitivity(file: Path) -> tuple[str, str, tuple[str, ...]]:
    found = sensitivity.read(file)
    return (jsonlines.as_json(replace(found, command=command(found.command))),
            found.title, (found.commit,))


def _sweep(file: Path) -> tuple[str, str, tuple[str, ...]]:
    found = swept.current(file)
    return (jsonlines.as_json(replace(found, command=command(found.command))),
            f"Sweep {found.sweep.name}: {found.sweep.about}", found.facts.commits)


def _paper_picture(file: Path) -> str | None:
    from lab.report import paper_picture  # loads matplotlib

    drawn = paper_picture.overview(f"paper-{file.stem}", paper_page.read(file))
    return drawn.svg if drawn else None


def _sweep_picture(file: Path) -> str | None:
    from lab.report import swept_pictures  # loads matplotlib

    found = swept.read(file)
    if found.hunted:
        return None
    return swept_pictures.overview(f"sweep-{file.stem}", found, swept_page.chosen(found)).svg


KINDS = {
    "paper": Kind("papers", paper_page.FILE, _paper,
                  lambda file: paper_page.body(paper_page.read(file), picture=f"paper-{file.stem}"),
                  _paper_picture),
    "sensitivity": Kind("sensitivity", sensitivity.FILE, _sensitivity,
                        lambda file: sensitivity.as_markdown(sensitivity.read(file))),
    "sweep": Kind("sweeps", swept.FILE, _sweep, lambda file: swept_page.block(
        f"sweep-{file.stem}", swept.read(file)), _sweep_picture),
}


def overview(data: Path, where: Where) -> str:
    """A row for each paper: its page, and what was found of its claims."""
    kind = KINDS["paper"]
    rows = ["| paper | its claims here | played with |", "| --- | --- | --- |"]
    for name in kind.names(data):
        kept = paper_page.read(kind.place(data, name))
        page = where.get(("paper", name))
        rows.append(f"| {f'[{name}]({page})' if page else name} | {paper_page.counted(kept)} |"
                    f" {'small loads, few seeds' if kept.quick else 'whole loads'} |")
    return "\n" + "\n".join(rows) + "\n\n"
