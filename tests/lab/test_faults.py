# SPDX-License-Identifier: GPL-2.0-only
"""A full disk, a killed QEMU, a killed lab, two labs at once.

Each ends in a clear message and a directory that can be resumed, and leaves nothing running.
"""

import errno
import json
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import vm

from lab.build import images
from lab.core.errors import UsageError
from lab.core.progress import Silent
from lab.core.scratch import PREFIX, Scratch, sweep
from lab.machine import machine
from lab.machine.control import Control, HostLost
from lab.machine.machine import HostSpec, Machine
from lab.run import parse, records, runner
from lab.run.fleet import Fleet
from lab.run.runner import Options
from tests.lab.places import LIMIT, Place, one_sentence, place
from tests.lab.sessions import experiment, go, spec

__all__ = ["place", "spec"]
def until(lab: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait until it is true, while the lab runs."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert lab.poll() is None, lab.communicate()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def machines(lab: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes of a lab: hostd and QEMU, not the commands that stand for a guest's."""
    found = []
    for one in psutil.Process(lab.pid).children(recursive=True):
        try:
            if one.name() not in ("sh", "sleep"):
                found.append(one)
        except psutil.NoSuchProcess:
            continue
    return found


def all_end(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=10)
    return len(processes) >= 2 and not alive


# A killed lab, and one that is interrupted


@pytest.mark.parametrize("die_with_us", [machine.die_with_us, vm.die_with_us])
def test_a_child_whose_parent_has_ended_ends_itself(
        die_with_us: Callable[[], Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the lab is killed between a fork and what the child then tells the kernel."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 0)  # no process has that number
        dies = die_with_us()
    orphan = subprocess.Popen(["sleep", "600"], preexec_fn=dies)  # noqa: PLW1509
    try:
        assert orphan.wait(10) == -signal.SIGKILL
    finally:
        orphan.kill()
    child = subprocess.Popen(["sleep", "0"], preexec_fn=die_with_us())  # noqa: PLW1509
    assert child.wait(10) == 0


BOOTED: dict[str, Callable[[Place], bool]] = {
    "while guests boot": lambda place: len(list(place.tmp.glob("*/guests/*"))) > 0,
    "in the first run": lambda place: place.begun() > 0,
    "after two runs": lambda place: len(place.runs()) == 2,
}


@pytest.mark.parametrize("when", list(BOOTED))
def test_a_killed_lab_is_resumed(place: Place, when: str) -> None:
    lab = place.start("--out", str(place.out), cmd=place.waiting())
    until(lab, lambda: BOOTED[when](place) and len(machines(lab)) >= 2)
    started = machines(lab)
    lab.kill()
    lab.wait()
    place.go.touch()
    assert all_end(started)
    assert len(place.folders()) == 1
    before = place.runs()
    status, errors = place.run("--resume", str(place.out), cmd=place.waiting())
    assert status == 0, errors
    after = place.runs()
    assert after[:len(before)] == before and sum(run.valid for run in after) == 4
    assert place.folders() == [], "the folder of the killed lab is still there"
    assert (place.out / "report.html").exists()


@pytest.mark.parametrize("ignored", [None, signal.SIGINT])
@pytest.mark.parametrize("when", list(BOOTED))
def test_an_interrupted_lab_is_resumed(place: Place, when: str,
                                       ignored: signal.Signals | None) -> None:
    """Also one that a shell has put into the background, where it is to ignore the signal."""
    lab = place.start("--out", str(place.out), cmd=place.waiting(), ignored=ignored)
    until(lab, lambda: BOOTED[when](place) and len(machines(lab)) >= 2)
    started = machines(lab)
    lab.send_signal(signal.SIGINT)
    _, errors = lab.communicate(timeout=LIMIT)
    place.go.touch()
    assert lab.returncode == 130, errors
    assert all_end(started) and place.folders() == []
    *_, said, again = errors.splitlines()
    assert said == one_sentence(errors) == "pvsync: interrupted."
    assert again.startswith("Continue with: ./pvsync run ")
    arguments = shlex.split(again.removeprefix("Continue with: "))[3:]
    assert arguments == ["--cmd", place.waiting(), "--resume", str(place.out)]
    assert place.run(*arguments[2:], cmd=place.waiting())[0] == 0


def test_hangup_ends_a_lab_but_not_under_nohup(place: Place) -> None:
    labs = [place.start("--out", str(place.folder / name), ignored=ignored)
            for name, ignored in (("out", None), ("nohup", signal.SIGHUP))]
    for lab in labs:
        until(lab, lambda: len(machines(lab)) >= 2)  # noqa: B023 (called at once)
        lab.send_signal(signal.SIGHUP)
    statuses = []
    for lab in labs:
        lab.communicate(timeout=LIMIT)
        statuses.append(lab.returncode)
    assert statuses == [130, 0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "full")])
def test_a_stop_that_is_interrupted(spec: HostSpec, tmp_path: Path, error: BaseException,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """While the last guests are being ended."""
    seen: list[Machine] = []

    def fail(self: Fleet, name: str) -> None:
        seen.append(self.machine)
        raise error
    monkeypatch.setattr(Fleet, "retire", fail)
    with pytest.raises(type(error) if isinstance(error, OSError) else KeyboardInterrupt):
        go(experiment("true", vms=(1,)), spec, tmp_path)
    (host,) = seen
    assert host.proc is not None and host.proc.poll() is not None
    assert not host.run.exists()


# A killed QEMU


@pytest.mark.parametrize(("who", "victim", "words"), [
    ("guest", "$PPID", "its virtual machine ended with status -9"),
    ("host", "$(cut -d' ' -f4 /proc/$PPID/stat)", "the host ended with status -9"),
])
def test_a_killed_qemu(spec: HostSpec, tmp_path: Path, who: str, victim: str, words: str) -> None:
    """The run is repeated, in a host that is booted again if it was the host's."""
    once = f"[ -e {tmp_path}/killed ] || {{ touch {tmp_path}/killed; kill -9 {victim}; }}"
    what = experiment(f"{once}; sleep 0.3; echo Time: 1.5", vms=(1,), repeats=3)
    assert go(what, spec, tmp_path)
    first, *_, last = records.runs(tmp_path)
    assert not first.valid and words in first.reason
    assert last.valid and last.boot == (who == "host")
    boots = [boot for boot in records.boots(tmp_path) if not boot.ok]
    assert [bool(boot.guest) for boot in boots] == [who == "guest"]
    assert words in boots[0].reason


def test_a_host_that_ends_before_it_is_up(spec: HostSpec, tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "command", lambda _: ["sh", "-c", "echo no luck >&2; exit 3"])
    began = time.monotonic()
    with Machine(spec, tmp_path) as host, pytest.raises(HostLost, match="status 3 no luck"):
        host.start()
    assert time.monotonic() - began < 10


def test_a_host_whose_qemu_hangs(spec: HostSpec, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and says nothing."""
    monkeypatch.setattr(machine, "STATE_LIMIT", 0.3)
    with Machine(replace(spec, backend="tcg"), tmp_path) as host, socket.socket(
            socket.AF_UNIX) as server, subprocess.Popen(["sleep", "60"]) as host.proc:
        server.bind(str(host.run / "qmp"))
        server.listen()
        began = time.monotonic()
        host.post_mortem()
        assert time.monotonic() - began < 10 and not (tmp_path / "cpu-state.txt").exists()
        host.proc.kill()


# A full disk


def test_a_full_disk(place: Place) -> None:
    """On a disk of 1 MiB, which is then made larger."""
    place.out.mkdir()
    arguments = ["--out", str(place.out / "x")]
    noisy = "head -c 150000 /dev/zero | tr '\\0' x; echo; sleep 0.3"
    first = shlex.join(place.command(*arguments, cmd=noisy))
    second = shlex.join(place.command("--resume", str(place.out / "x"), cmd=noisy))
    script = f"""
mount -t tmpfs -o size=1m none {place.out} || exit 99
{first}
echo "first $?" >&2
ls {place.tmp} >&2
cp -r {place.out}/x {place.folder}/full
mount -o remount,size=64m {place.out} || exit 99
{second}
echo "second $?" >&2
cp -r {place.out}/x {place.folder}/more
"""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(["unshare", "--mount", *user, "sh", "-c", script], check=False, text=True,
                          env=place.environment(), capture_output=True, timeout=2 * LIMIT)
    assert done.returncode == 0, done.stderr
    said = one_sentence(done.stderr)
    assert said.startswith(f"pvsync: {place.out}/x") and said.endswith(
        ": No space left on device."), said
    lines = done.stderr.splitlines()
    after = lines[lines.index(said) + 1:]
    assert after[0].startswith("Continue with: ./pvsync run ") and after[1] == "first 1"
    assert not any(line.startswith(PREFIX) for line in after)
    assert lines[-1] == "second 0"
    full, more = (records.runs(place.folder / name) for name in ("full", "more"))
    assert more[:len(full)] == full and sum(run.valid for run in full) < 4
    assert sum(run.valid for run in more) == 4
    for run in more:
        for guest in run.guests:
            assert not run.valid or (place.folder / "more" / guest.output).stat().st_size == 150_001


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """The disk is full, the host is not lost."""
    ours, theirs = socket.socketpair()
    control = Control(ours, Path("/dev/full"))
    with theirs:
        theirs.sendall(b'{"event": "up"}\n')
        assert control.wait(control.up, LIMIT, "boot") == {"event": "up"}
        with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
            control.call("hello")
    control.close()


def test_what_is_replaced_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    records.write_json(tmp_path / "x.json", {"old": 1})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        records.write_json(tmp_path / "x.json", {"new": 2})
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]
    assert json.loads((tmp_path / "x.json").read_text()) == {"old": 1}


# Two labs


def test_two_labs_in_one_directory(place: Place) -> None:
    lab = place.start("--out", str(place.out))
    until(lab, lambda: place.begun() > 0)
    lab.send_signal(signal.SIGSTOP)
    status, errors = place.run("--resume", str(place.out))
    assert status == 2
    assert one_sentence(errors) == (f"pvsync: another run writes into {place.out}: wait for it,"
                                    " or name another directory.")
    status, errors = place.run("--out", str(place.out))
    assert status == 2 and "exists and is not empty: continue there with --resume" in errors
    assert len(place.folders()) == 1, "the other lab's folder is gone"
    lab.send_signal(signal.SIGCONT)
    _, errors = lab.communicate(timeout=LIMIT)
    assert lab.returncode == 0, errors
    assert [run.valid for run in place.runs() if run.valid] == [True] * 4


def test_more_boots_go_on(place: Place) -> None:
    assert place.run("--out", str(place.out))[0] == 0
    first = [run.id for run in place.runs()]
    boots = 2 + max(run.boot for run in place.runs())
    assert place.run("--resume", str(place.out), "--boots", str(boots))[0] == 0
    runs = place.runs()
    assert [run.id for run in runs][:len(first)] == first
    assert {run.boot for run in runs[len(first):]} == {boots - 1}
    manifest = parse.manifest(place.out)
    assert manifest.boots == boots and "--boots" in manifest.command
    status, errors = place.run("--resume", str(place.out))
    assert status == 2 and "ask for no fewer" in errors


def test_a_directory_that_another_lab_took_meanwhile(tmp_path: Path) -> None:
    """Between this lab's look at it and its own beginning, which may be a build apart."""
    (tmp_path / records.MANIFEST).write_text("theirs")
    with pytest.raises(UsageError, match="another run has begun in"):
        runner.run(experiment(), tmp_path, Options(backend="tcg"), Silent(), images.PLACEHOLDERS)
    assert (tmp_path / records.MANIFEST).read_text() == "theirs"


def test_a_lab_that_ended_before_it_began_is_no_hindrance(place: Place) -> None:
    place.out.mkdir()
    (place.out / ".lock").touch()
    assert place.run("--out", str(place.out))[0] == 0
    (place.folder / "foreign").mkdir()
    (place.folder / "foreign" / "thesis.txt").touch()
    status, errors = place.run("--out", str(place.folder / "foreign"))
    assert status == 2 and one_sentence(errors).endswith("exists and is not empty: name another.")


# Folders for the time of a run


def test_folders_of_labs_that_are_alive_stay(tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "pvsync-other").mkdir()
    (tmp_path / f"{PREFIX}dead").mkdir()
    (tmp_path / f"{PREFIX}dead" / "socket").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "pvsync-other")
    one = Scratch()
    with Scratch() as two:
        assert one.path.is_dir() and two.is_dir() and one.path != two
        assert not (tmp_path / f"{PREFIX}dead").exists()
    assert not two.exists()
    one.close()
    one.close()
    assert {file.name for file in tmp_path.iterdir()} == {"pvsync-other", f"{PREFIX}link"}


def test_a_folder_that_another_lab_sweeps_too_soon_is_made_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its own lab has opened it, so that nothing says whose it is."""
    made: list[Path] = []

    def make(*words: object, **options: Any) -> str:
        made.append(Path(mkdtemp(*words, **options)))
        if len(made) == 1:
            sweep()
        return str(made[-1])

    mkdtemp: Callable[..., str] = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", make)
    with Scratch() as path:
        assert path.is_dir() and [one.exists() for one in made] == [False, True]
