# SPDX-License-Identifier: GPL-2.0-only
"""Mutants of the kernel's sources: changes that the test programs in C have to notice.

A folder of such programs has a Makefile and a table, mutants.toml. Each mutant is built in a
folder of its own and tried until one of its programs fails.
"""

import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import binaries
from tests.binaries import Outcome, reason

OVERLAY = Path(__file__).resolve().parent.parent / "kernel" / "overlay"
BASE = "base"
"""Folder of a build folder that has what the programs need of the base kernel."""
SECONDS = 10
"""How long a program may search for an error in a mutant."""
MISSED = "NOT CAUGHT"


@dataclass(frozen=True)
class Mutant:
    """A change to one file that has to be noticed."""

    name: str
    file: str  # of the overlay, or of a build folder (base/...)
    old: str  # stands there exactly once
    new: str
    programs: tuple[str, ...] = ()  # those that look for it, in their order


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    noticed: bool
    how: str


@dataclass(frozen=True)
class Suite:
    """A folder of test programs."""

    sources: Path  # where its Makefile is
    run: Callable[[Path, Sequence[str], int | None], Outcome]  # program, arguments, seconds
    base: Path | None = None  # a BASE to build with


def load(path: Path) -> list[dict[str, Any]]:
    """The entries of a table."""
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text())["mutant"]
    return entries


def prepare(folder: Path, base: Path | None) -> tuple[Path, Path]:
    """An overlay and a build folder to change: links, which `mutate` replaces by files."""
    overlay, build = folder / "overlay", folder / "build"
    shutil.copytree(OVERLAY, overlay, copy_function=os.symlink)
    build.mkdir()
    if base:
        shutil.copytree(base.resolve(), build / BASE, copy_function=os.symlink)
    return overlay, build


def mutate(mutant: Mutant, overlay: Path, build: Path) -> str | None:
    """Change the copy that is to be built; None, or why the mutant does not apply."""
    path = (build if mutant.file.startswith(f"{BASE}/") else overlay) / mutant.file
    text = path.read_text()
    count = text.count(mutant.old)
    if count != 1:
        return f"its `old` stands {count} times in {mutant.file}, not once"
    path.unlink()  # not through a link into the tree
    path.write_text(text.replace(mutant.old, mutant.new))
    return None


def attempt(suite: Suite, mutant: Mutant) -> Verdict:
    """Build the mutant and run its programs on it until one fails."""
    with tempfile.TemporaryDirectory(prefix="pvsync-mutant-") as name:
        overlay, build = prepare(Path(name), suite.base)
        problem = mutate(mutant, overlay, build)
        if problem:
            return Verdict(False, f"NOT TRIED: {problem}")
        for program in mutant.programs:
            error = binaries.make(suite.sources, [program], build,
                                  [f"OVERLAY={overlay}", "WERROR="])
            if error:
                return Verdict(False, f"NOT TRIED, it does not compile:\n{error}")
            outcome = suite.run(build / program, (), SECONDS)
            if outcome.failed:
                which = f"{program}: " if len(mutant.programs) > 1 else ""
                return Verdict(True, which + reason(outcome))
    return Verdict(False, MISSED)


def run(suite: Suite, controls: Sequence[Mutant], mutants: Sequence[Mutant],
        only: str = "") -> tuple[int, int]:
    """Print the mutants and what noticed each; how many went right, and how many wrong.

    Controls change nothing and have to pass, or the mutants prove nothing. `only` is a part
    of the names of the mutants that are tried.
    """
    chosen = [mutant for mutant in mutants if only in mutant.name]
    print(f"{len(chosen)} mutants, and the test that noticed each", flush=True)
    tried, right = [*controls, *chosen], 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = pool.map(lambda mutant: attempt(suite, mutant), tried)
        for number, (mutant, verdict) in enumerate(zip(tried, verdicts, strict=True)):
            passed = number < len(controls) and verdict.how == MISSED
            right += passed if number < len(controls) else verdict.noticed
            print(f"{mutant.name:52} {'passed' if passed else verdict.how}", flush=True)
    return right, len(tried) - right
