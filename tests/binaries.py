# SPDX-License-Identifier: GPL-2.0-only
"""Test programs in C: built by the Makefile of their folder, run, and their lines counted."""

import functools
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 600
"""Of one run."""
TELLING = ("not ok ", "WARNING: ThreadSanitizer", "SUMMARY: ")
"""How lines begin that say why a run failed, the best first."""


@dataclass(frozen=True)
class Outcome:
    """What one run of one binary gave."""

    passed: int
    failed: int
    text: str  # its output, for whoever has to look


def make(sources: Path, targets: Sequence[str], folder: Path,
         variables: Sequence[str] = ()) -> str | None:
    """Build into `folder` from the Makefile in `sources`; None, or what make said if it failed."""
    command = ["make", "-s", f"-j{os.cpu_count() or 1}", *variables, f"BUILD={folder}",
               *(f"{folder}/{target}" for target in targets)]
    done = subprocess.run(command, cwd=sources, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    return None if done.returncode == 0 else done.stdout


@functools.cache
def fixed_layout() -> tuple[str, ...]:
    """Prefix for ThreadSanitizer, some of whose versions fail on a randomised layout.

    Empty where containers forbid it; there it has to do without.
    """
    prefix = ("setarch", "-R")
    try:
        done = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    except OSError:
        return ()
    return prefix if done.returncode == 0 else ()


def run(command: Sequence[str], seconds: int | None = None) -> Outcome:
    """Run a binary and count its lines; one more failure when it does not end well.

    `seconds` is how long it may search for an error, as its CHECK_SECONDS.
    """
    environment = dict(os.environ)
    if seconds is not None:
        environment["CHECK_SECONDS"] = str(seconds)
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=TIMEOUT_S, check=False)
        text, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired:
        text, status = f"still running after {TIMEOUT_S} s\n", -1
    lines = text.splitlines()
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("not ok ") for line in lines)
    if not failed and (status != 0 or not passed):
        failed = 1
        text += f"ended with status {status}\n"
    return Outcome(passed, failed, text)


def reason(outcome: Outcome) -> str:
    """The line that says why a run failed."""
    lines = outcome.text.splitlines()
    for start in TELLING:
        for line in lines:
            if line.startswith(start):
                return line.removeprefix("not ok ")
    return lines[-1] if lines else "no output"
