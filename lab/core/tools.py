# SPDX-License-Identifier: GPL-2.0-only
"""The commands of this machine that the lab uses, and the packages they come from."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.core import paths
from lab.core.errors import LabError, UsageError

PACKAGES = paths.LAB / "packages.txt"
ADMIN_DIRS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Debian leaves these out of a user's PATH, but depmod and mkfs live there."""
DIE_WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""Before a long command: the kernel ends it when the lab is killed."""
STOP_S = 10.0
"""Seconds that a long command gets to clean up after each signal."""


def packages(listing: Path = PACKAGES) -> dict[str, str]:
    """Debian package -> the command or absolute file that shows it is installed."""
    found: dict[str, str] = {}
    for number, line in enumerate(listing.read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise UsageError(f"{listing}:{number}: expected a package and its command or file")
        found[words[0]] = words[1]
    return found


def find(command: str) -> str | None:
    """Path of a command, also where only an administrator's PATH looks; None when missing."""
    return shutil.which(command) or shutil.which(command, path=":".join(ADMIN_DIRS))


def require(*needed: str, also: Mapping[str, str] | None = None) -> None:
    """Check commands and absolute files; UsageError names the packages of those missing.

    `also` has packages that the listing lacks, by what shows them.
    """
    missing = [
        item for item in needed if not (Path(item).exists() if item[0] == "/" else find(item))
    ]
    if not missing:
        return
    source = {shows: package for package, shows in packages().items()} | dict(also or {})
    names = " ".join(dict.fromkeys(source.get(item, item) for item in missing))
    verb = "is" if len(missing) == 1 else "are"
    raise UsageError(
        f"{', '.join(missing)} {verb} missing: run `make deps`, or install the Debian"
        f" package{'s' if ' ' in names else ''} {names}"
    )


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> bytes:
    """Run a short command and return its standard output.

    Raises UsageError when the command is missing, LabError with the last
    line of its standard error when it fails.
    """
    name = str(command[0])
    path = find(name)
    if path is None:
        require(name)
    done = subprocess.run(
        [path or name, *map(str, command[1:])],
        cwd=cwd,
        env=dict(env) if env is not None else None,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        said = lines[-1] if lines else "no message"
        raise LabError(f"`{name} {command[1]}` failed (status {done.returncode}): {said}")
    return done.stdout


@contextmanager
def follow(
    command: Sequence[str | Path], *, cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    """A long command whose output, errors among it, is read line by line.

    Whatever ends the block, also Ctrl-C, ends the command and all its children.
    """
    process = subprocess.Popen(
        [*DIE_WITH_US, *map(str, command)],
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    try:
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[str]") -> None:
    """End a command that leads a process group of its own, and whatever it started.

    It gets time to clean up. Does nothing after a success.
    """
    if process.poll() == 0:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=STOP_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
