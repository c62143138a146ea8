# SPDX-License-Identifier: GPL-2.0-only
"""Which of KCSAN's data races are ours.

It reports those of the whole kernel, and the kernel has many that are known and
left alone. A race is ours if one of the two functions that it names is defined in
kernel/overlay, or is one that a hunk of kernel/series is in or next to.
"""

import re
from collections.abc import Iterator
from functools import cache

from lab.build import series

REPORT = re.compile(r"BUG: KCSAN: .*? in (?P<one>[\w.]+)\S*(?: \[\w+\])?(?: / (?P<other>[\w.]+))?")
DEFINED = re.compile(r"^(?!typedef\b)[A-Za-z_][\w \t*]*?\b(\w+)\(", re.MULTILINE)
"""A line that begins a function, or a macro that defines one."""
WITHIN = re.compile(r"^(?:[\w \t*]*\W)?(\w+)\(")
"""The same in the head of a hunk, where the type may be on the line before."""
HUNK = re.compile(r"^@@ [^@]*@@ ?(.*)$")
MADE_BY_COMPILER = re.compile(r"\.(?:constprop|isra|part|cold)\b.*")
OURS = "pvsync"
"""In a name, makes a function ours wherever it is."""


def elsewhere(line: str) -> bool:
    """Whether a line of a console is KCSAN's report of a race that is not ours."""
    report = REPORT.search(line)
    return report is not None and not any(ours(name) for name in report.groups() if name)


def ours(function: str) -> bool:
    """Whether a function, as KCSAN names it, is in our code or where our hooks are."""
    name = MADE_BY_COMPILER.sub("", function)
    return OURS in name or name in functions()


@cache
def functions() -> frozenset[str]:
    """Functions of kernel/overlay, and those around the hunks of kernel/series."""
    sources = sorted(path for end in ("c", "h") for path in series.OVERLAY.rglob(f"*.{end}"))
    found = {name for path in sources for name in DEFINED.findall(path.read_text())}
    for patch in sorted(series.SERIES.glob("*.patch")):
        found.update(touched(patch.read_text()))
    return frozenset(found)


def touched(patch: str) -> Iterator[str]:
    """Functions that begin above or within a hunk of a patch."""
    inside = False
    for line in patch.splitlines():
        hunk = HUNK.match(line)
        if hunk:
            inside = True
            yield from WITHIN.findall(hunk[1])
        elif line.startswith(("diff ", "-- ")):
            inside = False
        elif inside and line[:1] in "+ ":
            yield from DEFINED.findall(line[1:])
