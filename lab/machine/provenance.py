# SPDX-License-Identifier: GPL-2.0-only
"""What figures were made on and with, for those who read or continue them."""

import os
import platform
import subprocess
from pathlib import Path

import psutil

from lab.core.paths import ROOT


def machine_kind() -> str:
    """Processor, cores and memory, such as "AMD EPYC, 2 CPUs, 24 GiB"."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = psutil.virtual_memory().total / (1 << 30)
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, {memory:.0f} GiB"


def _git(*arguments: str) -> str | None:
    """What git says of this repository; None when it fails."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True,
                              text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def git_commit() -> str:
    """Commit of this repository, with "-dirty" when files differ; may be "unknown"."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain") else commit


def is_known(commit: str) -> bool:
    """Whether a clone of this repository has that commit: it is HEAD, or one before."""
    return _git("merge-base", "--is-ancestor", "--end-of-options", commit, "HEAD") is not None
