# SPDX-License-Identifier: GPL-2.0-only
"""Which commands there are where, and what operators' commands need."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lab.cli import commands, main
from lab.core import paths
from lab.core.errors import UsageError
from tests.lab.test_top import Host

FEW = {"lab", "click", "rich", "markdown_it", "mdurl", "pygments", *sys.stdlib_module_names}
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {allowed}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
sys.argv = ["pvsync", *{arguments}]
from lab.cli.main import main
main()
"""
"""Runs the command line where nothing else can be imported."""


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a command does in an operator's environment."""
    code = BLOCKED.format(allowed=FEW, arguments=arguments)
    return subprocess.run(
        [sys.executable, "-P", "-c", code], check=False, capture_output=True, text=True,
        timeout=60, env={**os.environ, "PYTHONPATH": str(paths.ROOT)})


@pytest.mark.parametrize("command", sorted(commands.OPERATORS))
def test_operators_commands_start_with_few_packages(command: str) -> None:
    found = called(command, "--help")
    assert (found.returncode, found.stderr) == (0, "") and f"pvsync {command}" in found.stdout


def test_top_looks_with_few_packages(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.vm(100, 3, 4, name="web")
    found = called("top", "--once", "--interval", "0.1", "--debugfs", str(host.debugfs),
                   "--proc", str(host.proc))
    assert (found.returncode, found.stderr) == (0, "") and "web" in found.stdout


@pytest.mark.parametrize("words", [
    ("doctor", "--once"), ("top", "--once"), ("export",), ("show",), ("reset", "--all"),
    ("set", "web", "mark=exit"), ("try", "web", "mark=exit"), ("apply", "web")])
def test_without_root(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                      capsys: pytest.CaptureFixture[str]) -> None:
    """debugfs is there, and closed: one line says what to do, and none that an option is wrong."""
    debugfs, kept = tmp_path / "debug", tmp_path / "vms.toml"
    debugfs.mkdir()
    kept.write_text('[web]\nmark = "exit"\n')
    look = Path.iterdir

    def closed(self: Path) -> Iterator[Path]:
        if debugfs in (self, *self.parents):
            raise PermissionError(13, "Permission denied", str(self))
        return look(self)
    monkeypatch.setattr(Path, "iterdir", closed)
    monkeypatch.setattr(os, "access", lambda file, *_: Path(file) != debugfs)
    file = ("--file", str(kept)) if words[0] in {"show", "reset", "set", "apply"} else ()
    monkeypatch.setattr(sys, "argv", ["pvsync", *words, "--debugfs", str(debugfs), *file])
    assert main._guarded() == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"pvsync: {debugfs}") and err.count("\n") == 1
    assert err.endswith("cannot be read: run pvsync as root.\n")


def test_every_command_is_where_the_table_says() -> None:
    group = commands.Commands()
    context = click.Context(group)
    assert set(commands.COMMANDS) >= commands.OPERATORS
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None and command.help, name
    assert group.get_command(context, "nothing") is None


def test_outside_of_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "is_checkout", lambda: False)
    group = commands.Commands()
    context = click.Context(group)
    assert group.list_commands(context) == sorted(commands.OPERATORS)
    assert group.get_command(context, "top") is not None
    with pytest.raises(UsageError, match=r"run needs the lab, .* `\./pvsync run` there"):
        group.get_command(context, "run")
