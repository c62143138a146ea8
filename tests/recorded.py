# SPDX-License-Identifier: GPL-2.0-only
"""Sessions on pages that tests type again: what is said has to be as on the page.

PVSYNC_RECORD=1 writes what is said into the page in place of that.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.core import paths

DEBIAN = paths.ROOT / "docs/sessions-debian.md"
"""Of sessions on a whole Debian."""
COMMAND = re.compile(r"(?m)^# ")
STEADY = ((re.compile(r"\d+ files and directories"), "N files and directories"),
          (re.compile(r"\d+\.\d+\.\d+\+deb(\d+)"), r"VERSION+deb\1"))
"""What any update of Debian changes, and what stands for it."""

FIGURE = re.compile(r"(?<![\w.])-?\d[\d.]*(?:e-?\d+)?k?|(?<=\s)-(?=\s)")
"""What another run changes: a number, or that there is none."""


def said(session: str) -> Iterator[tuple[str, str]]:
    """Each command of a session and what it says: a line "# COMMAND", its output below it."""
    for part in COMMAND.split(session)[1:]:
        command, _, output = part.partition("\n")
        for pattern, steady in STEADY:
            output = pattern.sub(steady, output)
        yield command, output


def _block(page: str, title: str) -> tuple[int, int]:
    """Where the session below a title is in a page."""
    at = page.index(f"\n## {title}\n")
    begin = page.index("```\n", at) + 4
    return begin, page.index("```\n", begin)


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
