# SPDX-License-Identifier: GPL-2.0-only
"""The rooms of the lab: imports in one direction, a map that is true, modules of a size."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lab.core import paths

ROOMS = ("core", "plan", "build", "machine", "observe", "operate", "run", "report", "sweep", "cli")
"""Each may import from itself and from those before it."""
MOST_LINES = 400
MODULES = sorted(file for room in ROOMS for file in (paths.LAB / room).glob("*.py"))


def imported(file: Path) -> Iterator[str]:
    """Rooms that a module imports from, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = ([alias.name for alias in node.names] if isinstance(node, ast.Import)
                 else [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        yield from (name.split(".")[1] for name in names if name.startswith("lab."))


def test_nothing_lies_outside_of_a_room() -> None:
    assert {file.name for file in paths.LAB.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert {file.parent.name for file in paths.LAB.glob("*/__init__.py")} == {*ROOMS}


def test_imports_go_one_way() -> None:
    wrong = [f"{file.parent.name}/{file.name} imports from {room}" for file in MODULES
             for room in imported(file)
             if ROOMS.index(room) > ROOMS.index(file.parent.name)]
    assert not wrong, wrong


def test_operators_need_nothing_but_python() -> None:
    """Their tools, and what these import of the lab, run on a host without any package."""
    script = "import sys, pkgutil, lab.operate as room\n" \
        "for found in pkgutil.iter_modules(room.__path__):\n" \
        "    __import__(f'lab.operate.{found.name}')\n" \
        "alien = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names\n" \
        "print(sorted(alien - {'lab', '__main__'}))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c",
                           f"import sys; sys.path.insert(0, {str(paths.ROOT)!r})\n{script}"],
                          capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    rooms = {room for file in (paths.LAB / "operate").glob("*.py") for room in imported(file)}
    assert rooms <= {"core", "observe", "operate"}


def test_the_map_names_every_module() -> None:
    text = (paths.LAB / "README.md").read_text()
    rooms = dict(zip(ROOMS, text.split("\n## ")[-len(ROOMS):], strict=True))
    for file in MODULES:
        assert file.stem == "__init__" or f"| `{file.name}` |" in rooms[file.parent.name], file
    listed = sum(one.count(".py` |") for one in rooms.values())
    assert listed == len([file for file in MODULES if file.stem != "__init__"])


def test_no_module_is_too_long() -> None:
    there = (*MODULES, *(paths.LAB / "target").glob("*.py"))
    long = {f"{file.parent.name}/{file.name}": lines for file in there
            if (lines := file.read_text().count("\n")) > MOST_LINES}
    assert not long, long
