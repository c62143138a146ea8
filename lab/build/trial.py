# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of each hunk of a series on any Linux tree, which stays as it is."""

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.build import series
from lab.core.scratch import Scratch

FUZZ = 2
"""Lines at either end of a hunk's context that may differ; then somebody has to look at it."""
OUTCOME = re.compile(
    r"Hunk #(\d+) (?:(FAILED) at (\d+)"
    r"|succeeded at (\d+)(?: with fuzz (\d+))?(?: \(offset (-?\d+) lines?\))?)"
)


@dataclass(frozen=True)
class Hunk:
    """One hunk of a patch, and where it went."""

    patch: str
    file: str
    number: int
    """From 1, in its file."""
    line: int
    """Where it applied, or was to apply; 0 when the tree does not have the file."""
    fails: bool
    fuzz: int = 0
    """Lines of context that differ; above 0 it does not apply as it must, with all of it."""

    def __str__(self) -> str:
        if not self.line:
            what = "there is no such file"
        elif self.fails:
            what = f"does not apply, it was made for line {self.line}"
        elif self.fuzz:
            what = f"applies at line {self.line} with less context, {self.fuzz} line(s)"
        else:
            what = f"applies at line {self.line}"
        return f"{self.patch}: {self.file}: hunk {self.number} {what}"


def hunks(tree: Path, patches: Path) -> list[Hunk]:
    """Every hunk of the series in `patches`, each patch tried on what came of those before.

    Raises LabError when a patch is none, UsageError when there is no folder `tree`.
    """
    parsed = [series.parse_patch(path) for path in series.patch_files(patches)]
    found: list[Hunk] = []
    with Scratch() as scratch:
        for name in sorted({change.path for patch in parsed for change in patch.files}):
            if (tree / name).is_file():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(tree / name, scratch / name)
        for patch in parsed:
            _status, output = series.run_patch(patch.path, scratch, FUZZ)
            said = dict(_outcomes(patch.name, output))
            for change in patch.files:
                for number in range(1, change.hunks + 1):
                    missing = Hunk(patch.name, change.path, number, 0, fails=True)
                    found.append(said.get((change.path, number), missing))
    return found


def best(tree: Path, all_patches: Sequence[Path]) -> tuple[Path, list[Hunk]]:
    """The series of which the fewest hunks do not apply as they must, and its hunks."""
    tried = [(patches, hunks(tree, patches)) for patches in all_patches]
    return min(tried, key=lambda one: len(bad(one[1])))


def bad(found: Sequence[Hunk]) -> list[Hunk]:
    """Those that do not apply with all of their context."""
    return [hunk for hunk in found if hunk.fails or hunk.fuzz]


def _outcomes(patch: str, output: str) -> Iterator[tuple[tuple[str, int], Hunk]]:
    file = ""
    for line in output.splitlines():
        if match := series.PATCHING.match(line):
            file = match[1]
        elif match := OUTCOME.match(line):
            number, at = int(match[1]), int(match[3] or match[4])
            yield (file, number), Hunk(patch, file, number, at, bool(match[2]), int(match[5] or 0))
