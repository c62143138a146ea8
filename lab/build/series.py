# SPDX-License-Identifier: GPL-2.0-only
"""Our kernel sources: the overlay of new files, and the series of hooks into existing ones.

A patch may only change files that the base has; a new file belongs into the
overlay. Patches apply strictly where they were made; on another point release
a hunk may move, which is logged, but its context must match in full.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.build import base as bases
from lab.build import documents, prerequisites
from lab.build.base import Budget
from lab.core import content, paths, tools
from lab.core.errors import LabError, UsageError
from lab.core.scratch import Scratch

OVERLAY = paths.KERNEL / "overlay"
SERIES = paths.KERNEL / "series"
PATCH_NAME = re.compile(r"\d{4}-[A-Za-z0-9._-]+\.patch")
PATCHING = re.compile(r"(?:patching|checking) file '?(.+?)'?(?: \(.*\))?(?: using .*)?$")
"""Of what `patch` says."""
NO_FILE = "/dev/null"


@dataclass(frozen=True)
class FileChange:
    """What one patch does to one file."""

    path: str
    hunks: int
    added: int
    removed: int


@dataclass(frozen=True)
class Patch:
    """One file of kernel/series."""

    path: Path
    subject: str
    files: tuple[FileChange, ...]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


@dataclass(frozen=True)
class Offset:
    """A hunk that applied, but not where the patch said."""

    patch: str
    file: str
    hunk: int
    line: int
    offset: int
    """Lines further down; negative is up."""

    def __str__(self) -> str:
        return (
            f"{self.patch}: {self.file}: hunk {self.hunk} applied at line {self.line},"
            f" {abs(self.offset)} line(s) {'down' if self.offset > 0 else 'up'}"
        )


@dataclass(frozen=True)
class ApplyResult:
    """What the overlay and the series changed in a tree."""

    overlay: tuple[str, ...]
    """New files, by their path in the tree."""
    changed: tuple[str, ...]
    """Existing files that patches changed."""
    patches: tuple[str, ...]
    offsets: tuple[Offset, ...]

    def log(self) -> str:
        """One line for each new file, patch and moved hunk."""
        lines = [f"overlay: {path}" for path in self.overlay]
        for patch in self.patches:
            moved = [offset for offset in self.offsets if offset.patch == patch]
            lines.append(f"patch: {patch}: {'with offsets' if moved else 'strict'}")
            lines += [f"offset: {offset}" for offset in moved]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Count:
    """How much the series touches; lines are those of the patches.

    Files, hunks and lines are of hooks, not of what is for readers alone.
    """

    patches: int
    files: int
    hunks: int
    added: int
    removed: int
    documented: int
    """Lines that are added for readers alone."""

    def over(self, budget: Budget) -> list[str]:
        """What exceeds the budget, one sentence each; [] when within."""
        return [
            f"the series {what} {have}, more than the {limit} that kernel/BASE allows"
            for what, have, limit in (
                ("touches existing files:", self.files, budget.files),
                ("adds lines to existing files:", self.added, budget.added),
            )
            if have > limit
        ]


def of_version(version: str) -> Path:
    """The series of the base that a release is of; UsageError when it is of none."""
    name = bases.of_version(version)
    return SERIES if name == bases.USUAL else bases.folder(name) / SERIES.name


def patch_files(series: Path = SERIES) -> list[Path]:
    """The patches in the order they apply; UsageError on a file that is none."""
    if not series.is_dir():
        return []
    found = sorted(path for path in series.iterdir() if not path.name.startswith("."))
    for path in found:
        if not PATCH_NAME.fullmatch(path.name):
            raise UsageError(f"{path} is not a patch: expected a name like 0001-area-what.patch")
    return found


def patches(folder: Path) -> list[Path]:
    """What is applied: those that a folder of kernel/rfc stands on, and its own."""
    return [*prerequisites.of(folder), *own_patches(folder)]


def own_patches(folder: Path) -> list[Path]:
    """`patch_files` without the cover letter that a folder of kernel/rfc has."""
    return [path for path in patch_files(folder)
            if not path.name.startswith(prerequisites.COVER)]


def parse_patch(path: Path, adds: bool = False) -> Patch:
    """Read one git-am patch; LabError when it changes anything but text of existing files.

    With `adds` it may add files, too.
    """
    subject = ""
    changes: list[FileChange] = []
    lines = iter(path.read_text(errors="surrogateescape").splitlines())
    for line in lines:
        if line.startswith("Subject: ") and not subject:
            subject = re.sub(r"^\[PATCH[^]]*\] *", "", line.removeprefix("Subject: "))
        elif re.match(r"(rename|copy) (from|to) |GIT binary patch|old mode |new mode ", line):
            raise LabError(f"{path.name}: `{line}`: a patch may only change lines of files")
        elif line.startswith("--- "):
            plus = next(lines, "")
            if not plus.startswith("+++ "):
                continue  # prose of the commit message
            changes.append(_start_file(path, line, plus, adds))
        elif line.startswith("@@ ") and changes:
            changes[-1] = _count_hunk(path, changes[-1], line, lines)
    if not changes:
        raise LabError(f"{path.name} changes no file")
    return Patch(path, subject, tuple(changes))


def _start_file(path: Path, minus: str, plus: str, adds: bool) -> FileChange:
    """The file that a `---`/`+++` pair names."""
    old, new = (line[4:].partition("\t")[0] for line in (minus, plus))
    if adds and old == NO_FILE:
        old = f"a/{new[2:]}"
    if old == NO_FILE:
        raise LabError(f"{path.name} creates {new[2:]}: a new file belongs into kernel/overlay")
    if new == NO_FILE:
        raise LabError(f"{path.name} deletes {old[2:]}: a patch may only change lines of files")
    if old[2:] != new[2:] or old[:2] != "a/" or new[:2] != "b/":
        raise LabError(f"{path.name}: {old} and {new} do not name one file")
    if new[2:].startswith("/") or ".." in Path(new[2:]).parts:
        raise LabError(f"{path.name}: {new[2:]} lies outside of the tree")
    return FileChange(new[2:], 0, 0, 0)


def _count_hunk(path: Path, change: FileChange, header: str, lines: Iterable[str]) -> FileChange:
    """Take one hunk's lines from the iterator and add them up."""
    match = re.match(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@", header)
    if not match:
        raise LabError(f"{path.name}: {change.path}: `{header}` is no hunk header")
    old, new = (int(group) if group else 1 for group in match.groups())
    added = removed = 0
    rest = iter(lines)
    while old or new:
        line = next(rest, None)
        if line is None or (line[:1] not in ("+", "-", " ", "\\", "")):
            raise LabError(f"{path.name}: {change.path}: a hunk is shorter than its header says")
        added += line.startswith("+")
        removed += line.startswith("-")
        old -= not line.startswith(("+", "\\"))
        new -= not line.startswith(("-", "\\"))
    return FileChange(change.path, change.hunks + 1, change.added + added, change.removed + removed)


def count(series: Path = SERIES) -> Count:
    """Add up what the series does to existing files."""
    patches = [parse_patch(path) for path in patch_files(series)]
    all_changes = [change for patch in patches for change in patch.files]
    changes = [change for change in all_changes if not documents.is_document(change.path)]
    added = sum(change.added for change in changes)
    return Count(
        patches=len(patches),
        files=len({change.path for change in changes}),
        hunks=sum(change.hunks for change in changes),
        added=added,
        removed=sum(change.removed for change in changes),
        documented=sum(change.added for change in all_changes) - added,
    )


def is_for_readers(patch: Path) -> bool:
    """Whether a patch changes nothing that a kernel is built from."""
    changes = parse_patch(patch, adds=True).files
    return all(documents.is_document(change.path) for change in changes)


def render(
    base: Path, overlay: Path, series: Path, into: Path, adds: bool = False
) -> ApplyResult:
    """Write only the new and the changed files, as they are after the series, below `into`.

    `base` is not changed. With `adds` the series is a folder of kernel/rfc, whose patches may add
    files. Raises LabError naming the patch and the file when a hunk does not apply, and when an
    overlay file would replace one of the base.
    """
    new = content.files_below(overlay)
    for name in new:
        if (base / name).exists():
            raise LabError(
                f"the overlay's {name} is already in {base}: an existing file is changed by a"
                " patch in kernel/series (or has the tree been patched before?)"
            )
    parsed = [parse_patch(path, adds) for path in patches(series)]
    changed = sorted({change.path for patch in parsed for change in patch.files})
    there = [name for name in changed if (base / name).is_file()]
    for patch in parsed if not adds else ():
        for change in patch.files:
            if change.path not in there:
                raise LabError(f"{patch.name}: {change.path} is not in {base}")
    for root, names in ((overlay, new), (base, there)):
        for name in names:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, into / name)
            shutil.copymode(root / name, into / name)
    offsets = [offset for patch in parsed for offset in _apply_patch(patch, into)]
    return ApplyResult(
        tuple(new), tuple(changed), tuple(patch.name for patch in parsed), tuple(offsets)
    )


def _apply_patch(patch: Patch, tree: Path) -> list[Offset]:
    """Apply one patch without fuzz; returns the hunks that moved."""
    status, output = run_patch(patch.path, tree, fuzz=0)
    if status:
        raise LabError(_why_not(patch, output))
    return parse_offsets(patch.name, output)


def run_patch(patch: Path, tree: Path, fuzz: int) -> tuple[int, str]:
    """Apply what can be applied of one patch; the status of `patch`, and what it says.

    `fuzz` is how many lines at either end of a hunk's context may differ.
    """
    tools.require("patch")
    done = subprocess.run(
        [
            *("patch", "--strip=1", f"--fuzz={fuzz}", "--force", "--no-backup-if-mismatch"),
            *("--reject-file=-", "--verbose", f"--input={patch}"),
        ],
        cwd=tree,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def parse_offsets(patch: str, output: str) -> list[Offset]:
    """The moved hunks in the output of `patch`."""
    found = []
    file = ""
    for line in output.splitlines():
        if match := PATCHING.match(line):
            file = match[1]
        match = re.match(r"Hunk #(\d+) succeeded at (\d+) \(offset (-?\d+) lines?\)", line)
        if match:
            found.append(Offset(patch, file, int(match[1]), int(match[2]), int(match[3])))
    return found


def _why_not(patch: Patch, output: str) -> str:
    """One sentence that names the files and hunks that `patch` could not apply."""
    failed: list[str] = []
    file = ""
    for line in output.splitlines():
        if match := PATCHING.match(line):
            file = match[1]
        elif match := re.match(r"Hunk #(\d+) FAILED at (\d+)", line):
            failed.append(f"{file} (hunk {match[1]}, line {match[2]})")
        elif "Reversed (or previously applied) patch" in line:
            return f"{patch.name} does not apply: {file} has it already"
    lines = output.strip().splitlines()
    where = ", ".join(failed) or (lines[-1] if lines else "patch failed without a word")
    return (
        f"{patch.name} does not apply to {where}: bring the hunk up to date with"
        " `./pvsync series import` and `export`"
    )


def apply(tree: Path, overlay: Path = OVERLAY, series: Path = SERIES) -> ApplyResult:
    """Apply overlay and series to a clean tree; all or nothing.

    Raises LabError as `render` does; then the tree is unchanged.
    """
    if not tree.is_dir():
        raise UsageError(f"there is no folder {tree}")
    with Scratch() as scratch:
        result = render(tree, overlay, series, scratch)
        for name in (*result.overlay, *result.changed):
            put_file(scratch / name, tree / name)
    return result


def put_file(source: Path, target: Path) -> bool:
    """Replace a file when its content differs, never writing through a hard link.

    Returns whether it did; an equal file keeps its time, so that make does
    not build it again.
    """
    same_kind = target.is_file() and not target.is_symlink()
    if same_kind and target.read_bytes() == source.read_bytes():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.pvsync-new")
    shutil.copyfile(source, new)
    shutil.copymode(source, new)
    new.rename(target)
    return True
