# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel's counters count, as the kernel's own list says it."""

import re
from pathlib import Path

from lab import paths

LIST = paths.KERNEL / "overlay/include/linux/pvsync/counters.h"
ENTRY = re.compile(r'PVSYNC_COUNTER\(\s*(\w+)\s*,((?:\s*"(?:[^"\\]|\\.)*")+)\s*\)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def parse(text: str) -> dict[str, str]:
    """Counter to what it counts, in the order of the list."""
    found = {}
    for name, strings in ENTRY.findall(text):
        found[name] = re.sub(r"\\(.)", r"\1", "".join(STRING.findall(strings)))
    return found


def descriptions(file: Path = LIST) -> dict[str, str]:
    """The same of the kernel sources here; raises OSError without them."""
    return parse(file.read_text(encoding="utf-8"))
