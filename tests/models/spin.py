# SPDX-License-Identifier: GPL-2.0-only
"""Spin: make the verifier of a model, run it, read its verdict; keep trails as text.

A trail is the shortest way to an error (the search is breadth first, without
partial order reduction), and one line a step: the process, and what it executes.
`PVSYNC_TRAILS=write` writes the trails that the tests compare otherwise.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

EXHAUSTIVE = ("-O2",)
"""COLLAPSE would halve the memory, 4 GB for the largest model, and take almost twice as long."""
SHORTEST = ("-O1", "-DBFS", "-DNOREDUCE")
SLOTS = {EXHAUSTIVE: 26, SHORTEST: 24}
"""Of the table of states, by their logarithm to base 2."""
TRAILS = Path(__file__).with_name("trails")
STEP = re.compile(r"^\s*(\d+):\tproc\s+(\d+) \(([^:]+):\d+\) \S+ \(state \d+\)\s+\[(.*)\]$")
EFFECT = re.compile(r"^[\w.\[\]()*+ ]+ = |^\w+(\[\w+\])?[!?]")
# What Spin executes besides statements.
NO_STATEMENTS = {"IF", "DO", ".(goto)", "sub-sequence", "else", "break", "goto :b0", "(1)", "skip"}


@dataclass(frozen=True)
class Verdict:
    """What Spin's verifier said."""

    errors: int
    states: int
    complete: bool
    first: str
    """The first error, empty without one."""


def verdict(output: str) -> Verdict:
    """Parse the verifier's output; a missing line is a failure of the verifier itself."""
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"^\s*(\S+) states, stored", output, re.MULTILINE)
    assert errors and states, output
    first = re.search(r"^pan:1: (.*) \(at depth \d+\)", output, re.MULTILINE)
    complete = "Search not completed" not in output and "max search depth" not in output
    text = " ".join(first[1].split()) if first else ""
    return Verdict(int(errors[1]), int(float(states[1])), complete, text)


def search(model: Path, folder: Path, how: tuple[str, ...], defines: tuple[str, ...]) -> Verdict:
    """Generate, compile and run the verifier of a model in an empty folder."""
    subprocess.run(["spin", *defines, "-a", model], cwd=folder, check=True, capture_output=True)
    subprocess.run(("gcc", "-w", "-DSAFETY", "-DVECTORSZ=2048", *how, "-o", "pan", "pan.c"),
                   cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["./pan", "-m1000000", f"-w{SLOTS[how]}"], cwd=folder, check=True,
                          capture_output=True, text=True, timeout=900)
    return verdict(done.stdout)


def verify(model: Path, folder: Path, *defines: str) -> Verdict:
    """Search all states."""
    return search(model, folder, EXHAUSTIVE, defines)


def check(name: str, found: Verdict, states: int) -> None:
    """A search without errors, of all that it should have searched."""
    assert found.errors == 0, found.first
    assert found.complete
    print(f"[{name}: {found.states} states]", end=" ")
    assert found.states == states


def shortest(model: Path, folder: Path, *defines: str) -> tuple[Verdict, str]:
    """Search for the nearest error; the verdict, and the trail as text."""
    defines = (*defines, "-DSHORTEST")
    found = search(model, folder, SHORTEST, defines)
    if not found.errors:
        return found, ""
    trail = folder / f"{model.name}.trail"
    done = subprocess.run(["spin", "-k", trail, "-p", *defines, model], cwd=folder, check=False,
                          capture_output=True, text=True)
    return found, "".join(f"{line}\n" for line in (*readable(done.stdout), found.first))


def first_error(kept: str, model: Path, folder: Path, *defines: str) -> str:
    """The nearest error of a model that is wrong; the way to it has to be the trail kept."""
    found, trail = shortest(model, folder, *defines)
    assert found.errors
    assert same_trail(kept, trail)
    return found.first


def readable(simulation: str) -> Iterator[str]:
    """One line for each step of Spin's guided simulation, from the end of init on.

    Processes are numbered from 0 within those of their name.
    """
    steps = [match.groups() for match in map(STEP.match, simulation.splitlines()) if match]
    names: dict[str, list[int]] = {}
    for pid, name in sorted({(int(pid), name) for _, pid, name, _ in steps}):
        names.setdefault(name, []).append(pid)
    for _, group in groupby(steps, key=lambda step: step[:3]):
        _, number, name, _ = (lines := list(group))[0]
        done = essence([plain(text) for *_, text in lines if text not in NO_STATEMENTS])
        if name != ":init:" and done:
            yield f"{name} {names[name].index(int(number))}: {'; '.join(done)}"


def essence(statements: list[str]) -> list[str]:
    """What a step changes; if it changes nothing, on what condition it was taken."""
    effects = [text for text in statements if EFFECT.search(text)]
    return effects or [text for text in statements if not text.startswith("assert(")]


def plain(statement: str) -> str:
    """A statement without the parentheses that Spin puts around everything."""
    while statement.startswith("(") and closes(statement) == len(statement) - 1:
        statement = statement[1:-1]
    return re.sub(r"^(\S+) = \((\S+)\)$", r"\1 = \2", statement)


def closes(text: str) -> int:
    """Where the parenthesis closes that `text` opens with."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at
    return -1


def same_trail(name: str, text: str) -> bool:
    """Whether the trail is the one that is kept, or write it if that was asked for."""
    path = TRAILS / f"{name}.txt"
    if os.environ.get("PVSYNC_TRAILS") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path.is_file() and path.read_text() == text
