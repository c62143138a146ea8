# SPDX-License-Identifier: GPL-2.0-only
"""Sessions on pages that tests type again: what is said has to be as on the page.

PVSYNC_RECORD=1 writes what is said into the page in place of that.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.core import paths

SESSIONS = paths.ROOT / "docs/sessions.md"
"""Of sessions on made-up files; but TOP_FILE is one on a host of the lab."""
TOP_FILE = "To a file: `top -L`"
DEBIAN = paths.ROOT / "docs/sessions-debian.md"
"""Of sessions on a whole Debian."""
BLOCK = re.compile(r"(?ms)^## ([^\n]*)\n(?:(?!^## ).)*?^```\n(.*?)^```$")
COMMAND = re.compile(r"(?m)^# ")
STEADY = ((re.compile(r"\d+ files and directories"), "N files and directories"),
          (re.compile(r"\d+\.\d+\.\d+\+deb(\d+)"), r"VERSION+deb\1"),
          (re.compile(r"Python 3\.\d+\.\d+"), "Python 3.N"))
"""What any update of Debian changes, and what stands for it."""

FIGURE = re.compile(r"(?<![\w.])-?\d[\d.]*(?:e-?\d+)?k?|(?<=\s)-(?=\s)")
"""What another run changes: a number, or that there is none."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Title and session of each part of a page that has one."""
    return BLOCK.findall(page.read_text())


def said(session: str) -> Iterator[tuple[str, str]]:
    """Each command of a session and what it says: a line "# COMMAND", its output below it."""
    for part in COMMAND.split(session)[1:]:
        command, _, output = part.partition("\n")
        for pattern, steady in STEADY:
            output = pattern.sub(steady, output)
        yield command, output


def _block(page: str, title: str) -> tuple[int, int]:
    """Where the session below a title is in a page."""
    found = next((one for one in BLOCK.finditer(page) if one[1] == title), None)
    assert found is not None, f"there is no session {title!r}"
    return found.span(2)


def loosely(text: str) -> list[str]:
    """The words of a text without its figures, sorted: these say what comes first."""
    return sorted(FIGURE.sub("N", text).split())


def compare(page: Path, title: str, session: Iterable[tuple[str, str]],
            figures: bool = True) -> None:
    """Every command of the page's session was typed, in this order, and said what is there; but
    for its figures, if told so."""
    text, again = page.read_text(), ""
    begin, end = _block(text, title)
    typed = iter(session)
    for command, _ in said(text[begin:end]):
        output = next((told for one, told in typed if one == command), None)
        assert output is not None, f"{title}: nobody has typed {command!r} at this place"
        again += f"# {command}\n{output}"
    if "PVSYNC_RECORD" in os.environ:
        page.write_text(text[:begin] + again + text[end:])
    elif figures:
        assert text[begin:end] == again, title
    else:
        assert loosely(text[begin:end]) == loosely(again), title
