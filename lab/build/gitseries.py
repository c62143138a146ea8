# SPDX-License-Identifier: GPL-2.0-only
"""The series as a git branch, to work on it: import, edit, commit, export.

An imported tree begins with a base commit (the Linux tree as it is). Then come an overlay commit
and one commit for each patch. The overlay's files are links to kernel/overlay, so that editing
there or here is the same. A new hook is an ordinary commit on top. Export writes the commits that
change files of the base back to kernel/series and nothing else: kernel/overlay is the source of the
overlay, never the tree.
"""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.build.base import version_of
from lab.build.series import OVERLAY, SERIES, parse_patch, patch_files
from lab.core import content, tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Silent
from lab.core.scratch import Scratch

TAG_BASE = "pvsync-base"
NOBODY = {
    "GIT_AUTHOR_NAME": "pvsync",
    "GIT_AUTHOR_EMAIL": "pvsync",
    "GIT_AUTHOR_DATE": "1000000000 +0000",
    "GIT_COMMITTER_NAME": "pvsync",
    "GIT_COMMITTER_EMAIL": "pvsync",
    "GIT_COMMITTER_DATE": "1000000000 +0000",
}
"""Who commits the base and the overlay, so that the same input gives the same commits."""
FAST = ("-c", "core.compression=1", "-c", "core.fsync=none", "-c", "gc.auto=0")
FORMAT = (
    *("-c", "diff.noprefix=false", "-c", "core.quotePath=true"),
    *("format-patch", "--zero-commit", "--no-numbered", "--no-signature", "--full-index"),
    *("--diff-algorithm=myers", "--no-renames", "--no-binary", "--quiet"),
)


@dataclass(frozen=True)
class ExportResult:
    """What export did to kernel/series, by file name."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True)
class _Commit:
    id: str
    subject: str
    changes: tuple[tuple[str, str], ...]
    """Status letter and path."""


def _git(tree: Path, *args: str | Path, env: dict[str, str] | None = None) -> str:
    """Run git away from every configuration and variable of the caller."""
    neutral = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(tree.parent),
    }
    safe = ("-c", f"safe.directory={tree}")
    out = tools.run(["git", *safe, *args], cwd=tree, env=neutral | (env or {}))
    return out.decode(errors="surrogateescape")


def import_series(
    base: Path,
    tree: Path,
    overlay: Path = OVERLAY,
    series: Path = SERIES,
    progress: Progress | None = None,
) -> Path:
    """Make the git tree `tree` from an unpacked base; about a minute for a whole kernel.

    Raises UsageError when `tree` exists. When a patch does not apply, the
    tree stays as `git am` leaves it and the LabError says how to go on.
    """
    progress = progress or Silent()
    if tree.exists():
        raise UsageError(
            f"{tree} exists already: export its commits, then remove it, or name another folder"
        )
    tree.parent.mkdir(parents=True, exist_ok=True)
    fresh = tree.with_name(f".{tree.name}.new")
    content.remove(fresh)
    with progress.stage("import the base"):
        shutil.copytree(base, fresh, symlinks=True)
        _git(fresh, "init", "--quiet", "--initial-branch=pvsync")
        _commit_all(fresh, f"Linux {version_of(base)}")
        _git(fresh, "tag", TAG_BASE)
    for name in content.files_below(overlay):
        if (fresh / name).exists():
            raise LabError(f"the overlay's {name} is already in {base}")
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        (fresh / name).symlink_to(overlay.resolve() / name)
    _commit_all(fresh, "Overlay: links to kernel/overlay")
    fresh.rename(tree)
    for path in patch_files(series):
        parse_patch(path)
        _am(tree, path)
    return tree


def _commit_all(tree: Path, message: str) -> None:
    """Commit everything, also what the kernel's .gitignore lists."""
    _git(tree, *FAST, "add", "--all", "--force")
    _git(tree, *FAST, "commit", "--quiet", "--allow-empty", "-m", message, env=NOBODY)


def _am(tree: Path, patch: Path) -> None:
    """Make one patch a commit; offsets are accepted, changed context is not."""
    try:
        _git(tree, *FAST, "am", "--quiet", "--keep-cr", patch.resolve(), env=_committer())
    except LabError as error:
        raise LabError(
            f"{patch.name} does not apply to {tree}: mend it there (`git am --show-current-patch`,"
            f" edit, `git add`, `git am --continue`), then `./pvsync series export`: {error}"
        ) from None


def _committer() -> dict[str, str]:
    """git am takes the author from the patch; only the committer is ours."""
    return {key: value for key, value in NOBODY.items() if key.startswith("GIT_COMMITTER")}


def export_series(tree: Path, overlay: Path = OVERLAY, series: Path = SERIES) -> ExportResult:
    """Write the tree's commits on files of the base to `series`, numbered from 1.

    A commit that only touches other files is an overlay commit and gives no
    patch. Raises UsageError when there are uncommitted hooks, when a commit
    mixes both kinds, deletes a file, or when the tree's copy of an overlay
    file differs from the overlay.
    """
    if not (tree / ".git").exists():
        raise UsageError(f"{tree} is no git tree: make one with `./pvsync series import`")
    if (tree / ".git/rebase-apply").exists():
        raise UsageError(f"{tree} has a `git am` or rebase under way: finish it first")
    start = _base_commit(tree)
    files = set(_git(tree, "ls-tree", "-r", "-z", "--name-only", start).split("\0"))
    _refuse_uncommitted(tree, files)
    commits = _commits(tree, start)
    _compare_overlay(tree, overlay, files, commits)
    hooks = [commit for commit in commits if _is_hook(commit, files)]
    with Scratch() as scratch:
        for number, commit in enumerate(hooks, 1):
            _git(tree, *FORMAT, f"--start-number={number}", "-o", str(scratch), "-1", commit.id)
        for path in patch_files(scratch):
            parse_patch(path)
        return _replace(scratch, series)


def _refuse_uncommitted(tree: Path, base_files: set[str]) -> None:
    """Hooks must be committed; overlay files are compared as they are."""
    status = _git(tree, "status", "--porcelain", "--no-renames", "--untracked-files=no", "-z")
    for line in status.split("\0"):
        if line[3:] in base_files and line:
            raise UsageError(f"{tree} has uncommitted changes in {line[3:]}: commit or stash them")


def _base_commit(tree: Path) -> str:
    """The tag that import set, or else the only root commit."""
    tags = _git(tree, "tag", "--list", TAG_BASE).split()
    roots = tags or _git(tree, "rev-list", "--max-parents=0", "HEAD").split()
    if len(roots) != 1:
        raise UsageError(f"{tree} has {len(roots)} root commits: tag the base `{TAG_BASE}`")
    return roots[0]


def _commits(tree: Path, start: str) -> list[_Commit]:
    """Commits after the base, oldest first."""
    merges = _git(tree, "rev-list", "--merges", f"{start}..HEAD").split()
    if merges:
        raise UsageError(f"{tree}: {merges[0][:12]} is a merge: make the branch linear")
    log = _git(
        tree,
        *("log", "--reverse", "-z", "--no-renames", "--name-status"),
        *("--format=%x01%H %s", f"{start}..HEAD"),
    )
    commits = []
    for chunk in log.split("\x01")[1:]:
        head, *rest = re.split(r"\0\n?", chunk)
        name, _, subject = head.partition(" ")
        fields = [field.strip("\n") for field in rest if field.strip("\n")]
        commits.append(_Commit(name, subject, tuple(zip(fields[::2], fields[1::2], strict=True))))
    return commits


def _is_hook(commit: _Commit, base_files: Iterable[str]) -> bool:
    """Whether a commit becomes a patch; UsageError when it is neither hook nor overlay."""
    known = set(base_files)
    where = f"commit {commit.id[:12]} ({commit.subject})"
    inside = [(status, path) for status, path in commit.changes if path in known]
    outside = [path for _status, path in commit.changes if path not in known]
    if inside and outside:
        raise UsageError(
            f"{where} touches {outside[0]}, a new file, and {inside[0][1]} of the base: put new"
            " files into kernel/overlay and only the hooks into a commit"
        )
    for status, path in inside:
        if status != "M":
            raise UsageError(f"{where} deletes or retypes {path}: change only lines of base files")
    return bool(inside)


def _compare_overlay(
    tree: Path, overlay: Path, base_files: set[str], commits: list[_Commit]
) -> None:
    """Refuse when the tree holds work on overlay files that kernel/overlay lacks."""
    paths = {path for commit in commits for _status, path in commit.changes}
    for path in sorted(paths - base_files):
        here, there = tree / path, overlay / path
        if here.is_symlink() or not here.exists():
            continue
        if not there.is_file() or there.read_bytes() != here.read_bytes():
            raise UsageError(f"{here} differs from {there}: copy your work there, then export")


def _replace(fresh: Path, series: Path) -> ExportResult:
    """Bring `series` to the new files, leaving equal ones alone."""
    series.mkdir(parents=True, exist_ok=True)
    written, unchanged = [], []
    names = [path.name for path in patch_files(fresh)]
    removed = [path for path in patch_files(series) if path.name not in names]
    for name in names:
        target = series / name
        if target.is_file() and target.read_bytes() == (fresh / name).read_bytes():
            unchanged.append(name)
        else:
            shutil.copyfile(fresh / name, target)
            written.append(name)
    for path in removed:
        path.unlink()
    return ExportResult(tuple(written), tuple(path.name for path in removed), tuple(unchanged))


def round_trip(base: Path, series: Path = SERIES) -> list[str]:
    """Import and export again in scratch; names of the patches that came out different.

    Only the touched files are imported (with .gitattributes, which shapes
    the hunk headers), so this takes a moment.
    """
    patches = [parse_patch(path) for path in patch_files(series)]
    touched = {change.path for patch in patches for change in patch.files}
    with Scratch() as scratch:
        small, again = scratch / "base", scratch / "series"
        for name in sorted(touched | {"Makefile", ".gitattributes"}):
            if (base / name).is_file():
                (small / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(base / name, small / name)
        shutil.copytree(series, again)
        tree = import_series(small, scratch / "tree", scratch / "none", again)
        result = export_series(tree, scratch / "none", again)
    return sorted({*result.written, *result.removed})
