# SPDX-License-Identifier: GPL-2.0-only
"""docs/recipes.md, followed to the letter in a copy of the sources."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.core import paths

PAGE = paths.ROOT / "docs/recipes.md"
BLOCK = re.compile(r"^(New file|At the end of|Patch|Command|It prints)(?: `([^`\n]+)`)?:\n\n"
                   r"```\w+\n(.*?)^```$", re.M | re.S)
PARTS: dict[str, tuple[str, ...]] = {
    "lab": (), "kernel": (), "tests": ("build",)}
"""What recipes change, and what their commands use; without the folders of these names."""
CACHE = os.environ.get("PVSYNC_CACHE")
"""Of whoever runs the tests: the tests of the locks find a Linux there."""
LIMIT_S = 300
END = "-- the command's end --"


@dataclass(frozen=True)
class Step:
    """A block of a recipe, and what the line above it says."""

    what: str
    path: str
    text: str


def recipes() -> dict[str, list[Step]]:
    """The steps of each recipe, by its head."""
    _, *sections = PAGE.read_text().split("\n## ")
    return {section.partition("\n")[0]: [Step(*found) for found in BLOCK.findall(section)]
            for section in sections}


def copy(tree: Path) -> None:
    """The sources as they are here; `./pvsync` is their lab, with the packages that are here."""
    for part, without in PARTS.items():
        shutil.copytree(paths.ROOT / part, tree / part,
                        ignore=shutil.ignore_patterns("__pycache__", *without))
    # The lab has the cache of this test; where that has no Linux, make looks elsewhere.
    command = tree / "pvsync"
    command.write_text(f"#!/bin/sh\nPYTHONPATH={tree} PVSYNC_CACHE={os.environ['PVSYNC_CACHE']} "
                       f"exec {sys.executable} -P -m lab \"$@\"\n")
    command.chmod(0o755)


def typed(step: Step) -> str:
    """What a reader types for a step, at the top of the repository."""
    match step.what:
        case "New file":
            return f"cat >{step.path} <<'EOF'\n{step.text}EOF\n"
        case "At the end of":
            return f"cat >>{step.path} <<'EOF'\n{step.text}EOF\n"
        case "Patch":
            return f"git apply <<'EOF'\n{step.text}EOF\n"
        case _:
            return f"{step.text}echo \"{END}\"\n"


def test_each_block_is_a_step() -> None:
    """None is left out by a line above it that says something else."""
    steps = [step for recipe in recipes().values() for step in recipe]
    assert len(steps) == len(re.findall(r"^```\w+$", PAGE.read_text(), re.M))
    assert list(recipes()) == ["A scheme", "A workload", "A lock", "A policy"]
    for recipe in recipes().values():
        whats = [step.what for step in recipe]
        assert whats[-2:] == ["Command", "It prints"]
        assert whats.count("Command") == whats.count("It prints")


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_works(name: str, tmp_path: Path) -> None:
    """Typed into one shell, so that a step finds what the one before left: its folder, too."""
    tree = tmp_path / "tree"
    copy(tree)
    environment = {key: value for key, value in os.environ.items() if key != "PVSYNC_CACHE"}
    environment |= {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    environment |= {"PVSYNC_CACHE": CACHE} if CACHE else {}
    steps = recipes()[name]
    script = "".join(map(typed, (step for step in steps if step.what != "It prints")))
    # With -C no file that is there already is taken for a new one.
    done = subprocess.run(["sh", "-eC", "-c", script], cwd=tree, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    printed = "".join(f"{step.text}{END}\n" for step in steps if step.what == "It prints")
    assert (done.stdout, done.returncode) == (printed, 0)
