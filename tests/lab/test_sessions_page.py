# SPDX-License-Identifier: GPL-2.0-only
"""docs/sessions.md: each of its sessions is typed again, on made-up hosts, and says the same.

PVSYNC_RECORD=1 writes what is said now into the page.
"""

import errno
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.core import paths
from lab.operate.settings import PARAMETERS
from tests.lab import test_settings

Fake = test_settings.Fake
fake = test_settings.fake
PAGE = paths.ROOT / "docs/sessions.md"
SESSION = re.compile(r"(?ms)^## ([^\n]*)\n(?:(?!^## ).)*?^```\n(.*?)^```$")


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def closed(made: Fake, patch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def denied(self: Path, *words: str, **more: str) -> str:
        if self.parent.name == "pvsync" and made.host.debugfs in self.parents:
            raise PermissionError(1, "Operation not permitted", str(self))
        return read(self, *words, **more)
    patch.setattr(Path, "read_text", denied)


def stock(made: Fake, _: pytest.MonkeyPatch) -> None:
    for vm in (made.host.debugfs / "kvm").iterdir():
        (vm / "pvsync").rename(vm / "away")
    (made.host.sys / PARAMETERS).rename(made.host.sys / "away")


def unmounted(made: Fake, _: pytest.MonkeyPatch) -> None:
    made.host.debugfs.rename(made.host.debugfs.with_name("away"))
    made.host.debugfs.mkdir()


SCENES: dict[str, Callable[[Fake, pytest.MonkeyPatch], None]] = {
    "No root": closed, "A full disk": lambda _, patch: patch.setattr(os, "fsync", full),
    "No pvsync in the kernel": stock, "debugfs is not mounted": unmounted}
"""What is otherwise in a session, by its title."""


def typed(made: Fake, root: Path, line: str, patch: pytest.MonkeyPatch,
          capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says, with the paths of a real host."""
    words = line.split()[1:]
    where = {"--debugfs": made.host.debugfs, "--proc": made.host.proc, "--sys": made.host.sys,
             "--file": root / "etc/pvsync" / ("host.toml" if "--host" in words else "vms.toml")}
    if "--host" in words or words[0] == "show":
        where["--run"] = root / "run/pvsync"
    patch.setattr(sys, "argv", [
        "pvsync", *words, *(str(one) for pair in where.items() for one in pair)])
    try:
        status = cli._guarded()
    except SystemExit as ended:
        status = int(str(ended.code))
    out, err = capsys.readouterr()
    said = f"{out}{err}".replace(str(made.host.debugfs), "/sys/kernel/debug")
    return said.replace(str(root), "") + (f"(exit status {status})\n" if status else "")


def test_the_sessions_are_so(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                             capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text()
    parameters = fake.host.sys / PARAMETERS
    parameters.mkdir(parents=True)
    (tmp_path / "etc/pvsync").mkdir(parents=True)
    (tmp_path / "etc/pvsync/host.toml").write_text('mark = "exit"\n')
    (parameters / "mark").write_text("kvm\n")
    fake.vm(10, "-name", "web")
    fake.vm(20, "-id", "100", "-name", "db")
    sessions = SESSION.findall(page)
    assert len(sessions) >= 7 and {title for title, _ in sessions} >= SCENES.keys()
    for title, block in sorted(sessions, key=lambda one: list(SCENES).index(one[0]) + 1
                               if one[0] in SCENES else 0):
        again = ""
        with monkeypatch.context() as patch:
            if title in SCENES:
                SCENES[title](fake, patch)
            for line in re.findall(r"(?m)^# pvsync .*$", block):
                again += f"{line}\n{typed(fake, tmp_path, line[2:], patch, capsys)}"
        if title == "No pvsync in the kernel":
            for vm in (fake.host.debugfs / "kvm").iterdir():
                (vm / "away").rename(vm / "pvsync")
        if "PVSYNC_RECORD" in os.environ:
            before, head, rest = page.partition(f"## {title}\n")
            page = before + head + rest.replace(f"```\n{block}```", f"```\n{again}```", 1)
        else:
            assert again == block, title
    if "PVSYNC_RECORD" in os.environ:
        PAGE.write_text(page)
