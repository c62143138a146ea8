# SPDX-License-Identifier: GPL-2.0-only
"""Each operators' command with a VM that ends at any moment, with a full disk, and wrong words.

One line says what is wrong, nothing is changed by halves, and other VMs get what was asked.
"""

import errno
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.cli import main as cli
from lab.core import paths
from lab.operate import kept, trial
from tests.lab.test_settings import Fake, values

ENTRIES = ((io, "open"), (os, "open"), (os, "stat"), (os, "listdir"), (os, "scandir"))
"""By which all of pathlib looks at files."""
FIGURES = ("top --once -s 0.1", "doctor --once -s 0.1", "doctor --once -s 0.1 --json",
           "export", "show")
WRONG = ("", " ", " exit", "exit\n", "a\x1bb", "\udcff")
"""What no file of settings has for a value."""


class Host(Fake):
    """A host with the VMs `web` and `db`, of one vCPU each, and what all commands read."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        super().__init__(root)
        self.run = root / "run"
        parameters = self.host.sys / "module/pvsync/parameters"
        parameters.mkdir(parents=True)
        (parameters / "mark").write_text("kvm\n")
        cpus = self.host.sys / "devices/system/cpu/online"
        cpus.parent.mkdir(parents=True)
        cpus.write_text("0-1\n")
        (self.host.proc / "stat").write_text("cpu  1 0 0 0 0 0 0 0 1 0\n")
        for pid, name in ((10, "web"), (20, "db")):
            self._starts(pid, name)

    def _starts(self, pid: int, name: str) -> None:
        self.vm(pid, "-name", name)
        task = self.host.proc / f"{pid}/task/{pid + 1}"
        task.mkdir(parents=True)
        (task / "schedstat").write_text("100 200 3\n")
        (task / "status").write_text("nonvoluntary_ctxt_switches:\t4\n")
        folder = self.host.debugfs / f"kvm/{pid}-11"
        (folder / "exits").write_text("5\n")
        (folder / "vcpu0").mkdir()
        (folder / "vcpu0/pid").write_text(f"{pid + 1}\n")

    def own(self, pid: int) -> dict[str, str]:
        """Settings of a VM that do not follow the host's."""
        return values(self.host.debugfs / f"kvm/{pid}-11/pvsync")


class Shell:
    """Types commands on a host."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.patch = patch
        self._capsys = capsys

    def __call__(self, host: Host, line: str, *more: str) -> tuple[int, str, str]:
        """Status, output and errors; `more` are words that a line cannot have."""
        words = [*line.split(), *more]
        where = {"--debugfs": host.host.debugfs, "--proc": host.host.proc}
        if words[0] not in {"top", "try"}:
            where["--sys"] = host.host.sys
        if words[0] in {"set", "show", "reset", "apply"}:
            where["--file"] = host.file
        if words[0] in {"show", "reset", "apply"}:
            where["--run"] = host.run
        self.patch.setattr(sys, "argv", ["pvsync", *words, *(
            str(one) for pair in where.items() for one in pair)])
        try:
            status = cli._guarded()
        except SystemExit as ended:
            status = int(str(ended.code))
        return (status, *self._capsys.readouterr())


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def ending(host: Host, number: int, patch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Have `web` end right before a file of it is looked at for this time; says whether it has."""
    places = tuple(str(one) for one in (host.host.debugfs / "kvm/10-11", host.host.proc / "10"))
    left = number

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def look(*words: Any, **more: Any) -> Any:
            nonlocal left
            name = words[0] if words and isinstance(words[0], str | os.PathLike) else ""
            if left and str(name).startswith(places):
                left -= 1
                if not left:
                    host.ends(10)
            return call(*words, **more)
        return look
    for module, name in ENTRIES:
        patch.setattr(module, name, wrapped(getattr(module, name)))
    return lambda: not left


def moments(root: Path, shell: Shell, line: str, **settings: str,
            ) -> Iterator[tuple[Host, int, str, str]]:
    """What a line says on hosts on which both VMs have these settings, while `web` ends at the
    first moment, the second, and so on."""
    for number in range(1, 1000):
        host = Host(root / str(number))
        for name in ("web", "db") if settings else ():
            host.set(name, **settings)
        with pytest.MonkeyPatch.context() as patch:
            ended = ending(host, number, patch)
            said = shell(host, line)
            over = not ended()
        yield host, *said
        if over:
            assert number > 3, "it hardly looks at the VM"
            return
    raise AssertionError("it looks at the VM for ever")


# A VM that ends

@pytest.mark.parametrize("line", FIGURES)
def test_the_others_are_shown(tmp_path: Path, shell: Shell, line: str) -> None:
    for _, status, out, err in moments(tmp_path, shell, line):
        assert (status, err) == (0, "") and "db" in out


@pytest.mark.parametrize("line", ["reset --all", "reset web"])
def test_a_reset_goes_on(tmp_path: Path, shell: Shell, line: str) -> None:
    """The settings of what has ended are gone with it, and nothing is kept for it."""
    for host, status, out, err in moments(tmp_path, shell, line, mark="exit"):
        assert (status, err) == (0, "")
        both = line == "reset --all"
        assert kept.read(host.file) == ({} if both else {"db": {"mark": "exit"}})
        assert host.own(20) == ({} if both else {"mark": "exit"})
        assert "web: mark=exit: taken back" in out or (
            "web: nothing is kept for it any more" in out)


def test_apply_goes_on(tmp_path: Path, shell: Shell) -> None:
    for host, status, out, err in moments(tmp_path, shell, "apply", mark="exit"):
        assert (status, err) == (0, "") and "db: mark=exit" in out
        assert host.own(20) == {"mark": "exit"} and "web" in kept.read(host.file)


def test_what_is_for_it_alone_is_refused_or_kept(tmp_path: Path, shell: Shell) -> None:
    for host, status, out, err in moments(tmp_path, shell, "set web mark=exit extend_us=500"):
        if status:
            assert kept.read(host.file) == {} and out == ""
            assert err in {
                "pvsync: web has ended meanwhile: nothing was changed.\n",
                "pvsync: no virtual machine is called 'web' (these run: db).\n"}
        else:
            assert kept.read(host.file) == {"web": {"mark": "exit", "extend_us": "500"}}
            assert out in {
                "web: extend_us=500 mark=exit\n",
                "web has ended meanwhile; kept for its next start: mark=exit extend_us=500\n"}


def test_a_trial_says_so(tmp_path: Path, shell: Shell) -> None:
    shell.patch.setattr(trial, "run", partial(trial.run, sleep=lambda _: None))
    shell.patch.setattr(trial, "WINDOWS", 4)
    for _, status, _, err in moments(tmp_path, shell, "try web mark=exit --for 4s"):
        said = [line for line in err.splitlines() if not line.startswith("web: window")]
        assert (status == 0 and not said) or (len(said) == 1 and (
            "ended meanwhile" in said[0] or "no virtual machine is called" in said[0])), err


# A full disk

def test_what_needs_no_file_is_taken_back_all_the_same(tmp_path: Path, shell: Shell) -> None:
    host = Host(tmp_path / "host")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    taken = [f"{name}: mark=exit: taken back" for name in ("db", "web")]
    for line, said in (("reset web", taken[1:]), ("reset --all", taken)):
        for pid in (10, 20):
            (host.host.debugfs / f"kvm/{pid}-11/pvsync/mark").write_text("exit\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", full)
            status, out, err = shell(host, line)
        assert (status, sorted(out.splitlines()), err) == (0, said, "")
    assert host.own(10) == host.own(20) == {}


@pytest.mark.parametrize("line", ["reset web", "reset --all", "set web mark=yield"])
def test_nothing_is_changed_if_what_is_kept_cannot_be_replaced(tmp_path: Path, shell: Shell,
                                                               line: str) -> None:
    host = Host(tmp_path / "host")
    assert shell(host, "set web mark=exit")[0] == 0
    file = host.file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", full)
        status, _, err = shell(host, line)
    assert status == 1 and "nothing was changed" in err
    assert host.own(10) == {"mark": "exit"} and host.file.read_bytes() == file


@pytest.mark.parametrize("line", FIGURES)
def test_standard_output_on_a_full_disk(tmp_path: Path, line: str) -> None:
    host = Host(tmp_path / "host")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lab", *line.split(), "--debugfs", host.host.debugfs, "--proc",
             host.host.proc], cwd=paths.ROOT, stdout=full, stderr=subprocess.PIPE, text=True,
            check=False)
    assert (done.returncode, done.stderr) == (
        1, "pvsync: what this says cannot be written (No space left on device): send it elsewhere,"
           " or make room.\n")


# Wrong words

@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("line", ["set web", "try web --for 20s"])
def test_a_value_that_cannot_be_kept_is_not_set(tmp_path: Path, shell: Shell, line: str,
                                                value: str) -> None:
    """A file of settings with it could not be read again, by no command."""
    host = Host(tmp_path / "host")
    shell.patch.setattr(time, "sleep", lambda _: None)
    status, out, err = shell(host, line, f"mark={value}")
    assert (status, out) == (2, "") and "is no value for mark: write mark=VALUE" in err
    assert err.count("\n") == 1 and err.isascii()
    assert host.own(10) == {} and not host.file.exists()


@pytest.mark.parametrize("line", [
    "top --once -s nan", "doctor --once -s nan", "doctor --once --co-stop nan",
    "top --once -s 0", "doctor --once -s inf", "doctor --once -s 1e9", "doctor --once -s soon",
    "try web mark=exit --for nan", "try web mark=exit --for inf", "try web mark=exit --for 1e9h",
    "try web mark=exit --for 99999999999999h", "try web mark=exit --for 169h",
    "try web mark=exit --for -5s"])
def test_a_time_that_is_none(tmp_path: Path, shell: Shell, line: str) -> None:
    host = Host(tmp_path / "host")
    status, out, err = shell(host, line)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert host.own(10) == {}
