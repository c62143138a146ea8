# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync package`: what is in the Debian package, and that it works on its own."""

import os
import subprocess
from pathlib import Path

import pytest

from lab.build import package
from lab.cli import commands
from lab.core import paths
from tests.lab.test_doctor import Fake

TOOLS = {
    "usr/bin/pvsync", "usr/share/pvsync/libvirt-hook", "usr/share/pvsync/proxmox-hookscript",
    "usr/share/doc/pvsync-tools/copyright", "usr/share/doc/pvsync-tools/install.md",
    "usr/share/doc/pvsync-tools/operators.md", "usr/lib/systemd/system/pvsync-apply.path",
    "usr/lib/systemd/system/pvsync-apply.service", "usr/lib/systemd/system/pvsync-export.service",
    "usr/lib/systemd/system/pvsync-export.timer", "usr/lib/systemd/system/pvsync-host.service",
    *(f"usr/share/pvsync/pvsync-host/{name}" for name in ("host.toml", "script.sh", "tuned.conf"))}
PYTHON = {"click", "lab", "markdown_it", "mdurl", "pygments", "rich"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.build(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def root(made: Path) -> Path:
    """What it installs."""
    folder = made.parent / "root"
    subprocess.run(["dpkg-deb", "-x", made, folder], check=True)
    return folder


def field(made: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", made, name], check=True, capture_output=True,
                          text=True).stdout.strip()


def test_its_files(made: Path, root: Path) -> None:
    files = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    assert {name for name in files if not name.startswith("usr/lib/pvsync/")} == TOOLS
    inside = {file.name for file in (root / "usr/lib/pvsync").iterdir()}
    assert {name for name in inside if not name.endswith(".dist-info")} == PYTHON
    assert not [name for name in files if name.endswith((".pyc", ".so"))]
    assert (field(made, "Package"), field(made, "Depends")) == (
        "pvsync-tools", "python3 (>= 3.11)")
    assert (root / "usr/share/pvsync/pvsync-host/script.sh").stat().st_mode & 0o111 == 0o111
    for unit in (root / "usr/lib/systemd/system").iterdir():
        assert "/usr/local" not in unit.read_text()


def test_the_same_sources_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    assert package.build(tmp_path).read_bytes() == made.read_bytes()


def called(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Debian's own Python with what is installed, and nothing else of this machine."""
    program = (root / "usr/bin/pvsync").read_text().replace("/usr/lib", f"{root}/usr/lib")
    return subprocess.run(
        ["sh", "-c", program.partition("\n")[2].replace("python3 -P", "/usr/bin/python3 -sP"),
         "pvsync", *words], check=False, capture_output=True, text=True, timeout=60, cwd=root,
        env={"PATH": os.environ["PATH"]})


@pytest.mark.parametrize("command", sorted(commands.OPERATORS))
def test_its_commands(root: Path, command: str) -> None:
    done = called(root, command, "--help")
    assert (done.returncode, done.stderr) == (0, "") and f"pvsync {command}" in done.stdout


def test_it_diagnoses(root: Path, tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    done = called(root, "doctor", "--once", "-s", "0.1", "--debugfs", str(fake.host.debugfs),
                  "--proc", str(fake.host.proc), "--sys", str(fake.host.sys))
    assert (done.returncode, done.stderr) == (0, "") and "a-rather-long-name" in done.stdout
    assert called(root, "--version").stdout.endswith(", installed\n")
    assert called(root, "run", "demo").returncode == 2


def test_what_the_page_says_of_it() -> None:
    page = (paths.ROOT / "docs/install.md").read_text()
    assert "./pvsync package" in page and "apt purge pvsync-tools" in page
