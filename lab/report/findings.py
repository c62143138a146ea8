# SPDX-License-Identifier: GPL-2.0-only
"""What runs in virtual time have found wrong, and the seed that finds each again.

A hunt is an experiment of many seeds, each of which is one interleaving. What failed in a
run is named by the run and its seed: `./pvsync replay` plays it again.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.core.model import BootRecord, RunRecord

KINDS = (
    ("splat", re.compile(r"console (?:of guest \S+ )?says|log of guest \S+ says|triple-faulted")),
    ("hang", re.compile(r"\bdid not (?!have in force)|was silent|stood still")),
    ("death", re.compile(r"ended with status -?\d+(?! in guest)|closed|was lost|has died|QEMU")),
    ("wrong result", re.compile(r"")),
)
"""What a reason speaks of; the first that fits. A wake-up that was lost is a hang."""
MOST_SHOWN = 40


@dataclass(frozen=True)
class Finding:
    """Something that went wrong."""

    kind: str
    seed: int
    run: str
    """The run that has shown it; where a guest's boot or end did, the last one of its scheme."""
    scheme: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}, seed {self.seed}, {self.run}: {self.reason.rstrip('.: ')}"


def kind(reason: str) -> str:
    """What a reason for a run's failure speaks of."""
    return next(name for name, pattern in KINDS if pattern.search(reason))


def found(runs: Iterable[tuple[RunRecord, str]], boots: Iterable[BootRecord]) -> list[Finding]:
    """All that is wrong in runs, each with why it is invalid, "" if valid, and in their boots.

    Runs without a seed, in real time or never begun, tell of nothing that can be found again.
    """
    findings, said = [], set[tuple[int, str]]()
    last = dict[tuple[int, str], RunRecord]()
    for run, reason in runs:
        if run.seed is None:
            continue
        last[run.boot, run.scheme] = last[run.boot, ""] = run
        if reason:
            findings.append(Finding(kind(reason), run.seed, run.id, run.scheme, reason))
            said.add((run.boot, reason))
    for boot in boots:
        run_of = last.get((boot.boot, boot.scheme), last.get((boot.boot, "")))
        if boot.ok or run_of is None or run_of.seed is None or (boot.boot, boot.reason) in said:
            continue
        findings.append(Finding(kind(boot.reason), run_of.seed, run_of.id, boot.scheme,
                                boot.reason))
    return findings


def notes(findings: Sequence[Finding], directory: str) -> list[str]:
    """Lines for a report; none when nothing was found."""
    if not findings:
        return []
    seeds = len({finding.seed for finding in findings})
    head = (f"{len(findings)} finding{'s'[:len(findings) - 1]} by {seeds}"
            f" seed{'s'[:seeds - 1]}; to see one again: ./pvsync replay {directory} RUN")
    lines = [head, *(f"  {finding}." for finding in findings[:MOST_SHOWN])]
    if len(findings) > MOST_SHOWN:
        lines.append(f"  and {len(findings) - MOST_SHOWN} more, in summary.json.")
    return lines
