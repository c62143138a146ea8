# SPDX-License-Identifier: GPL-2.0-only
"""Plays an experiment in virtual time, or goes on with it, for commands that play several."""

import sys
from pathlib import Path

from lab.core.model import Experiment
from lab.core.progress import Progress
from lab.plan import config
from lab.report import report
from lab.report.summary import Summary
from lab.run import resuming, runner


def play(plan: Experiment, directory: Path, model: str, jobs: int, packages: tuple[str, ...],
         progress: Progress) -> Summary:
    """The results in the directory, which goes on where it is; no page of their own.

    UsageError where it was begun with something else.
    """
    packages = (*packages, *config.guest_packages(plan))
    begun = (directory / "manifest.json").exists()
    options = runner.Options(backend="vt", machine=model, jobs=jobs, resume=begun,
                             command=("./pvsync", *sys.argv[1:]), packages=packages)
    files = None
    if begun:
        resuming.check(directory, plan, "vt", model)
        files = resuming.same_files(directory, plan, None, packages, progress)
    runner.run(plan, directory, options, progress, files)
    return report.make(directory, page=False)
