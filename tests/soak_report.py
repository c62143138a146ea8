# SPDX-License-Identifier: GPL-2.0-only
"""What a soak ran and what it found, as Markdown, written stage by stage.

A soak takes hours, and may be ended: what is there by then stays readable.
"""

import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.machine.provenance import git_commit, machine_kind

SAID = 300
"""Characters of what a failed check said."""


@dataclass(frozen=True)
class Case:
    """One check of a stage, as pytest's XML has it."""

    name: str
    seconds: float
    outcome: Literal["passed", "failed", "skipped"]
    said: str
    """Why, unless it passed; one line."""


def cases(xml: Path) -> list[Case]:
    """Those of the file, in its order; none when it was not written to its end."""
    try:
        return [_case(one) for one in ET.parse(xml).getroot().iter("testcase")]
    except (OSError, ET.ParseError, ValueError):
        return []


def _case(one: ET.Element) -> Case:
    name, seconds = one.get("name", "?"), float(one.get("time", "0"))
    bad = [part for kind in ("failure", "error") if (part := one.find(kind)) is not None]
    skipped = one.find("skipped")
    if bad:
        return Case(name, seconds, "failed", _line(bad[0]))
    if skipped is not None:
        return Case(name, seconds, "skipped", _line(skipped))
    return Case(name, seconds, "passed", "")


def _line(part: ET.Element) -> str:
    return " ".join(part.get("message", "").split())[:SAID]


def head(seconds: int) -> str:
    """Title, machine, sources and length."""
    return "\n".join((
        f"# Soak of {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}", "",
        f"Machine: {machine_kind()}. Commit: {git_commit()}. Length of a check: {seconds} s.", ""))


def section(name: str, command: Sequence[str], result: str, seconds: float,
            found: Sequence[Case]) -> str:
    """What one stage did; `result` is its count, and why when it is broken."""
    lines = [f"## {name}", "", f"`{' '.join(command)}`", "", f"{result}, in {seconds:.0f} s.", ""]
    if found:
        lines += ["| check | s | outcome | |", "|---|---|---|---|"]
        lines += ["| {} | {:.0f} | {} | {} |".format(
            one.name, one.seconds, one.outcome, one.said.replace("|", "\\|")) for one in found]
        lines.append("")
    return "\n".join(lines)
