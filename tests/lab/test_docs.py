# SPDX-License-Identifier: GPL-2.0-only
"""The pages: no prose and no row is too wide, and every link within the repository leads somewhere.

The pages and the kernel's comments: no sentence is too long. No line of the locks is too wide.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.core import paths
from tests.locks import check as locks
from tests.policy import check as policy

WIDTH = 100
PAGES = sorted(
    str(inside) for inside in (page.relative_to(paths.ROOT) for page in paths.ROOT.rglob("*.md"))
    if inside.parts[0] != "results" and not any(part.startswith(".") for part in inside.parts))
"""All but what runs have left."""
CODE = re.compile(r"`[^`]{40,}`")
"""A command that is to be copied is one line."""
ROW = 160
"""The most that a row of a table has; what is longer goes into the text below."""
WIDE_ROWS = {"docs/install.md", "docs/operators.md"}
"""Pages with rows that are wider, besides those of results."""
NARROW = [page for page in PAGES
          if page not in WIDE_ROWS and not page.startswith("docs/results/")]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEAD = re.compile(r"^#+ (.*)$", re.MULTILINE)

WORDS = 30
"""The most that a sentence has."""
COLUMNS = 80
"""The most that a line of the locks has, but for messages, which nobody may break."""
OVERLAY = paths.ROOT / "kernel/overlay"
ROOMS = ("kernel/pvsync", "include", "arch/x86/include", "arch/x86/kvm/pvsync")
SOURCES = sorted(str(file.relative_to(OVERLAY)) for room in ROOMS
                 for file in (OVERLAY / room).rglob("*.[ch]"))
LOCKS = [
    "arch/x86/include/asm/pvsync_spinlock.h",
    *(f"include/linux/pvsync/{name}.h" for name in
      ("help", "lock_stat", "park", "pmt_lock", "rwlock")),
    *(f"kernel/pvsync/{name}" for name in
      ("help.c", "help_qspinlock.c", "lock_stat.c", "locks.c", "locks.h", "park.c", "pmt_lock.c",
       "pmt_wait.h", "pv_lock.c", "pv_sleepers.h", "rwlock.c")),
]
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
BEGIN = re.compile(r"\s*([-*]|\d+\.|\(?[a-z]\d[,:]|@[\w.]+:|[A-Z]\w+:)\s")
"""An item of a list, or a part of kernel-doc."""
FIGURE = re.compile(r"\S\t+\S|\S {2,}\S|[-=+|]{3}")
"""A line of a table or of a drawing."""
COLON = re.compile(r"(?<=[.?!:])\)?\**\s+(?=[\"(*`\[]*[\w-])")
END = re.compile(r"(?<=[.?!])\)?\s+(?=[\"(]?[\w@])")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is no table, no head, and in no block of code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "#", "    ", "<!--")):
            yield number, line


def anchors(text: str) -> set[str]:
    """What its heads are called in links."""
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in HEAD.findall(text)}


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_prose_is_too_wide(page: str) -> None:
    wide = [number for number, line in prose((paths.ROOT / page).read_text())
            if len(line) > WIDTH and not CODE.search(line)]
    assert not wide, f"{page}: lines {wide}"


@pytest.mark.parametrize("page", NARROW)
def test_no_row_of_a_table_is_too_wide(page: str) -> None:
    wide = [number for number, line in enumerate((paths.ROOT / page).read_text().splitlines(), 1)
            if line.startswith("|") and len(line) > ROW]
    assert not wide, f"{page}: lines {wide}"


@pytest.mark.parametrize("page", PAGES)
def test_no_wrapped_line_begins_a_list(page: str) -> None:
    """Lists have dashes here: a star or a plus is a figure's, and would be shown as an item."""
    lists = [number for number, line in prose((paths.ROOT / page).read_text())
             if re.match(r" *[*+] ", line)]
    assert not lists, f"{page}: lines {lists}"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    file = paths.ROOT / page
    for link in LINK.findall(file.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        there: Path = (file.parent / target).resolve() if target else file
        assert there.exists(), f"{page}: {link}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text()), f"{page}: {link}"


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_of_prose_is_too_long(page: str) -> None:
    """A colon ends one; names in code and where links lead are not counted."""
    text = re.sub(r"(?<=\])\([^)]*\)", "", (paths.ROOT / page).read_text())
    long = [f"{page}: {words(said)} words: {said}" for said in prose_sentences(text)
            if words(re.sub(r"`[^`]*`", "", said)) > WORDS]
    assert not long, "\n".join(long)


def test_a_sentence_that_is_too_long_is_found() -> None:
    said = [*prose_sentences(f"# Head\n{'word ' * 31}end.\n\n- one:\n  two. Three\n\n| a row |\n")]
    assert [words(one) for one in said] == [32, 1, 1, 1]


PROGRAMS = {
    "tests/locks": {name.partition("/")[2] for name in locks.programs()},
    "tests/policy": {*policy.RUNNERS},
}
"""What their Makefiles build, by folder."""


PARTS = {"Files": 4, "Parameters and counters": 3, "Hooks and tests": 3}
"""The tables of the kernel's map, and how many columns each has."""
FOLDERS = ("kernel/pvsync", "include/linux/pvsync", "arch/x86/kvm/pvsync")
"""Where the files of the first table's columns are."""


def mechanisms(part: str, columns: int) -> list[list[str]]:
    """The rows of a part of the kernel's map, each with as many cells; the first is the name."""
    text = (paths.KERNEL / "README.md").read_text().partition("\n## Mechanisms\n")[2]
    text = text.partition("\n## ")[0].partition(f"\n### {part}\n")[2].partition("\n### ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
            for line in lines[1:]]
    assert all(len(row) == columns for row in rows), part
    return rows


@pytest.mark.parametrize("part", PARTS)
def test_each_mechanism_is_in_each_part(part: str) -> None:
    names = [name for name, *_ in mechanisms(part, PARTS[part])]
    assert len(names) >= 30 and len(set(names)) == len(names)
    assert names == [name for name, *_ in mechanisms("Files", PARTS["Files"])]


def test_each_mechanism_names_files_that_are_there() -> None:
    """And each source of the kernel's side is of a mechanism."""
    named = {f"{folder}/{file}" for _, *cells in mechanisms("Files", PARTS["Files"])
             for folder, cell in zip(FOLDERS, cells, strict=True)
             for file in re.findall(r"`([^`]+)`", cell)}
    assert all((OVERLAY / file).is_file() for file in named), named
    sources = {str(file.relative_to(OVERLAY)) for folder in FOLDERS
               for file in (OVERLAY / folder).glob("*.c")}
    assert sources <= named


def test_each_mechanism_names_its_patches() -> None:
    """Both bases have each of them, and no patch is without a mechanism."""
    named = {number for _, hooks, _ in mechanisms("Hooks and tests", 3)
             for number in re.findall(r"\b\d{4}\b", hooks)}
    for folder in (paths.KERNEL / "series", *paths.KERNEL.glob("bases/*/series")):
        assert named == {patch.name[:4] for patch in folder.glob("*.patch")}, folder


def test_each_mechanism_names_a_test_that_is_there() -> None:
    for name, _, test in mechanisms("Hooks and tests", 3):
        folder, _, programs = test.partition(": ")
        known = PROGRAMS.get(folder.strip("`"))
        if known is not None:
            there = set(re.findall(r"`([\w-]+)`", programs))
            assert there and there <= known, f"{name}: {test}"
        else:
            files = re.findall(r"`(tests/[\w/]+\.py)`", test)
            assert files and all((paths.ROOT / file).is_file() for file in files), f"{name}: {test}"
            assert test.startswith(("`", "in a boot: ")), f"{name}: {test}"


def test_each_sweep_is_on_its_page() -> None:
    """In the table, and as one that was run or was not."""
    page = (paths.ROOT / "docs/sweeps.md").read_text()
    table, _, seen = page.partition("\n## What was seen\n")
    for file in (paths.LAB / "sweeps").glob("*.toml"):
        assert f"\n| `{file.name}` |" in table, file.name
        assert f"`{file.name}`" in seen, file.name


def sentences(comment: str) -> Iterator[str]:
    """What a comment says: each paragraph, item and line of a table by itself, in sentences."""
    paragraphs: list[list[str]] = [[]]
    for line in comment.splitlines():
        text = re.sub(r"^\s*\*( |$)", "", line)
        if not text.strip() or BEGIN.match(text) or FIGURE.search(text):
            paragraphs.append([])
        paragraphs[-1].append(text.strip())
    for paragraph in paragraphs:
        yield from END.split(" ".join(paragraph))


def prose_sentences(text: str) -> Iterator[str]:
    """Of each paragraph and item by itself."""
    paragraph, before = list[str](), 0
    for number, line in prose(text):
        if not line.strip() or BEGIN.match(line) or number != before + 1:
            yield from filter(None, COLON.split(" ".join(paragraph)))
            paragraph = []
        paragraph.append(line.strip())
        before = number
    yield from filter(None, COLON.split(" ".join(paragraph)))


def words(sentence: str) -> int:
    """How many words it has; an arrow or a dash is none."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


@pytest.mark.parametrize("source", SOURCES)
def test_no_sentence_of_a_comment_is_too_long(source: str) -> None:
    text = (OVERLAY / source).read_text()
    long = [f"{source}:{text.count(chr(10), 0, comment.start()) + 1}: {words(said)} words: {said}"
            for comment in COMMENT.finditer(text)
            for said in sentences(comment[1]) if words(said) > WORDS]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("source", LOCKS)
def test_no_line_of_the_locks_is_too_wide(source: str) -> None:
    wide = [f"{source}:{number}: {line}"
            for number, line in enumerate((OVERLAY / source).read_text().splitlines(), 1)
            if len(line.expandtabs(8)) > COLUMNS and not re.match(r'\s*pr_\w+\("', line)]
    assert not wide, "\n".join(wide)
