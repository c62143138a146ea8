# SPDX-License-Identifier: GPL-2.0-only
"""Patch mails for the bare base: what applies and is clean passes, all else is named."""

import re
from pathlib import Path

import pytest

from lab.build import kernel, prerequisites, rfc, series
from lab.core import paths
from lab.core.errors import LabError, UsageError
from tests.lab import fake_linux as fake

CHECKPATCH = """\
my $bad = 0;
open(my $patch, '<', $ARGV[-1]);
while (<$patch>) { if (/^[+].*BAD/) { print "$ARGV[-1]:$.: ERROR: BAD\\n"; $bad = 1; } }
exit $bad;
"""
NEW_FILE = """\
Subject: [RFC PATCH 2/2] tools: Add a file

---
diff --git a/tools/new.c b/tools/new.c
new file mode 100644
--- /dev/null
+++ b/tools/new.c
@@ -0,0 +1 @@
+int new;
"""

COVER = """\
Subject: [RFC PATCH 0/2] A cover
 letter

pvsync developers (2):
  locking: Call
    the hook
  tools: Add a file
"""
LATER_COVER = """\
Subject: [RFC PATCH 0/1] A cover letter

pvsync developers (1):
  locking: Call another hook

prerequisite-patch-id: {}
prerequisite-patch-id: {}
"""
ROWS = (paths.KERNEL / "README.md").read_text()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = fake.make_tree(tmp_path / "linux")
    (tree / "scripts").mkdir()
    (tree / "scripts/checkpatch.pl").write_text(CHECKPATCH)
    return tree


@pytest.fixture
def mails(tmp_path: Path, tree: Path) -> Path:
    folder = tmp_path / "rfc/01-boundary"
    folder.parent.mkdir()
    change = fake.make_patch(tree, "kernel/lock.c", "line 20\n", "line 20\nhook();\n")
    fake.add_patch(folder, 1, change.replace("[PATCH]", "[RFC PATCH 1/2]"))
    (folder / "0002-tools-new.patch").write_text(NEW_FILE)
    (folder / "0000-cover-letter.patch").write_text(COVER)
    return folder


@pytest.fixture
def later(tmp_path: Path, tree: Path, mails: Path) -> Path:
    """A folder whose patch changes the line that the first patch of `mails` adds."""
    folder = tmp_path / "rfc/02-later"
    whole = tmp_path / "whole"
    kernel.sync_tree(tree, whole, kernel.NOTHING, mails, adds=True)
    change = fake.make_patch(whole, "kernel/lock.c", "hook();\n", "hook();\nlater();\n")
    change = change.replace("Call the hook", "Call another hook")
    fake.add_patch(folder, 1, change.replace("[PATCH]", "[RFC PATCH 1/1]"))
    ids = [prerequisites.patch_id(path) for path in series.patches(mails)]
    (folder / "0000-cover-letter.patch").write_text(LATER_COVER.format(*ids))
    return folder


def test_all_is_well(tree: Path, mails: Path) -> None:
    assert rfc.check(tree, mails) == rfc.Result("01-boundary", 2, ())
    assert not (tree / "tools").exists()


def test_a_tree_has_the_patches_and_their_new_files(
        tree: Path, mails: Path, tmp_path: Path) -> None:
    """What a variant with a proposal is built from; one without takes it all back."""
    work = tmp_path / "src"
    kernel.sync_tree(tree, work, kernel.NOTHING, mails, adds=True)
    assert (work / "tools/new.c").read_text() == "int new;\n"
    assert "hook();" in (work / "kernel/lock.c").read_text()
    kernel.sync_tree(tree, work, kernel.NOTHING, kernel.NOTHING)
    assert not (work / "tools/new.c").exists()
    assert "hook();" not in (work / "kernel/lock.c").read_text()


def test_a_folder_stands_on_others(tree: Path, mails: Path, later: Path, tmp_path: Path) -> None:
    """What it needs is applied first, and read with its own folder alone."""
    bad = mails / "0002-tools-new.patch"
    bad.write_text(NEW_FILE.replace("int new", "int BAD"))
    (later / "0000-cover-letter.patch").write_text(
        LATER_COVER.format(*map(prerequisites.patch_id, series.patches(mails))))
    assert rfc.check(tree, later) == rfc.Result("02-later", 1, ())
    kernel.sync_tree(tree, tmp_path / "src", kernel.NOTHING, later, adds=True)
    assert "hook();\nlater();" in (tmp_path / "src/kernel/lock.c").read_text()
    before = kernel.sources_hash(kernel.NOTHING, later)
    other = later.with_name("03-other")
    later.rename(other)
    (other / "0000-cover-letter.patch").write_text("Subject: [RFC PATCH 0/1] A cover letter\n")
    assert kernel.sources_hash(kernel.NOTHING, other) != before


def test_what_a_folder_stands_on_is_there(tree: Path, mails: Path, later: Path) -> None:
    """Another patch has another id, and a cover letter is none of the patches."""
    (first,) = (path for path in series.patches(mails) if "0001" in path.name)
    first.write_text(first.read_text().replace("hook();", "other();"))
    with pytest.raises(UsageError, match=r"02-later stands on a patch .* no folder beside it has"):
        rfc.check(tree, later)
    first.write_text("Subject: nothing\n")
    with pytest.raises(LabError, match="changes nothing"):
        prerequisites.patch_id(first)


def test_a_patch_is_the_same_wherever_its_lines_are(mails: Path) -> None:
    path, _ = series.patches(mails)
    before = prerequisites.patch_id(path)
    moved = re.sub(r"^@@ -(\d+)", lambda found: f"@@ -{int(found[1]) + 7}", path.read_text(),
                   flags=re.MULTILINE)
    assert moved != path.read_text()
    path.write_text(moved)
    assert prerequisites.patch_id(path) == before


def test_a_folder_is_known_by_its_name(
        mails: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rfc, "FOLDER", mails.parent)
    assert rfc.folder("01-boundary") == mails
    with pytest.raises(UsageError, match=r"no folder '02-none' .* 01-boundary"):
        rfc.folder("02-none")
    monkeypatch.setattr(rfc, "FOLDER", tmp_path / "none")
    with pytest.raises(UsageError, match="choose from none"):
        rfc.folder("01-boundary")


def test_only_folders_count(mails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rfc, "FOLDER", mails.parent)
    (mails.parent / "README.md").touch()
    assert rfc.folders() == [mails]
    monkeypatch.setattr(rfc, "FOLDER", mails.parent / "none")
    assert rfc.folders() == []


def test_objections_are_named(tree: Path, mails: Path) -> None:
    path = mails / "0002-tools-new.patch"
    path.write_text(NEW_FILE.replace("int new", "int BAD"))
    (problem,) = rfc.check(tree, mails).problems
    assert problem == "01-boundary/0002-tools-new.patch: 9: ERROR: BAD"


def test_without_checkpatch_it_is_said_what_to_do(tree: Path, mails: Path) -> None:
    (tree / "scripts/checkpatch.pl").unlink()
    with pytest.raises(UsageError, match=r"has no scripts/checkpatch\.pl.*give --tree a whole"):
        rfc.check(tree, mails)


def test_what_does_not_apply_is_named(tree: Path, mails: Path) -> None:
    (tree / "kernel/lock.c").write_text("a line more\n" + fake.LOCK_C)
    (problem,) = rfc.check(tree, mails).problems
    assert "1 line(s) down" in problem
    (tree / "kernel/lock.c").write_text(fake.LOCK_C.replace("line 20", "LINE 20"))
    (problem,) = rfc.check(tree, mails).problems
    assert "0001" in problem and "does not apply" in problem


def test_cover_letter_and_patches_are_missed(tree: Path, mails: Path) -> None:
    for path in mails.iterdir():
        path.unlink()
    assert len(rfc.check(tree, mails).problems) == 2


def test_numbers_and_titles_are_those_of_one_series(mails: Path) -> None:
    assert rfc.form(mails) == []
    path = mails / "0002-tools-new.patch"
    path.write_text(NEW_FILE.replace("2/2", "2/3"))
    (problem,) = rfc.form(mails)
    assert "0002-tools-new.patch has the number 2/3" in problem and "[RFC PATCH 2/2]" in problem
    path.write_text(NEW_FILE.replace("[RFC PATCH 2/2]", "[RFC]"))
    (problem,) = rfc.form(mails)
    assert "has the number of none" in problem
    path.write_text(NEW_FILE.replace("Add a file", "Add another"))
    (problem,) = rfc.form(mails)
    assert problem == "01-boundary: the cover letter does not list 'tools: Add another'"


@pytest.mark.parametrize("folder", rfc.folders(), ids=lambda folder: folder.name)
def test_every_folder_is_a_series_that_the_map_tells_of(folder: Path) -> None:
    """Whether it applies, and what checkpatch says, is for `./pvsync series check`."""
    assert rfc.form(folder) == []
    assert f"| `{folder.name}` |" in ROWS
    added = [line for path in folder.iterdir() for line in path.read_text().splitlines()
             if line.startswith("+")]
    assert [line for line in added if "pvsync" in line.lower()] == []
