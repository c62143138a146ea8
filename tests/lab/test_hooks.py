# SPDX-License-Identifier: GPL-2.0-only
"""What docs/install.md installs: each command works, and a hook never stops a VM."""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.core import paths

DATA = paths.LAB / "operate/data"
INSTALL = re.compile(r"^    (install .*)$", re.M)
TARGET = re.compile(r" (/(?:etc|var)/\S+)$")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the page's commands have installed everything."""
    commands = INSTALL.findall((paths.ROOT / "docs/install.md").read_text())
    for command in commands:
        subprocess.run(["sh", "-ec", TARGET.sub(rf" {tmp_path}\1", command)], cwd=paths.ROOT,
                       check=True)
    return tmp_path


def test_all_of_it_is_installed(root: Path) -> None:
    assert {file.read_text() for file in root.rglob("*") if file.is_file()} == {
        file.read_text() for file in DATA.rglob("*") if file.is_file()}


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(("hook", "started", "other"), [
    ("etc/libvirt/hooks/qemu.d/pvsync", ("-web", "started", "begin", "-"),
     ("-web", "prepare", "begin", "-")),
    ("var/lib/vz/snippets/pvsync", ("100", "post-start"), ("100", "pre-start"))])
def test_a_hook(root: Path, hook: str, started: tuple[str, ...], other: tuple[str, ...],
                status: int) -> None:
    tools, called = root / "bin", root / "called"
    tools.mkdir()
    for name, lines in {"pvsync": f'echo "$@" >>{called}; echo said; exit {status}',
                        "logger": f'{{ echo "$@"; cat; }} >>{called}'}.items():
        (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tools / name).chmod(0o755)
    for words in (other, started):
        done = subprocess.run(
            [root / hook, *words], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            input="<domain/>" * 100_000, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert called.exists() == (words == started)
    assert sorted(called.read_text().splitlines()) == sorted(
        [f"apply -- {started[0]}", "-t pvsync", "said"])


def test_units(root: Path) -> None:
    units = sorted(root.glob("etc/systemd/system/*"))
    for unit in units:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(unit)
        assert parser["Unit"]["Description"]
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units],
                              capture_output=True, text=True, check=False)
        about = [line for line in done.stderr.splitlines()
                 if "pvsync-" in line and "not executable" not in line
                 and "Failed to" not in line]
        assert not about, done.stderr
