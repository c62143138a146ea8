# SPDX-License-Identifier: GPL-2.0-only
"""kernel/rfc: patch mails for Linux without anything of pvsync.

A folder has a cover letter, 0000-*.patch, and the patches from 0001 on, as `git
format-patch` writes them. They may add files. Mails are numbered by their subjects, such as
[RFC PATCH 1/3], and the cover letter lists the patches' titles. It also names the patches of
other folders that come first, if there are any; see prerequisites.py.
"""

import email
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.build import series
from lab.core import paths, tools
from lab.core.errors import LabError, UsageError
from lab.core.scratch import Scratch

FOLDER = paths.KERNEL / "rfc"
SUBJECT = re.compile(r"\[(?:RFC )?PATCH (\d+/\d+)\] (.+)")
CHECKPATCH = Path("scripts/checkpatch.pl")
IGNORED = ("FILE_PATH_CHANGES", "UNKNOWN_COMMIT_ID")
"""What checkpatch cannot know here: that MAINTAINERS names folders of new files, and history."""


@dataclass(frozen=True)
class Result:
    """What became of one folder."""

    name: str
    patches: int
    problems: tuple[str, ...]


def folders() -> list[Path]:
    """The folders of patch mails, in order."""
    return sorted(path for path in FOLDER.iterdir() if path.is_dir()) if FOLDER.is_dir() else []


def folder(name: str) -> Path:
    """The folder of this name; UsageError lists those that there are."""
    known = {path.name: path for path in folders()}
    if name not in known:
        raise UsageError(f"there is no folder {name!r} in kernel/rfc: choose from"
                         f" {', '.join(known) or 'none'}")
    return known[name]


def check(base: Path, folder: Path) -> Result:
    """Apply one folder to a bare tree without offsets, and have the tree's checkpatch read it.

    What it stands on is applied before, and read with its own folder. Only the files that the
    patches touch are copied. A strict checkpatch, but for sign-offs, which whoever sends the mails
    adds.
    """
    _, own = _mails(folder)
    problems = form(folder)
    with Scratch() as scratch:
        patches = series.patches(folder)
        for name in sorted({name for path in patches for name in _touched(path)}):
            if (base / name).is_file():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(base / name, scratch / name)
        for path in patches:
            where = f"{path.parent.name}/{path.name}"
            status, said = series.run_patch(path, scratch, fuzz=0)
            if status:
                problems.append(f"{where} does not apply to {base}: {said.strip()}")
                break
            if path not in own:
                continue
            problems += [f"{where}: {offset}" for offset in series.parse_offsets(path.name, said)]
            problems += [f"{where}: {line}" for line in _style(base, path)]
    return Result(folder.name, len(own), tuple(problems))


def form(folder: Path) -> list[str]:
    """What keeps the mails of a folder from being one series, whatever they apply to."""
    cover, patches = _mails(folder)
    problems = [] if len(cover) == 1 else [f"{folder.name} has {len(cover)} cover letters"]
    if not patches:
        problems.append(f"{folder.name} has no patches")
    listed = " ".join(" ".join(path.read_text(errors="replace") for path in cover).split())
    for number, path in enumerate([*cover[:1], *patches], start=0 if cover else 1):
        expected = f"{number}/{len(patches)}"
        found, title = _subject(path)
        if found != expected:
            problems.append(f"{folder.name}/{path.name} has the number {found or 'of none'}: its"
                            f" subject has to begin with [RFC PATCH {expected}]")
        elif title not in listed:
            problems.append(f"{folder.name}: the cover letter does not list {title!r}")
    return problems


def _mails(folder: Path) -> tuple[list[Path], list[Path]]:
    """Cover letters and patches of a folder, in order."""
    patches = series.own_patches(folder)
    return [path for path in series.patch_files(folder) if path not in patches], patches


def _subject(mail: Path) -> tuple[str, str]:
    """Number and title of a mail, such as 1/3, or two empty strings."""
    subject = email.message_from_string(mail.read_text(errors="replace"))["Subject"] or ""
    match = SUBJECT.fullmatch(" ".join(subject.split()))
    return (match[1], match[2]) if match else ("", "")


def _touched(patch: Path) -> Iterator[str]:
    """Files that a patch changes or adds, by their paths in the tree."""
    for line in patch.read_text(errors="surrogateescape").splitlines():
        if match := re.fullmatch(r"(?:---|\+\+\+) [ab]/(\S+)", line):
            if ".." in Path(match[1]).parts:
                raise LabError(f"{patch.name}: {match[1]} lies outside of the tree")
            yield match[1]


def objections(base: Path, hooks: Path) -> list[str]:
    """What a strict checkpatch objects to in what a series has for readers alone, one line each."""
    return [f"{path.name}: {line}" for path in series.patch_files(hooks)
            if series.is_for_readers(path) for line in _style(base, path)]


def _style(base: Path, patch: Path) -> list[str]:
    """What checkpatch objects to, one line each; UsageError where the tree has no checkpatch."""
    tools.require("perl")
    if not (base / CHECKPATCH).is_file():
        raise UsageError(f"{base} has no {CHECKPATCH}, which is to read {patch.name}: give --tree"
                         " a whole Linux, or leave it out")
    command = ["perl", str(CHECKPATCH), "--strict", "--terse", "--no-summary", "--no-signoff",
               f"--ignore={','.join(IGNORED)}", str(patch.absolute())]
    done = subprocess.run(command, cwd=base, capture_output=True, text=True, errors="replace",
                          check=False)
    said = (done.stdout + done.stderr).splitlines()
    # It ends with 1 if it has an objection, and with more if it could not look.
    if done.returncode > 1 or bool(said) != bool(done.returncode):
        raise LabError(f"checkpatch cannot read {patch}: {' '.join(said)}")
    return [line.removeprefix(f"{patch.absolute()}:") for line in said]
