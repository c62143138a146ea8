# SPDX-License-Identifier: GPL-2.0-only
"""b4 of PyPI without network, in a git repository of the bare base, and threads of patch mails.

The folders of kernel/rfc have mails as `git format-patch` writes them, without what a thread needs:
whoever sends one gives each mail its Message-Id. `thread` does it here.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.build import base, prerequisites, rfc, series
from lab.core import paths

LOCK = paths.ROOT / "requirements/b4.txt"
WHO = "pvsync developers", "pvsync@localhost"
NOWHERE = "http://127.0.0.1:9"
"""A proxy that answers nobody: what is looked up fails."""
TOP = ("COPYING", "CREDITS", "Kbuild", "MAINTAINERS", "Makefile", "README", "scripts")
"""Of Linux, with `FOLDERS` what its scripts know a whole tree by."""
FOLDERS = ("Documentation", "arch", "include", "drivers", "fs", "init", "ipc", "kernel", "lib")
CHECKPATCH = ("./scripts/checkpatch.pl -q --terse --no-summary --mailback --showfile --strict"
              f" --ignore={','.join(rfc.IGNORED)}")
"""b4's own command, and what `./pvsync series check` adds to it."""
LONG_AGO = "2026-01-01T00:00:00Z"
"""When all is committed: b4 looks for the base of mails among commits that are older."""
TOUCHED = re.compile(r"^(?:---|\+\+\+) [ab]/(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Repository:
    """A folder with git and b4, and with what both are told by the environment."""

    path: Path
    programs: Path
    environment: Mapping[str, str]

    def run(self, *command: str | Path, status: int = 0, stdin: bytes = b"") -> str:
        """What a command says there."""
        done = subprocess.run(command, cwd=self.path, env=self.environment, input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        said = done.stdout.decode(errors="replace")
        assert done.returncode == status, f"{command}: {done.returncode}: {said}"
        return said

    def git(self, *command: str | Path, status: int = 0) -> str:
        return self.run("git", *command, status=status).strip()

    def b4(self, *command: str | Path, stdin: bytes = b"") -> str:
        """What it says; it has no network."""
        return self.run(sys.executable, "-P", self.programs / "bin/b4", "--offline-mode",
                        "--no-interactive", "--no-stdin", *command, stdin=stdin)

    def edited(self, text: str) -> "Repository":
        """The same, with an editor that writes this."""
        file, editor = self.path.with_name("text"), self.path.with_name("editor")
        file.write_text(text)
        editor.write_text(f'#!/bin/sh\ncp "{file}" "$1"\n')
        editor.chmod(0o755)
        return replace(self, environment={**self.environment, "GIT_EDITOR": str(editor)})


def install(folder: Path) -> Path:
    """b4 and its packages, in this folder."""
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-input",
                    "--disable-pip-version-check", "--target", folder, "--require-hashes",
                    "--only-binary", ":all:", "--no-binary", "dkimpy", "--no-build-isolation",
                    "-r", LOCK], check=True)
    return folder


def repository(folder: Path, programs: Path) -> Repository:
    """One commit, with the tag `base`: the files of the base that the mails and b4 need."""
    source, tree = base.source().tree, folder / "linux"
    patches = [path for one in rfc.folders() for path in series.own_patches(one)]
    names = {name for path in patches for name in TOUCHED.findall(path.read_text())}
    for name in FOLDERS:
        (tree / name).mkdir(parents=True)
    for name in (*TOP, *sorted(names)):
        if (source / name).is_dir():
            shutil.copytree(source / name, tree / name, symlinks=True)
        elif (source / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, tree / name)
    home = folder / "home"
    home.mkdir()
    settings = {"user.name": WHO[0], "user.email": WHO[1], "sendemail.smtpserver": "localhost",
                "b4.prep-perpatch-check-cmd": CHECKPATCH}
    (tree / "scripts/spdxcheck.py").unlink()  # It needs a package that nobody else needs.
    (home / ".gitconfig").write_text("".join(
        "[{}]\n\t{} = {}\n".format(*name.split("."), value) for name, value in settings.items()))
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    made = Repository(tree, programs, {
        **inherited, "HOME": str(home), "PYTHONPATH": str(programs), "GIT_CONFIG_NOSYSTEM": "1",
        "http_proxy": NOWHERE, "https_proxy": NOWHERE, "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_COMMITTER_DATE": LONG_AGO})
    made.git("init", "--quiet")
    made.git("add", "--force", ".")
    made.git("commit", "--quiet", "-m", "The bare base")
    made.git("tag", "base")
    return made


def thread(mails: Sequence[str]) -> bytes:
    """A mailbox of these mails, each an answer to the first one; the last one comes first."""
    made = []
    for number, mail in enumerate(mails):
        start, _, rest = mail.partition("\n")
        lines = [start, f"Message-Id: <{number}@localhost>"]
        if number:
            lines += ["In-Reply-To: <0@localhost>", "References: <0@localhost>"]
        made.append("\n".join([*lines, rest.rstrip("\n")]) + "\n\n")
    return "".join(reversed(made)).encode()


def mails(folder: Path) -> list[str]:
    """Cover letter and patches of a folder."""
    return [path.read_text() for path in series.patch_files(folder)]


def branches(repository: Repository, folder: Path) -> tuple[str, str]:
    """The only branch, with what the folder stands on, and a commit with its patches on top.

    b4 looks for the base of mails in all branches, and is not to find the commit there.
    """
    onto = f"{folder.name}-onto"
    repository.git("checkout", "--quiet", "--detach", "base")
    for branch in repository.git("branch", "--format=%(refname:short)").splitlines():
        if not branch.startswith("("):
            repository.git("branch", "--quiet", "-D", branch)
    repository.git("checkout", "--quiet", "-b", onto)
    for path in prerequisites.of(folder):
        repository.git("am", "--quiet", path)
    repository.git("checkout", "--quiet", "--detach")
    for path in series.own_patches(folder):
        repository.git("am", "--quiet", "--signoff", path)
    return onto, repository.git("rev-parse", "HEAD")
