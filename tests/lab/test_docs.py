# SPDX-License-Identifier: GPL-2.0-only
"""The pages: no prose is too wide, and every link within the repository leads somewhere.

The kernel's comments: no sentence is too long, and no line of the locks is too wide.
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
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEAD = re.compile(r"^#+ (.*)$", re.MULTILINE)

WORDS = 30
"""The most that a sentence of a comment has."""
COLUMNS = 80
"""The most that a line of the locks has, but for messages, which nobody may break."""
OVERLAY = paths.ROOT / "kernel/overlay"
ROOMS = ("kernel/pvsync", "include", "arch/x86/include")
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


PROGRAMS = {
    "tests/locks": {name.partition("/")[2] for name in locks.programs()},
    "tests/policy": {*policy.RUNNERS},
}
"""What their Makefiles build, by folder."""


def mechanisms() -> Iterator[tuple[str, str, str]]:
    """Name, hooks and test of each row of the kernel's map."""
    text = (paths.KERNEL / "README.md").read_text().partition("\n## Mechanisms\n")[2]
    for line in text.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "mechanism":
            assert len(cells) == 6, line
            yield cells[0], cells[2], cells[5]


def test_each_mechanism_names_its_patches() -> None:
    """Both bases have each of them, and no patch is without a mechanism."""
    named = {number for _, hooks, _ in mechanisms() for number in re.findall(r"\b\d{4}\b", hooks)}
    for folder in (paths.KERNEL / "series", *paths.KERNEL.glob("bases/*/series")):
        assert named == {patch.name[:4] for patch in folder.glob("*.patch")}, folder


def test_each_mechanism_names_a_test_that_is_there() -> None:
    rows = list(mechanisms())
    assert len(rows) >= 30
    for name, _, test in rows:
        folder, _, programs = test.partition(": ")
        known = PROGRAMS.get(folder.strip("`"))
        if known is not None:
            there = set(re.findall(r"`([\w-]+)`", programs))
            assert there and there <= known, f"{name}: {test}"
        else:
            files = re.findall(r"`(tests/[\w/]+\.py)`", test)
            assert files and all((paths.ROOT / file).is_file() for file in files), f"{name}: {test}"
            assert test.startswith(("`", "in a boot: ")), f"{name}: {test}"


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
