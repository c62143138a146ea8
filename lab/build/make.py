# SPDX-License-Identifier: GPL-2.0-only
"""Runs the kernel's make: a log, progress, and nothing left behind when it stops."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.core import content, tools
from lab.core.errors import LabError
from lab.core.progress import Progress, Silent, Stage

FIXED = (
    "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER=pvsync",
    "KBUILD_BUILD_HOST=lab",
    "KBUILD_BUILD_VERSION=1",
)
"""So that the same input gives the same kernel, whoever builds it and when."""
STEP = re.compile(r"  [A-Z][A-Z0-9_+]*(?: \[M\])? +(\S+)")
FAULT = re.compile(
    r"error:|ERROR|FAILED|fatal:|No space left|undefined reference|multiple definition"
    r"|not found|cannot "
)
GAVE_UP = re.compile(r"\*\*\*|Error \d+|[Kk]illed")
SHOWN = 5
"""Lines of the log that an error repeats."""
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


def fault_lines(log: str) -> list[str]:
    """The lines of make's output that say why it failed, the last few."""
    lines = [line.strip() for line in log.splitlines()]
    found = [line for line in lines if FAULT.search(line)]
    found = found or [line for line in lines if GAVE_UP.search(line)]
    return (found or [line for line in lines if line])[-SHOWN:]


class Make:
    """make on one source tree and one build folder; all output goes to one log."""

    def __init__(self, tree: Path, objects: Path, log: Path, localversion: str, name: str):
        self._name, self._log, self._objects = name, log, objects
        self._command = [
            *("make", f"--directory={tree}"),
            *(f"O={objects}", "ARCH=x86", f"LOCALVERSION={localversion}"),
            f"--jobs={len(os.sched_getaffinity(0))}",
        ]
        log.write_text("")

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
        with (progress or Silent()).stage(self._name, total) as stage, self._log.open("a") as log:
            log.write(f"$ make {' '.join((*settings, *targets))}\n")
            log.flush()
            start = self._log.stat().st_size
            command = [*self._command, *settings, *targets]
            with tools.follow(command, env=_environment()) as process:
                steps = self._follow(process, log.write, stage)
                status = process.wait()
        if status:
            lines = fault_lines(self._log.read_bytes()[start:].decode(errors="replace"))
            said = "".join(f"\n  {line}" for line in lines)
            raise LabError(
                f"{self._name}: make {targets[0]} failed (status {status}), see {self._log}:{said}"
            )
        return steps

    def _follow(
        self, process: "subprocess.Popen[str]", write: Callable[[str], int], stage: Stage
    ) -> int:
        """Copy make's output to the log and count its steps."""
        assert process.stdout is not None
        steps = 0
        for line in process.stdout:
            write(line)
            if match := STEP.match(line):
                steps += 1
                stage.advance()
                stage.text(match[1].removeprefix(f"{self._objects}/"))
        return steps


def _environment() -> dict[str, str]:
    """Only what the kernel's build needs: no flags of an outer make, no locale."""
    path = ":".join((os.environ.get("PATH", "/usr/bin:/bin"), *tools.ADMIN_DIRS))
    fixed = dict(setting.split("=", 1) for setting in FIXED)
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {"PATH": path, "LC_ALL": "C", **kept, **fixed}
