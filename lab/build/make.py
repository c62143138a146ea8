# SPDX-License-Identifier: GPL-2.0-only
"""Runs the kernel's make: its steps as progress, and nothing left behind when it stops."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.build.logged import Log
from lab.core import content, tools
from lab.core.progress import Progress, Silent

FIXED = (
    "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER=pvsync",
    "KBUILD_BUILD_HOST=lab",
    "KBUILD_BUILD_VERSION=1",
)
"""So that the same input gives the same kernel, whoever builds it and when."""
STEP = re.compile(r"  [A-Z][A-Z0-9_+]*(?: \[M\])? +(\S+)")
BUILDING = ".pvsync-building"


@contextmanager
def guarded(objects: Path) -> Iterator[None]:
    """Hold a build folder; one that a killed build left (no clean end) is removed first."""
    mark = objects / BUILDING
    if mark.exists():
        content.remove(objects)
    objects.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        # make has ended here and removed its unfinished targets, also when
        # it failed or was interrupted; only a kill skips this.
        mark.unlink(missing_ok=True)


class Make:
    """make on one source tree and one build folder; all output goes to one log."""

    def __init__(self, tree: Path, objects: Path, log: Path, localversion: str, name: str):
        self._name, self._log, self._objects = name, Log(log, name), objects
        self._command = [
            *("make", f"--directory={tree}"),
            *(f"O={objects}", "ARCH=x86", f"LOCALVERSION={localversion}"),
            f"--jobs={len(os.sched_getaffinity(0))}",
        ]

    def targets(
        self,
        *targets: str,
        variables: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        total: int | None = None,
    ) -> int:
        """Make these targets; returns how many steps make took.

        Raises LabError with the log's path and its telling lines. Whatever
        ends the wait, also Ctrl-C, ends make and all its children first.
        """
        settings = [f"{name}={value}" for name, value in (variables or {}).items()]
        steps = 0
        with (progress or Silent()).stage(self._name, total) as stage:

            def see(line: str) -> None:
                nonlocal steps
                if match := STEP.match(line):
                    steps += 1
                    stage.advance()
                    stage.text(match[1].removeprefix(f"{self._objects}/"))

            self._log.run([*self._command, *settings, *targets], f"make {targets[0]}", see,
                          env=_environment())
        return steps


def _environment() -> dict[str, str]:
    """Only what the kernel's build needs: no flags of an outer make, no locale."""
    path = ":".join((os.environ.get("PATH", "/usr/bin:/bin"), *tools.ADMIN_DIRS))
    fixed = dict(setting.split("=", 1) for setting in FIXED)
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {"PATH": path, "LC_ALL": "C", **kept, **fixed}
