# SPDX-License-Identifier: GPL-2.0-only
"""Pages for Linux's Documentation, and MAINTAINERS: their form, their numbers, what they do not do.

No kernel is another one for them, and no budget of hooks counts them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docutils import core, nodes, utils
from docutils.parsers.rst import Directive, directives

from lab.build import base, documents, kernel, series
from lab.core import paths
from tests.lab import fake_linux as fake

OVERLAY = paths.KERNEL / "overlay"
PAGES = sorted((OVERLAY / "Documentation").rglob("*.rst"))
ABI = OVERLAY / "include/linux/pvsync/abi.h"
DEFINED = re.compile(r"^#define ((?:PVSYNC_(?:HC|FEATURE|CPUID)|KVM_CAP|MSR)_\w+)\t+"
                     r"(?:(0x\w+)|\(1UL << (\d+)\))", re.MULTILINE)
WRITTEN = (
    re.compile(r"^(\w+)\n-+\n(?:\n|:(?!Number).*\n)*:Number: (0x\w+)", re.MULTILINE),
    re.compile(r"^(PVSYNC_HC_\w+) +(0x\w+)", re.MULTILINE),
    re.compile(r"^function: (\w+) \((0x\w+)\)", re.MULTILINE),
    re.compile(r"^(MSR_\w+):\n +(0x\w+)", re.MULTILINE),
    re.compile(r"^(PVSYNC_FEATURE_\w+) +(\d+) ", re.MULTILINE),
)
"""A name and its number: a section, a row, a leaf, an MSR, a bit."""
CPUID = ("PVSYNC_CPUID_BASE", "PVSYNC_CPUID_FEATURES")


class Toctree(Directive):
    """A list of pages, which Sphinx has and docutils has not."""

    has_content = True
    option_spec = {"maxdepth": int}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """Nothing to show."""
        return []


directives.register_directive("toctree", Toctree)


def added(patch: Path) -> dict[str, str]:
    """What a patch adds to each file, the lines in one piece."""
    texts: dict[str, str] = {}
    name = ""
    for line in patch.read_text().partition("\ndiff --git")[2].splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/")
        elif line.startswith("+") and name:
            texts[name] = texts.get(name, "") + line[1:] + "\n"
    return texts


def hooks() -> list[Path]:
    """The folders of hooks, one for each base."""
    return [series.of_version(f"{name}.0") for name in base.names()]


def described(folder: Path) -> dict[str, str]:
    """What the hooks of a base add to Linux's own pages."""
    return {name: text for path in series.patch_files(folder) if series.is_for_readers(path)
            for name, text in added(path).items() if name.endswith(".rst")}


def complaints(text: str) -> list[str]:
    """Warnings and errors of docutils about a page."""
    document = core.publish_doctree(text, settings_overrides={"warning_stream": False})
    return [message.astext() for message in document.findall(nodes.system_message)
            if message["level"] >= utils.Reporter.WARNING_LEVEL]


def numbers(text: str) -> Iterator[tuple[str, int]]:
    """Names of the ABI in a page, with the number that it gives each."""
    for form in WRITTEN:
        for name, number in form.findall(text):
            yield name, int(number, 0)


def defined() -> dict[str, int]:
    """The numbers that host and guest are compiled with."""
    return {name: int(value or bit, 0) for name, value, bit in DEFINED.findall(ABI.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_pages_are_valid(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(".. SPDX-License-Identifier: GPL-2.0\n\n")
    assert not complaints(text)


@pytest.mark.parametrize("folder", hooks(), ids=base.names())
def test_what_hooks_add_to_pages_is_valid(folder: Path) -> None:
    texts = described(folder)
    assert {Path(name).name for name in texts} == {
        "api.rst", "cpuid.rst", "hypercalls.rst", "index.rst", "msr.rst"}
    for name, text in texts.items():
        assert not complaints(text), name


def test_a_damaged_page_is_seen() -> None:
    (page,) = (page for page in PAGES if page.name == "cpuid-msr.rst")
    text = page.read_text()
    assert complaints(text.replace("======= ====", "====== =====", 1))
    assert complaints(text.replace("MSR_PVSYNC_ECS\n-----", "MSR_PVSYNC_ECS\n--", 1))


def test_index_lists_every_page() -> None:
    (index,) = (page for page in PAGES if page.name == "index.rst")
    listed = index.read_text().partition(":maxdepth: 1\n")[2].split()
    assert listed == sorted(page.stem for page in PAGES if page != index)


def test_pages_have_the_numbers_of_the_abi() -> None:
    known = defined()
    ours = dict(pair for page in PAGES for pair in numbers(page.read_text()))
    assert len(known) > 10
    assert ours == {name: number for name, number in known.items() if name not in CPUID}
    for folder in hooks():
        linux = dict(pair for text in described(folder).values() for pair in numbers(text))
        assert linux == {name: number for name, number in known.items() if "CAP" not in name}


def test_pages_name_the_leaves() -> None:
    (page,) = (page for page in PAGES if page.name == "cpuid-msr.rst")
    for name in CPUID:
        assert f"\n0x{defined()[name]:08x} " in page.read_text()


def test_maintainers_name_every_file() -> None:
    names = [str(path.relative_to(OVERLAY)) for path in OVERLAY.rglob("*") if path.is_file()]
    for folder in hooks():
        (patch,) = (path for path in series.patch_files(folder)
                    if documents.MAINTAINERS in added(path))
        entry = documents.ENTRY.search(added(patch)[documents.MAINTAINERS])
        assert entry
        assert not documents.unmatched(documents.PATTERN.findall(entry[1]), names)


@pytest.mark.parametrize(("pattern", "name", "whether"), [
    ("kernel/pvsync/", "kernel/pvsync/checks/new.c", True),
    ("kernel/pvsync/*", "kernel/pvsync/checks/new.c", False),
    ("kernel/pvsync/*.c", "kernel/pvsync/new.c", True),
    ("kernel/pvsync", "kernel/pvsync/new.c", False),
])
def test_patterns(pattern: str, name: str, whether: bool) -> None:
    assert documents.unmatched([pattern], [name]) == ([] if whether else [
        f"MAINTAINERS: no F: line names {name}",
        f"MAINTAINERS: `F: {pattern}` names no file of ours"])


SELF_TEST = """\
open(my $file, '<', 'MAINTAINERS');
while (<$file>) { print "MAINTAINERS:$.: no status PVSYNC\\n" if /^PVSYNC BAD/; }
"""


@pytest.mark.parametrize(("entry", "problem"), [
    ("PVSYNC (X)\nS:\tMaintained\nF:\tkernel/new.c\n\n", ""),
    ("PVSYNC BAD\nF:\tkernel/new.c\n\n", "MAINTAINERS:1: no status PVSYNC"),
    ("PVSYNC (X)\nF:\tkernel/\nF:\tmm/\n\n", "MAINTAINERS: `F: mm/` names no file of ours"),
    ("OTHERS\nF:\tkernel/\n\n", "MAINTAINERS has no entry whose name begins with PVSYNC"),
])
def test_entry(tmp_path: Path, entry: str, problem: str) -> None:
    tree = fake.make_tree(tmp_path / "linux")
    (tree / "scripts").mkdir()
    (tree / "scripts/get_maintainer.pl").write_text(SELF_TEST)
    rendered = tmp_path / "rendered"
    rendered.mkdir()
    assert documents.problems(tree, ["kernel/new.c"], rendered) == []
    (rendered / "MAINTAINERS").write_text(entry)
    found = documents.problems(tree, ["kernel/new.c"], rendered)
    assert found == ([problem] if problem else [])


def test_no_kernel_is_another_one_for_a_page(tmp_path: Path) -> None:
    overlay, patches = tmp_path / "overlay", tmp_path / "series"
    tree = fake.make_tree(tmp_path / "linux")
    fake.add_overlay(overlay)
    fake.add_patch(patches, 1, fake.make_patch(tree, "kernel/fork.c", "fork;", "fork, knife;"))
    before, count = kernel.sources_hash(overlay, patches), series.count(patches)
    fake.add_overlay(overlay, "Documentation/new.rst", "New\n===\n")
    page = tree / "Documentation/old.rst"
    page.parent.mkdir()
    page.write_text("old\n")
    fake.add_patch(patches, 2, fake.make_patch(tree, "Documentation/old.rst", "old", "older"))
    assert kernel.sources_hash(overlay, patches) == before
    after = series.count(patches)
    assert (after.patches, after.files, after.added, after.documented) == (
        count.patches + 1, count.files, count.added, 1)
    fake.add_overlay(overlay, "kernel/newer.c", "int newer;\n")
    assert kernel.sources_hash(overlay, patches) != before
