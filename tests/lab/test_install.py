# SPDX-License-Identifier: GPL-2.0-only
"""What `pipx install .` installs: a wheel is made of a copy of the sources, without a network."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab.cli import commands
from lab.core import paths
from tests.lab.test_rooms import ROOMS
from tests.lab.test_top import Host

PROJECT = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())
PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what is installed, and bin/pvsync."""
    folder = tmp_path_factory.mktemp("install")
    source, wheels, target = (folder / name for name in ("source", "wheels", "installed"))
    source.mkdir()
    for name in ("lab", "kernel", "requirements"):
        shutil.copytree(paths.ROOT / name, source / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(paths.ROOT / name, source)
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source],
                   check=True, timeout=300)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--no-compile", "--target", target,
                    wheel], check=True, timeout=300)
    return target


def called(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the installed program does, elsewhere."""
    return subprocess.run(
        [installed / "bin/pvsync", *arguments], check=False, capture_output=True, text=True,
        timeout=60, cwd=installed.parent, env={**os.environ, "PYTHONPATH": str(installed)})


def test_operators_commands_work(installed: Path, tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.vm(100, 3, 4, name="web", counters={"preempt_lock": 8})
    found = called(installed, "top", "--once", "--interval", "0.1", "--debugfs",
                   str(host.debugfs), "--proc", str(host.proc))
    assert (found.returncode, found.stderr) == (0, "") and "web" in found.stdout
    said = called(installed, "--help").stdout
    assert [name for name in commands.COMMANDS if f"\n  {name} " in said] == sorted(
        commands.OPERATORS)


def test_the_lab_is_refused(installed: Path) -> None:
    found = called(installed, "run", "demo")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.count("\n") == 1 and "run `./pvsync run` there" in found.stderr


def test_what_is_read_from_the_kernel_sources_is_there(installed: Path) -> None:
    code = ("from lab.observe import counters; from lab.plan import known, kconfig\n"
            "print(len(counters.descriptions()), known.GUEST.is_dir(), known.OWN.is_file(),"
            " len(kconfig.variant('lab').fragments))")
    outputs = {subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(where)}).stdout
               for where in (installed, paths.ROOT)}
    assert len(outputs) == 1


def test_data_of_operators_commands_is_there(installed: Path) -> None:
    for room in ("cli", "operate"):
        for file in (paths.LAB / room).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert (installed / file.relative_to(paths.ROOT)).is_file(), file


def test_version(installed: Path) -> None:
    version = PROJECT["project"]["version"]
    assert called(installed, "--version").stdout == f"pvsync {version}, installed\n"
    here = subprocess.run([sys.executable, "-P", "-m", "lab", "--version"], check=True,
                          capture_output=True, text=True, cwd=installed,
                          env={**os.environ, "PYTHONPATH": str(paths.ROOT)}).stdout
    assert here.startswith(f"pvsync {version}, commit ")
    assert f'version: "{version}"' in (paths.ROOT / "CITATION.cff").read_text()


def test_all_rooms_are_packaged() -> None:
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == {
        "lab", "lab.kernel", *(f"lab.{room}" for room in ROOMS)}
