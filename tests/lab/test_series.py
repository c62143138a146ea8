# SPDX-License-Identifier: GPL-2.0-only
"""Overlay and series: application, refusals, budget, and the way through git and back."""

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.build import base, gitseries, rfc, series
from lab.cli import series as series_cli
from lab.core.errors import LabError, UsageError
from tests.lab import fake_linux as fake


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return fake.make_tree(tmp_path / "linux")


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    fake.add_overlay(tmp_path / "overlay")
    return tmp_path / "overlay"


@pytest.fixture
def patches(tmp_path: Path, tree: Path) -> Path:
    fake.add_patch(
        tmp_path / "series",
        1,
        fake.make_patch(tree, "kernel/lock.c", "line 20\n", "line 20\nhook();\n"),
    )
    return tmp_path / "series"


def snapshot(tree: Path) -> dict[str, str]:
    return {
        str(path.relative_to(tree)): path.read_text()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(tree).parts
    }


def git(tree: Path, *args: str) -> str:
    who = ["-c", "user.name=Some Developer", "-c", "user.email=developer@example.org"]
    done = subprocess.run(
        ["git", *who, *args], cwd=tree, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_applies_strictly(tree: Path, overlay: Path, patches: Path) -> None:
    result = series.apply(tree, overlay, patches)
    assert "line 20\nhook();\nline 21\n" in (tree / "kernel/lock.c").read_text()
    assert (tree / "kernel/new.c").read_text() == "int new;\n"
    assert (result.overlay, result.changed) == (("kernel/new.c",), ("kernel/lock.c",))
    assert result.offsets == ()
    assert "patch: 0001-locking-hook.patch: strict" in result.log()
    assert not list(tree.rglob("*.orig")) + list(tree.rglob("*.rej"))


def test_moved_hunk_is_logged(tmp_path: Path, overlay: Path, patches: Path) -> None:
    moved = fake.make_tree(tmp_path / "later", 118, "a new line\nanother\n" + fake.LOCK_C)
    result = series.apply(moved, overlay, patches)
    assert "line 20\nhook();\nline 21\n" in (moved / "kernel/lock.c").read_text()
    (offset,) = result.offsets
    assert (offset.file, offset.hunk, offset.offset) == ("kernel/lock.c", 1, 2)
    assert "hunk 1 applied at line 20, 2 line(s) down" in result.log()


def test_changed_context_stops_and_names_patch_and_file(
    tmp_path: Path, overlay: Path, patches: Path
) -> None:
    # Fuzz would accept this: only the outermost line of the context differs.
    mutated = fake.LOCK_C.replace("line 23\n", "LINE 23\n")
    tree = fake.make_tree(tmp_path / "mutated", lock_c=mutated)
    before = snapshot(tree)
    with pytest.raises(
        LabError, match=r"0001-locking-hook.patch does not apply to kernel/lock.c \(hunk 1"
    ):
        series.apply(tree, overlay, patches)
    assert snapshot(tree) == before, "a refused series leaves the tree alone"


def test_later_patch_sees_the_earlier_one(tree: Path, overlay: Path, patches: Path) -> None:
    first = (tree / "kernel/lock.c").read_text()
    (tree / "kernel/lock.c").write_text(first.replace("line 20\n", "line 20\nhook();\n"))
    second = fake.make_patch(tree, "kernel/lock.c", "hook();\n", "hook(1);\n")
    (tree / "kernel/lock.c").write_text(first)
    fake.add_patch(patches, 2, second)
    series.apply(tree, overlay, patches)
    assert "hook(1);" in (tree / "kernel/lock.c").read_text()


def test_made_up_file_is_refused(tree: Path, overlay: Path, patches: Path) -> None:
    text = (patches / "0001-locking-hook.patch").read_text()
    fake.add_patch(patches, 2, text.replace("kernel/lock.c", "kernel/gone.c"))
    with pytest.raises(LabError, match=r"0002-locking-hook.patch: kernel/gone.c is not in"):
        series.apply(tree, overlay, patches)


def test_overlay_never_replaces_a_base_file(tree: Path, overlay: Path, patches: Path) -> None:
    fake.add_overlay(overlay, "kernel/fork.c", "int mine;\n")
    with pytest.raises(LabError, match=r"overlay's kernel/fork.c is already in"):
        series.apply(tree, overlay, patches)
    assert (tree / "kernel/fork.c").read_text() == fake.FORK_C


def test_applying_twice_is_refused(tree: Path, overlay: Path, patches: Path) -> None:
    series.apply(tree, overlay, patches)
    with pytest.raises(LabError, match="already"):
        series.apply(tree, overlay, patches)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("--- a/kernel/lock.c", "--- /dev/null", "creates kernel/lock.c"),
        ("+++ b/kernel/lock.c", "+++ /dev/null", "deletes kernel/lock.c"),
        ("+++ b/kernel/lock.c", "+++ b/kernel/fork.c", "do not name one file"),
        ("kernel/lock.c", "../outside", "outside of the tree"),
        ("@@ -", "@@ what -", "no hunk header"),
        (",6 +", ",9 +", "shorter than its header"),
        ("diff --git", "rename from x\ndiff --git", "only change lines"),
    ],
)
def test_malformed_patches(patches: Path, old: str, new: str, message: str) -> None:
    path = patches / "0001-locking-hook.patch"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(LabError, match=message):
        series.parse_patch(path)


def test_stray_file_in_the_series_is_refused(patches: Path) -> None:
    (patches / "hook.patch.orig").write_text("")
    with pytest.raises(UsageError, match=r"hook.patch.orig is not a patch"):
        series.patch_files(patches)


def test_count_and_budget(tree: Path, patches: Path) -> None:
    fake.add_patch(patches, 2, fake.make_patch(tree, "kernel/fork.c", "fork;", "fork, knife;"))
    count = series.count(patches)
    assert (count.patches, count.files, count.hunks) == (2, 2, 2)
    assert (count.added, count.removed) == (2, 1)
    assert count.over(base.Budget(files=2, added=2)) == []
    assert "files: 2, more than the 1" in count.over(base.Budget(files=1, added=2))[0]
    assert "adds lines to existing files: 2" in count.over(base.Budget(files=2, added=1))[0]


def test_lines_that_look_like_headers_are_counted(tree: Path, patches: Path) -> None:
    text = fake.make_patch(tree, "kernel/lock.c", "line 30\n", "++ b/x\n-- a/x\n")
    change = series.parse_patch(fake.add_patch(patches, 2, text)).files[0]
    assert (change.path, change.added, change.removed) == ("kernel/lock.c", 2, 1)


def imported(tmp_path: Path, tree: Path, overlay: Path, patches: Path) -> Path:
    """A git tree, and the series as export would write it."""
    made = gitseries.import_series(tree, tmp_path / "git", overlay, patches)
    gitseries.export_series(made, overlay, patches)
    return made


def test_round_trip_is_byte_for_byte(
    tmp_path: Path, tree: Path, overlay: Path, patches: Path
) -> None:
    imported(tmp_path, tree, overlay, patches)
    (name,) = (path.name for path in series.patch_files(patches))
    text = (patches / name).read_text()
    assert name == "0001-locking-Call-the-hook.patch"
    assert "From: Some Developer <developer@example.org>" in text
    assert "Date: Sat, 21 Nov 2026 12:34:56 +0100" in text
    assert text.startswith("From " + "0" * 40)
    assert re.search(r"^index [0-9a-f]{40}\.\.[0-9a-f]{40} 100644$", text, re.MULTILINE)
    again = gitseries.import_series(tree, tmp_path / "again", overlay, patches)
    result = gitseries.export_series(again, overlay, patches)
    assert (result.written, result.removed, result.unchanged) == ((), (), (name,))
    assert (patches / name).read_text() == text
    assert gitseries.round_trip(tree, patches) == []
    (patches / name).write_text(text.replace("The context.", "The context. "))
    assert gitseries.round_trip(tree, patches) == [name]


def test_import_does_not_ask_the_users_git(
    tmp_path: Path, tree: Path, overlay: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(tmp_path, tree, overlay, patches)
    config = tmp_path / ".gitconfig"
    config.write_text("[diff]\n noprefix = true\n[format]\n attach = x\n thread = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert gitseries.round_trip(tree, patches) == []


def test_new_hook_becomes_the_next_patch(
    tmp_path: Path, tree: Path, overlay: Path, patches: Path
) -> None:
    made = imported(tmp_path, tree, overlay, patches)
    assert (made / "kernel/new.c").is_symlink()
    (made / "kernel/fork.c").write_text("int fork; hook();\n")
    (made / "kernel/new.c").write_text("int edited_through_the_link;\n")
    assert "edited" in (overlay / "kernel/new.c").read_text()
    git(made, "commit", "-qam", "fork: Call the hook")
    result = gitseries.export_series(made, overlay, patches)
    assert result.written == ("0002-fork-Call-the-hook.patch",)
    assert len(result.unchanged) == 1
    git(made, "reset", "-q", "--hard", "HEAD~1")
    result = gitseries.export_series(made, overlay, patches)
    assert result.removed == ("0002-fork-Call-the-hook.patch",)


def test_export_refuses(tmp_path: Path, tree: Path, overlay: Path, patches: Path) -> None:
    made = imported(tmp_path, tree, overlay, patches)

    def refuses(message: str) -> None:
        with pytest.raises(UsageError, match=message):
            gitseries.export_series(made, overlay, patches)
        git(made, "reset", "-q", "--hard", start)

    start = git(made, "rev-parse", "HEAD").strip()
    (made / "kernel/fork.c").write_text("int spoon;\n")
    refuses("uncommitted changes in kernel/fork.c")

    (made / "kernel/fork.c").write_text("int spoon;\n")
    (made / "kernel/other.c").write_text("int other;\n")
    git(made, "add", "-A", "-f")
    git(made, "commit", "-qm", "mixed")
    fake.add_overlay(overlay, "kernel/other.c", "int other;\n")
    refuses(r"\(mixed\) touches kernel/other.c, a new file, and kernel/fork.c of the base")
    (overlay / "kernel/other.c").unlink()

    (made / "kernel/other.c").write_text("int other;\n")
    git(made, "add", "-A", "-f")
    git(made, "commit", "-qm", "only in the tree")
    refuses("kernel/other.c differs from .*overlay/kernel/other.c")

    git(made, "rm", "-q", "kernel/fork.c")
    git(made, "commit", "-qm", "delete")
    refuses("deletes or retypes kernel/fork.c")

    git(made, "checkout", "-q", "-b", "side", "HEAD~1")
    git(made, "commit", "-q", "--allow-empty", "-m", "side")
    git(made, "merge", "-q", "--no-ff", "-m", "merge", "pvsync")
    refuses("is a merge")
    assert len(series.patch_files(patches)) == 1


def test_export_of_a_tree_made_by_hand(
    tmp_path: Path, tree: Path, overlay: Path, patches: Path
) -> None:
    git(tree, "init", "-q")
    for message, name, text in (
        ("base", "", ""),
        ("overlay", "kernel/new.c", "int new;\n"),
        ("fork: Hook", "kernel/fork.c", "int fork; hook();\n"),
    ):
        if name:
            (tree / name).write_text(text)
        git(tree, "add", "-A", "-f")
        git(tree, "commit", "-qm", message)
    for path in (overlay / "kernel/new.c", tree / "kernel/new.c"):
        path.write_text("int new; /* the same in both places, not committed */\n")
    result = gitseries.export_series(tree, overlay, patches)
    assert result.written == ("0001-fork-Hook.patch",)
    assert result.removed == ("0001-locking-hook.patch",)
    (tree / "kernel/new.c").write_text("int newer;\n")
    with pytest.raises(UsageError, match=r"kernel/new.c differs"):
        gitseries.export_series(tree, overlay, patches)


def test_import_refuses_an_existing_folder(
    tmp_path: Path, tree: Path, overlay: Path, patches: Path
) -> None:
    (tmp_path / "git").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        gitseries.import_series(tree, tmp_path / "git", overlay, patches)


def test_import_leaves_a_patch_that_does_not_apply_to_be_mended(
    tmp_path: Path, overlay: Path, patches: Path
) -> None:
    tree = fake.make_tree(
        tmp_path / "mutated", lock_c=fake.LOCK_C.replace("line 21\n", "LINE 21\n")
    )
    with pytest.raises(
        LabError, match=r"0001-locking-hook.patch does not apply.*git am --continue"
    ):
        gitseries.import_series(tree, tmp_path / "git", overlay, patches)
    with pytest.raises(UsageError, match="finish it first"):
        gitseries.export_series(tmp_path / "git", overlay, patches)


@pytest.fixture
def our_series(
    tmp_path: Path, tree: Path, overlay: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The command line works on the fake overlay and series."""
    monkeypatch.setattr(rfc, "FOLDER", tmp_path / "rfc")
    monkeypatch.setattr(series, "OVERLAY", overlay)
    monkeypatch.setattr(series, "SERIES", patches)
    for function in (series.count, series.patch_files, gitseries.round_trip):
        monkeypatch.setattr(function, "__defaults__", (patches,))
    imported(tmp_path, tree, overlay, patches)
    return patches


def check(tree: Path) -> str:
    """`./pvsync series check`; raises what it raises."""
    result = CliRunner().invoke(
        series_cli.group, ["check", "--tree", str(tree)], catch_exceptions=False
    )
    return result.output


def test_check_passes_and_states_the_budget(our_series: Path, tree: Path) -> None:
    assert "Linux 6.12.117: 1 patch(es): 1 of" in check(tree)


def test_check_fails_on_bytes_that_export_would_not_write(our_series: Path, tree: Path) -> None:
    (path,) = series.patch_files(our_series)
    path.write_text(path.read_text().replace("The context.", "The context. "))
    with pytest.raises(LabError, match=r"is not what `./pvsync series export` would write"):
        check(tree)


def test_check_fails_above_the_budget(
    our_series: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = base.Base("x", Path("x"), ("6.12.117",), base.Budget(files=1, added=0))
    monkeypatch.setattr(base, "read_base", lambda file: small)
    with pytest.raises(LabError, match="more than the 0 that kernel/BASE allows"):
        check(tree)


def test_check_accepts_offsets_only_on_another_release(our_series: Path, tmp_path: Path) -> None:
    text = "a new line\n" + fake.LOCK_C
    assert "offset: 0001" in check(fake.make_tree(tmp_path / "later", 119, text))
    with pytest.raises(LabError, match=r"moved on Linux 6.12.117"):
        check(fake.make_tree(tmp_path / "same", 117, text))


def test_base_file_and_trees(tmp_path: Path, tree: Path) -> None:
    assert base.read_base().source == "linux-source-6.12"
    bad = tmp_path / "BASE"
    bad.write_text('source = "x"\ntarball = "/x"\ntested = []\n')
    with pytest.raises(UsageError, match="no entry 'budget'"):
        base.read_base(bad)
    (tree / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 1\n")
    with pytest.raises(UsageError, match=r"is Linux 6.13.1, but"):
        base.known_version(tree)
    with pytest.raises(UsageError, match="not a Linux tree"):
        base.version_of(tmp_path)
    with pytest.raises(UsageError, match="there is no tree"):
        base.chosen_tree(tmp_path / "missing")


def test_real_series_is_well_formed() -> None:
    budget = base.read_base().budget
    count = series.count()
    assert count.patches > 0
    assert count.over(budget) == []
    assert not set(series_paths()) & set(overlay_paths())


def series_paths() -> list[str]:
    return [
        change.path for path in series.patch_files() for change in series.parse_patch(path).files
    ]


def overlay_paths() -> list[str]:
    return [str(p.relative_to(series.OVERLAY)) for p in series.OVERLAY.rglob("*") if p.is_file()]
