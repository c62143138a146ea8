# SPDX-License-Identifier: GPL-2.0-only
"""Scripts in a KVM host of their own, and what they print."""

import re

from lab.core.progress import Silent
from lab.observe.counters import pairs
from lab.run import host
from lab.run.host import Job


def said_by(job: Job) -> str:
    """What the job's command prints; an assertion when it does not end with status 0."""
    pieces: list[bytes] = []
    status = host.run(job, host.ready(job, None, Silent()), pieces.append)
    output = b"".join(pieces).decode(errors="replace")
    print(output)
    assert status == 0, output
    return output


def lines(word: str, output: str) -> dict[str, int]:
    """Of lines "word name number"."""
    return pairs(re.findall(rf"^{word} (\w+ \d+)\r?$", output, re.MULTILINE))
