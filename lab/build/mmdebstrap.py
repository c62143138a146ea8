# SPDX-License-Identifier: GPL-2.0-only
"""Makes a Debian userland in a folder, of any release, on any distribution."""

import os
import pwd
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.core import paths, tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Stage

RECIPE = "1"
"""Goes into the hash; change it when the same packages are to give another userland."""
MIRROR = "http://deb.debian.org/debian"
"""Debian's public archive; $PVSYNC_MIRROR names another."""
ENV_MIRROR = "PVSYNC_MIRROR"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LEFT_OUT = ("./dev/*", "./etc/resolv.conf", "./etc/hostname", "./etc/hosts")
"""Made by the kernel, or telling of the machine that made the userland."""
NO_FILES = ("man", "info", "locale", "doc")
"""Folders of /usr/share that are not installed."""
KEPT_LINES = 200
SHOWN_CHARS = 160


@dataclass(frozen=True)
class Suite:
    """A Debian release."""

    version: int
    name: str
    backports: bool = False
    """Prefer packages of its backports, for those that have one."""

    def sources(self, mirror: str) -> list[str]:
        """Lines of a sources.list."""
        suites = [self.name, *([f"{self.name}-backports"] if self.backports else [])]
        return [f"deb {mirror} {suite} main" for suite in suites]


def mode() -> str:
    """How mmdebstrap becomes root of the userland: as root, or in a user namespace.

    Raises UsageError when this user can do neither. (Its other modes do not
    make a release newer than this machine's.)
    """
    if os.geteuid() == 0:
        return "root"
    user = pwd.getpwuid(os.geteuid()).pw_name
    tools.require("newuidmap", "unshare")
    listed = all(_has_ids(Path(path), user) for path in ("/etc/subuid", "/etc/subgid"))
    if not listed or subprocess.run(["unshare", "--user", "true"], check=False).returncode:
        raise UsageError(
            f"{user} cannot make a Debian userland here: run as root, or give {user} user"
            " namespaces and a range in /etc/subuid and /etc/subgid (`usermod"
            f" --add-subuids 100000-165535 --add-subgids 100000-165535 {user}`)"
        )
    return "unshare"


def _has_ids(listing: Path, user: str) -> bool:
    """Whether a user has a range in /etc/subuid or /etc/subgid."""
    try:
        lines = listing.read_text().splitlines()
    except OSError:
        return False
    return any(line.partition(":")[0] in (user, str(os.geteuid())) for line in lines)


def command(suite: Suite, packages: Sequence[str], mirror: str, proxy: str = "") -> list[str]:
    """The mmdebstrap command that writes the userland as a tar archive to its output."""
    options = ['APT::Install-Recommends "false"']
    if suite.backports:
        options.append(f'APT::Default-Release "{suite.name}-backports"')
    if proxy:
        options.append(f'Acquire::http::Proxy "{proxy}"')
    return [
        *("mmdebstrap", f"--mode={mode()}", "--variant=minbase", "--format=tar"),
        f"--keyring={KEYRING}",
        f"--include={','.join(packages)}",
        *(f"--aptopt={option}" for option in options),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in NO_FILES),
        *(suite.name, "-", *suite.sources(mirror)),
    ]


def make(suite: Suite, packages: Sequence[str], root: Path, progress: Progress) -> None:
    """Fill the empty folder `root`.

    Run by root, files have their owners in Debian; else all belong to the
    user. Raises UsageError when a package is unknown or a tool is missing,
    LabError when the mirror or mmdebstrap fails.
    """
    tools.require("mmdebstrap", str(KEYRING), "tar")
    mirror = os.environ.get(ENV_MIRROR) or MIRROR
    with progress.stage(f"Debian {suite.version} userland") as stage:
        stage.text(", ".join(packages))
        lines, statuses = _run(command(suite, packages, mirror, _proxy()), root, stage)
    if any(statuses):
        log = paths.cache_dir() / f"userland-{suite.name}.log"
        log.write_text("".join(f"{line}\n" for line in lines))
        raise failure(suite, mirror, lines, log)


def _run(command: list[str], root: Path, stage: Stage) -> tuple[list[str], tuple[int, int]]:
    """Run mmdebstrap into tar; its last lines and both exit statuses."""
    maker = subprocess.Popen(
        [*tools.DIE_WITH_US, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
    )
    excluded = [f"--exclude={path}" for path in LEFT_OUT]
    unpacker = subprocess.Popen(
        ["tar", "--extract", "--preserve-permissions", "--file=-", *excluded],
        cwd=root,
        stdin=maker.stdout,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    assert maker.stdout is not None and maker.stderr is not None
    maker.stdout.close()
    lines: list[str] = []
    try:
        for line in maker.stderr:
            lines = [*lines[-KEPT_LINES:], line.rstrip()]
            if line.startswith("I: "):
                stage.text(line[3:].strip())
        return lines, (maker.wait(), unpacker.wait())
    finally:
        tools.stop(maker)
        tools.stop(unpacker)
        maker.stderr.close()


def failure(suite: Suite, mirror: str, lines: Sequence[str], log: Path) -> LabError:
    """The error that mmdebstrap's last lines, which are in `log`, tell of."""
    text = "\n".join(lines)
    unknown = re.findall(
        r"Unable to locate package (\S+)|Package '?([^'\s]+)'? has no installation candidate"
        r"|Couldn't find any package by (?:glob|regex) '([^']+)'",
        text,
    )
    if unknown:
        names = dict.fromkeys("".join(groups) for groups in unknown)
        return UsageError(
            f"Debian {suite.version} ({suite.name}) has no package {', '.join(names)}:"
            " correct the name"
        )
    if re.search(r"Could not (resolve|connect)|Failed to fetch|Temporary failure|timed out", text):
        return LabError(
            f"the Debian mirror {mirror} cannot be reached: check the network, or name another"
            f" in ${ENV_MIRROR}"
        )
    said = [line for line in lines if line.startswith("E: ")] or list(lines[-1:])
    why = said[0].removeprefix("E: ")[:SHOWN_CHARS] if said else "no message"
    return LabError(
        f"mmdebstrap could not make the Debian {suite.version} userland, see {log}: {why}"
    )


def _proxy() -> str:
    """The HTTP proxy that this machine's own apt uses, if any."""
    if not tools.find("apt-config"):
        return ""
    said = tools.run(["apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy"])
    return said.decode().strip()
