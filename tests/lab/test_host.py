# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync host`, with a real hostd whose machine is this one."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.cli import main as cli
from lab.core import tools
from lab.core.errors import UsageError
from lab.machine.control import HostLost
from lab.machine.machine import HostSpec, Machine
from lab.plan import machine_model
from lab.run import host
from lab.run.host import Files, Job, LateError, NotHostError

FILES = Files(("qemu",), Path("/kernel"), Path("/root.erofs"))
NOTHING = Path("/dev/null")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Jobs run on this machine, as with the backend `local`; its folder of files."""
    hello = Machine.start

    def start(self: Machine, timeout: float = 0) -> dict[str, object]:
        return {**hello(self, 20), "kvm": True}

    def spec(job: Job, files: Files, disks: Sequence[Path]) -> HostSpec:
        return HostSpec("local", 2, 64, NOTHING, NOTHING, NOTHING, NOTHING, (sys.executable,))

    (tmp_path / "files").mkdir()
    monkeypatch.setattr(Machine, "start", start)
    monkeypatch.setattr(host, "spec", spec)
    monkeypatch.setattr(host, "FILES", str(tmp_path / "files"))
    monkeypatch.setattr(host, "OUTPUT", str(tmp_path / "output"))
    monkeypatch.setattr(host, "parameter_file", lambda name: str(tmp_path / name))
    return tmp_path / "files"


def run(*command: str, **more: Any) -> tuple[int, str]:
    """Status and output."""
    pieces: list[bytes] = []
    status = host.run(Job(command, **more), FILES, pieces.append)
    return status, b"".join(pieces).decode()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("script", "status", "output"), [
    ("echo out; echo err >&2", 0, "out\nerr\n"),
    ("exit 7", 7, ""),
    ("echo x; kill -SEGV $$", 139, "x\n"),
    ("printf '\\377\\n'; exit 1", 1, None),
])
def test_status_and_output(script: str, status: int, output: str | None) -> None:
    pieces: list[bytes] = []
    assert host.run(Job(("sh", "-c", script)), FILES, pieces.append) == status
    assert b"".join(pieces) == (b"\xff\n" if output is None else output.encode())


@pytest.mark.usefixtures("here")
def test_words_arrive_as_they_are() -> None:
    words = ("a b", "$HOME", "'", '"', "", "*", "--help")
    status, said = run("printf", "[%s]\n", *words)
    assert (status, said) == (0, "".join(f"[{word}]\n" for word in words))


@pytest.mark.usefixtures("here")
def test_what_is_no_program() -> None:
    status, said = run("/none/such")
    assert status == 127 and "/none/such" in said


@pytest.mark.usefixtures("here")
def test_output_comes_while_the_command_runs() -> None:
    came: list[float] = []
    began = time.monotonic()
    script = "echo first; sleep 3; echo last"
    assert host.run(Job(("sh", "-c", script)), FILES,
                    lambda piece: came.append(time.monotonic())) == 0
    assert len(came) == 2 and came[1] - came[0] > 1.5, (began, came)


def test_the_commands_folder(here: Path) -> None:
    (here / "program").write_text("#!/bin/sh\npwd\n")
    (here / "program").chmod(0o755)
    assert run("./program") == (0, f"{here}\n")
    assert run("sh", "-c", "cat; echo end") == (0, "end\n")


@pytest.mark.usefixtures("here")
def test_time_limit() -> None:
    began = time.monotonic()
    with pytest.raises(LateError, match="within 1 s"):
        run("sleep", "60", limit_s=1.0)
    assert time.monotonic() - began < 30


def test_parameters(here: Path) -> None:
    (here.parent / "mark").write_text("off")
    status, said = run("cat", str(here.parent / "mark"), parameters={"mark": "exit"})
    assert (status, said) == (0, "exit")
    assert (here.parent / "mark").read_text() == "off", "the host has its own value back"
    with pytest.raises(NotHostError, match="no/such cannot be set"):
        run("true", parameters={"no/such": "1"})


@pytest.mark.usefixtures("here")
def test_a_fault_of_the_host_is_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "trouble", lambda self: "the host's console says: Oops")
    with pytest.raises(NotHostError, match="Oops"):
        run("true")


@pytest.mark.usefixtures("here")
def test_a_host_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Machine, timeout: float = 0) -> dict[str, object]:
        raise HostLost("the host was silent")
    monkeypatch.setattr(Machine, "start", start)
    with pytest.raises(NotHostError, match="silent"):
        run("true")


@pytest.mark.parametrize(("job", "said"), [
    (Job(()), "which command"),
    (Job(("x",), backend="local"), "is the host|cannot work"),
    (Job(("x",), disk=Path("/none")), "does not exist"),
    (Job(("x",), bring=(Path("/none"),)), "does not exist"),
    (Job(("x",), bring=(Path("/bin/sh"), Path("/usr/bin/sh"))), "are called"),
    (Job(("x",), parameters={"vm.mark": "exit"}), "has no VM"),
    (Job(("x",), variant="nope"), "nope"),
    (Job(("x",), packages=("no such",)), "cannot be a Debian package"),
])
def test_wrong_usage(job: Job, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        host.check(job)


def test_disks_have_the_names_that_are_told(tmp_path: Path) -> None:
    """Behind those that every host has: its root, and root and kernel of guests."""
    job = Job(("x",), backend="tcg", disk=NOTHING)
    made = host.spec(job, FILES, [NOTHING, tmp_path])
    assert [host.device(made, number) for number in (0, 1)] == ["/dev/vdd", "/dev/vde"]
    assert [word for word in made.extra if word.startswith("id=")] == [
        f"id=more0,file={NOTHING},format=raw,if=none,readonly=on",
        f"id=more1,file={tmp_path},format=raw,if=none,readonly=on"]
    virtual = host.spec(replace(job, backend="vt"), FILES, [])
    assert virtual.model == machine_model.load(machine_model.DEFAULT)


def test_files_are_packed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_text("1")
    (tmp_path / "two").write_text("22")
    (tmp_path / "work").mkdir()
    image = host.pack([tmp_path / "folder", tmp_path / "two"], tmp_path / "work")
    for name, size in (("/folder/one", 1), ("/two", 2)):
        said = tools.run(["dump.erofs", f"--path={name}", image]).decode()
        assert re.search(rf"(?m)^Size: {size}\b", said), said


Call = Callable[..., int]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line in this process; its status."""
    monkeypatch.setattr(host, "ready", lambda *_: FILES)

    def called(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["pvsync", "host", *words])
        try:
            return cli._guarded()
        except SystemExit as leave:
            assert isinstance(leave.code, int)
            return leave.code

    return called


@pytest.mark.parametrize(("outcome", "status", "said"), [
    (5, 5, ""), (NotHostError("it was lost"), host.LOST, "it was lost"),
    (LateError("it took longer"), host.LATE, "it took longer"),
])
def test_exit_status(call: Call, monkeypatch: pytest.MonkeyPatch, outcome: int | Exception,
                     status: int, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    asked: list[Job] = []

    def fake(job: Job, files: Files, show: Callable[[bytes], None]) -> int:
        asked.append(job)
        show(b"shown\n")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(host, "run", fake)
    assert call("--set", "mark=exit", "--set", "kvm.x=a=b", "--backend", "tcg", "--packages",
                "perf,trace", "--", "ls", "--all", "-l") == status
    (job,) = asked
    assert job.command == ("ls", "--all", "-l")
    assert job.parameters == {"mark": "exit", "kvm.x": "a=b"}
    assert job.packages == ("perf", "trace")
    out, err = capfd.readouterr()
    assert out == "shown\n" and said in err


def test_options_that_are_refused(call: Call, capfd: pytest.CaptureFixture[str]) -> None:
    for words in (("--set", "mark", "--", "x"), ("--set", "=x", "--", "x"), (),
                  ("--bring", "/none", "--", "x"), ("--pcpus", "0", "--", "x")):
        assert call(*words) == 2
        assert capfd.readouterr().err.startswith("pvsync: ")
