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
    "lab": (), "kernel": (), "tests": ("build",), "pvsync": ()}
"""What recipes change, and what their commands use; without the folders of these names."""
CACHE = os.environ.get("PVSYNC_CACHE")
"""Of whoever runs the tests: the tests of the locks find a Linux there."""
LIMIT_S = 300


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
    """The sources as they are here."""
    tree.mkdir()
    for part, without in PARTS.items():
        if (paths.ROOT / part).is_dir():
            shutil.copytree(paths.ROOT / part, tree / part,
                            ignore=shutil.ignore_patterns("__pycache__", *without))
        else:
            shutil.copy2(paths.ROOT / part, tree / part)


def run(command: str, tree: Path) -> str:
    """What a command prints. `./pvsync` is the copy's lab, with the packages that are here."""
    environment = dict(os.environ)
    # The lab has the cache of this test; where that has no Linux, make looks elsewhere.
    if "./pvsync" not in command:
        environment.pop("PVSYNC_CACHE")
        environment |= {"PVSYNC_CACHE": CACHE} if CACHE else {}
    done = subprocess.run(
        ["sh", "-c", command.replace("./pvsync", f"{sys.executable} -m lab")], cwd=tree,
        env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.stdout + done.stderr


def follow(step: Step, tree: Path, printed: str) -> str:
    """Do one step; what its command printed, or what the one before did."""
    target = tree / step.path
    match step.what:
        case "New file":
            assert not target.exists(), f"{step.path} is there already"
            target.write_text(step.text)
        case "At the end of":
            target.write_text(target.read_text() + step.text)
        case "Patch":
            done = subprocess.run(["git", "apply", "-"], cwd=tree, input=step.text, text=True,
                                  capture_output=True, check=False,
                                  env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)})
            assert done.returncode == 0, done.stderr
        case "Command":
            return run(step.text, tree)
        case _:
            assert printed == step.text
    return printed


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
    tree = tmp_path / "tree"
    copy(tree)
    printed = ""
    for step in recipes()[name]:
        printed = follow(step, tree, printed)
