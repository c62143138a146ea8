# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's counters: what each counts, their files, and what was added to them.

What a kernel does not have, or what is damaged, is missing or None, and so is
everything that is computed from it.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.core import paths

LIST = paths.KERNEL / "overlay/include/linux/pvsync/counters.h"
ENTRY = re.compile(r'PVSYNC_COUNTER(?:_NS|_CYCLES)?\(\s*(\w+)\s*,((?:\s*"(?:[^"\\]|\\.)*")+)\s*\)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
PAIR = re.compile(r"([a-z_][\w.]*) (\d{1,20})", re.ASCII)


def parse(text: str) -> dict[str, str]:
    """Counter to what it counts, in the order of the list."""
    found = {}
    for name, strings in ENTRY.findall(text):
        found[name] = re.sub(r"\\(.)", r"\1", "".join(STRING.findall(strings)))
    return found


def descriptions(file: Path = LIST) -> dict[str, str]:
    """The same of the kernel sources here; raises OSError without them."""
    return parse(file.read_text(encoding="utf-8"))


# Their files


def rows(pattern: re.Pattern[str], lines: list[str]) -> dict[str, tuple[int, ...]] | None:
    """First group to the other ones; None when the lines cannot be trusted."""
    matches = [pattern.fullmatch(line) for line in lines]
    while matches and matches[-1] is None:
        matches.pop()
    good = [match.groups() for match in matches if match]
    found = {name: tuple(map(int, numbers)) for name, *numbers in good}
    return found if len(found) == len(matches) else None


def pairs(lines: list[str]) -> dict[str, int]:
    """Of lines "name number"; a malformed tail is left out, with other damage all."""
    return {name: value for name, (value,) in (rows(PAIR, lines) or {}).items()}


# Arithmetic


def grown(before: int | None, after: int | None) -> int | None:
    """What was added; None when one is unknown, or when it went backwards."""
    return None if before is None or after is None or after < before else after - before


def each_grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int | None]:
    """The same for each counter."""
    return {name: grown(before.get(name), after.get(name)) for name in {**before, **after}}


def add(values: Iterable[int | None]) -> int | None:
    """The sum; None when a part is unknown."""
    known = 0
    for value in values:
        if value is None:
            return None
        known += value
    return known


def ratio(part: float | None, whole: float | None) -> float | None:
    """None of nothing, and when one of them is unknown."""
    return None if part is None or not whole else part / whole


def percent(part: float | None, whole: float | None) -> float | None:
    """The ratio as percent."""
    found = ratio(part, whole)
    return None if found is None else 100 * found
