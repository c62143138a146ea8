# SPDX-License-Identifier: GPL-2.0-only
"""Fetches packages of any Debian release, signatures checked, beside this machine's own apt."""

import os
from pathlib import Path

from lab.build.mmdebstrap import ENV_MIRROR, KEYRING, MIRROR
from lab.core import content, paths, tools
from lab.core.errors import LabError


def apt(folder: Path, kind: str, suite: str) -> tuple[str, ...]:
    """An apt-get command that knows one suite and keeps all it has in `folder`, which is new.

    `kind` is deb or deb-src. Packages are those of the mirror, whatever this machine has.
    """
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(
        f"{kind} [signed-by={KEYRING}] {mirror()} {suite} main\n"
    )
    options = (
        f"Dir::Etc::SourceList={folder}/sources.list",
        "Dir::Etc::SourceParts=-",
        f"Dir::State::Lists={folder}/lists",
        f"Dir::Cache={folder}/cache",
        "APT::Sandbox::User=root",
        "Acquire::Retries=3",
        "Acquire::Languages=none",
    )
    return ("apt-get", "-qq", *(word for option in options for word in ("-o", option)))


def mirror() -> str:
    """Debian's public archive, or the one in $PVSYNC_MIRROR."""
    return os.environ.get(ENV_MIRROR) or MIRROR


def tarball(package: str, suite: str, name: str) -> Path:
    """The file /usr/src/`name` of a package, from the cache or the mirror (166 MB for a Linux).

    What is in the cache stays, whatever the mirror gets. Raises LabError when the package
    cannot be fetched or has no such file.
    """
    tools.require("apt-get", "dpkg-deb", str(KEYRING))
    digest = content.Hasher().text("package", package, suite, name).short()

    def fetch(out: Path) -> None:
        work = paths.cache_dir() / "tmp" / f"{package}-fetch"
        content.remove(work)
        work.mkdir(parents=True)
        command = apt(work, "deb", suite)
        try:
            tools.run([*command, "update"], cwd=work)
            tools.run([*command, "download", package], cwd=work)
            tools.run(["dpkg-deb", "--extract", next(work.glob("*.deb")), work / "root"])
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (work / "root/usr/src" / name).rename(out / name)
        except (LabError, OSError, StopIteration) as error:
            raise LabError(
                f"{package} of {suite} could not be fetched from {mirror()} ({error}): check the"
                f" network, or name another mirror in ${ENV_MIRROR}"
            ) from None
        finally:
            content.remove(work)

    return content.entry("package", digest, fetch) / name
