# SPDX-License-Identifier: GPL-2.0-only
"""What is said before anything is built or run: lists, words for shells, --dry-run, refusals."""

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from lab.build import base, images, userland
from lab.cli import main as cli
from lab.core import paths, progress
from lab.core.errors import UsageError
from lab.core.progress import Silent
from lab.plan import config, schedule
from lab.run import durations, runner

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
         tmp_path: Path) -> Call:
    """Run the command line in this process: status, output, errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pvsync", *arguments])
        status = cli._guarded()
        return (status, *capsys.readouterr())

    return run


def test_list_for_programs(call: Call) -> None:
    status, out, _ = call("list", "--json")
    found = json.loads(out)
    assert status == 0 and set(found) == {"experiments", "schemes", "workloads"}
    (demo,) = (one for one in found["experiments"] if one["name"] == "demo")
    assert demo["vms"] == [1, 2, 3] and demo["schemes"][0] == "pvqspinlock"
    assert {*demo["workloads"]} <= {one["name"] for one in found["workloads"]}
    schemes = {one["name"]: one for one in found["schemes"]}
    assert schemes.keys() >= {*demo["schemes"]} and "guest" in schemes["pmt"]


def completed(words: str) -> list[str]:
    """What a shell is told that could end the last of the words."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lab"], capture_output=True, text=True, check=False,
        timeout=60, env={**os.environ, "PYTHONPATH": str(paths.ROOT), "COMP_WORDS": words,
                         "COMP_CWORD": str(words.count(" ")),
                         "_PVSYNC_COMPLETE": "bash_complete"})
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("words", "some"), [
    ("pvsync ru", {"run"}), ("pvsync run smo", {"smoke"}),
    ("pvsync run smoke --dry", {"--dry-run"}),
    ("pvsync run smoke --schemes pmt,pvqspinlock-no", {"pmt,pvqspinlock-no-poll"}),
    ("pvsync run smoke --workload hackbench-sh", {"hackbench-short"}),
])
def test_completion(words: str, some: set[str]) -> None:
    assert set(completed(words)) == some


def test_what_makes_a_shell_complete(call: Call) -> None:
    for shell in ("bash", "zsh", "fish"):
        status, out, _ = call("completion", shell)
        assert status == 0 and "_PVSYNC_COMPLETE" in out


def test_quiet(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*arguments: object, update: bool) -> images.Images:
        with progress.shown() as seen, seen.stage("kernel"):
            seen.say("made")
        return images.PLACEHOLDERS

    monkeypatch.setattr(images, "prepare", prepare)
    status, out, err = call("build", "--quiet")
    assert (status, err) == (0, "") and out.startswith("Ready: ")
    assert "kernel: started" in call("build")[2]


def test_update(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[bool]()

    def prepare(*arguments: object, update: bool) -> images.Images:
        asked.append(update)
        return images.PLACEHOLDERS

    monkeypatch.setattr(images, "prepare", prepare)
    assert call("build")[0] == call("build", "--update")[0] == 0 and asked == [False, True]


# --dry-run

def test_dry_run_says_what_it_takes(call: Call) -> None:
    status, out, err = call("run", "smoke", "--dry-run", "--backend", "tcg")
    assert (status, err) == (0, "")
    plan = config.experiment("smoke")
    assert f"Memory: {runner.host_memory(plan) + runner.BESIDE} MiB a host at most; " in out
    assert "Time: not known, as no such boot and run was made here yet" in out
    spent = durations.Durations(plan, "tcg", "", {})
    spent.booted(100)
    spent.ran(schedule.plan(plan, 1)[0], 5)
    spent.keep()
    seconds = 100 * plan.boots + 5 * len(schedule.plan(plan, 1))
    assert f"Time: about {progress.duration(seconds)}, as " in call(
        "run", "smoke", "--dry-run", "--backend", "tcg")[1]


@pytest.mark.parametrize(("arguments", "said"), [
    (("--out", "file/a"), "file/a cannot be made"),
    (("--guest-packages", "a b"), "cannot be a Debian package"),
    (("--tree", "file"), "is neither a folder nor a tarball"),
    (("--vms", "64", "--guest-mem", "100000"), "MiB for all guests and"),
])
def test_dry_run_refuses_what_run_does(call: Call, tmp_path: Path, arguments: tuple[str, ...],
                                       said: str) -> None:
    (tmp_path / "file").touch()
    status, out, err = call("run", "smoke", "--dry-run", *arguments)
    assert (status, out) == (2, "") and said in err
    assert not (tmp_path / "results").exists()


def test_dry_run_remembers_no_packages(call: Call) -> None:
    assert call("run", "smoke", "--dry-run", "--guest-packages", "fio")[0] == 0
    assert not (paths.cache_dir() / "guest-packages.txt").exists()


def test_an_option_is_no_command(call: Call) -> None:
    status, out, err = call("run", "smoke", "--cmd", "--dry-run")
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "--cmd needs a command: --dry-run is an option" in err


def test_memory_is_of_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memory:
        available, total = 1 << 40, 1 << 40

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    plan = replace(config.experiment("smoke"), boots=3)
    assert " at most, 2 side by side; " in runner.dry_run(plan, backend="vt", jobs=2)[1]


# Trees

def tarball(file: Path, *names: str) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
    return file


def test_a_wrong_tree_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userland, "prepare", lambda *_: pytest.fail("something was built"))
    old = tmp_path / "linux-5.10"
    old.mkdir()
    (old / "Makefile").write_text("VERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 1\n")
    many = [f"qemu/{number}" for number in range(base.FIRST)]
    wrong = {old: "Linux 5.10.1",
             tarball(tmp_path / "a.tar.gz", "linux-6.1.2/COPYING"): "is Linux 6.1, but",
             tarball(tmp_path / "b.tar.gz", *many): "is no tarball of Linux"}
    for tree, said in wrong.items():
        began = time.process_time()  # other programs may have the CPUs
        with pytest.raises(UsageError, match=said):
            images.prepare("lab", tree, (), Silent())
        assert time.process_time() - began < 2


def test_a_tree_that_may_be_right_is_taken(tmp_path: Path) -> None:
    for names in (("linux-6.12.9/COPYING",), ("x/a",),
                  ("./linux-source-6.12/.a", "./linux-source-6.12/COPYING")):
        tree = tarball(tmp_path / "a.tar.gz", *names)
        assert base.check_tree(tree) == tree
