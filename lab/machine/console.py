# SPDX-License-Identifier: GPL-2.0-only
"""Finds trouble in a kernel's console output or log. Any bytes do."""

import re
from dataclasses import dataclass

from lab.build import races

_TROUBLE = re.compile(
    r"BUG: |WARNING: (?!.*(?:possible clock|TSC doesn't count))|\bOops\b|Kernel panic"
    r"|rcu.*(?:stall|self-detected)|kthread (?:timer wakeup didn't happen|starved)"
    r"|soft lockup|hard LOCKUP|hung_task|blocked for more than \d+ seconds"
    r"|scheduling while atomic|bad: scheduling from|sleeping function called"
    r"|general protection fault|Call Trace:|double fault|unable to handle"
    r"|clocksource: .*(?:unstable|skewed)|Marking clocksource|Marking TSC unstable"
    r"|(?:invalid opcode|divide error|stack segment): 0000"
    r"|hrtimer: interrupt took|NETDEV WATCHDOG|Out of memory|oom-kill|Killed process"
    r"|possible (?:circular|recursive|irq) lock|inconsistent lock state|DEADLOCK"
    r"|suspicious RCU usage|bad unlock balance|held lock freed|still ha(?:s|ve) locks held"
    r"|non-static key|locking correctness validator|Invalid wait context|lock order detected"
    r"|segfault at|traps: .* general protection"
    r"|end_request: I/O error|I/O error, dev|EROFS-fs .*error"
    r"|KASAN:|KCSAN:|UBSAN:|list_(?:add|del) corruption|refcount_t:|!!!|--- End of test: FAILURE"
    r"|APIC timer disabled|TSC rate below hardware speed|watchdog: (?!Delayed|.*disabled)"
    r"|spinlock (?:bad|lockup|wrong)"
    r"|Attempted to kill init|not syncing|guest-init: |Bad page|bad page"
)
_HARMLESS = re.compile(
    r"hrtimer: interrupt took"      # emulation is slow; time is not lost
    r"|watchdog: .*(?:initialized|NMI watchdog)"
    r"|Spectre|MDS|mitigations?|vulnerab"
    r"|WARNING: (?:Spectre|Support for)|command line parameter"
    r"|rcu-torture:--- (?:Start of test|End of test: SUCCESS):"  # lists stall_cpu=0
    r"|-torture:!!! Failed to create"  # modprobe was killed, as its run is over; or fails itself
)
LONGEST = 4096
"""Bytes of a line; what a binary console has more of is not looked at together."""
_STAMP = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\](?:\[[^]]*\])?\s*")


@dataclass(frozen=True)
class Finding:
    """One line that means trouble; `line` counts from 1."""

    line: int
    text: str


def clean(data: bytes) -> str:
    """Console bytes as text: NULs, escapes and other controls removed."""
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b(?:c|[()][0-9A-Z]?)", "", text)
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "", text)


def follow(tail: bytes, data: bytes) -> tuple[list[Finding], bytes]:
    """Scan what a console has said since `tail`; the next tail: a line that has no end yet.

    A line that came in two pieces is looked at as a whole, and then perhaps twice.
    """
    text = tail + data
    return scan(text), text.rpartition(b"\n")[2][-LONGEST:]


def scan(data: bytes) -> list[Finding]:
    """All lines that mean trouble, in order, each at most 160 characters.

    Data races that are not ours, see `races`, mean none.
    """
    found = []
    for number, line in enumerate(clean(data).split("\n"), 1):
        if _TROUBLE.search(line) and not _HARMLESS.search(line) and not races.elsewhere(line):
            found.append(Finding(number, _STAMP.sub("", line).strip()[:160]))
    return found
