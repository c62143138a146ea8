# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync try`: on fake hosts, and that nothing is left of it, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.core import paths
from lab.core.errors import LabError, UsageError
from lab.observe import vms
from lab.observe.vms import Vm
from lab.operate import actions, settings, trial
from lab.operate.settings import Host
from lab.plan import config
from tests.lab import test_doctor

OWN = {"mark": "global", "extend": "off", "candidate": "global"}
VALUES = {"mark": "exit", "extend": "ecs"}


class Fake(test_doctor.Fake):
    """Its VM's exits grow twice as fast while `mark` is exit."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.folder = root / "debug/kvm/7-11/pvsync"
        for name, value in OWN.items():
            self.put(f"debug/kvm/7-11/pvsync/{name}", f"{value}\n")
        self.ms, self.exits, self.on = 0, 0, []  # type: ignore[var-annotated]

    def own(self) -> dict[str, str]:
        return {name: (self.folder / name).read_text().strip() for name in OWN}

    def sleep(self, seconds: float) -> None:
        on = self.own()["mark"] == "exit"
        self.on.append(on)
        self.ms += round(1000 * seconds)
        self.exits += (20_000 if on else 10_000) + len(self.on) % 3
        self.state(self.ms, 10 * len(self.on), self.exits)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    host = Fake(tmp_path)
    monkeypatch.setattr(time, "monotonic", lambda: host.ms / 1000)
    return host


def test_it_is_on_and_off_in_turns(fake: Fake) -> None:
    said: list[str] = []
    found = trial.run(fake.host, "100", VALUES, 40.0, said.append, fake.sleep)
    assert fake.own() == OWN and len(said) == trial.WINDOWS
    assert fake.on[:5] == [False, True, True, False, False] and sum(fake.on) == 10
    by_name = {one.name: one for one in found}
    exits = by_name["exits/s of a vCPU"]
    assert exits.seen and (exits.off, exits.on) == pytest.approx((2500, 5000), rel=0.01)
    assert 0 < exits.half < 5 and not by_name["held up %"].seen
    text = trial.text("web", VALUES, 40.0, found)
    assert max(map(len, text.splitlines())) <= 60, text
    assert "10 windows of 2 s" in text and "chance?" in text and "+2499.9" in text
    assert "beyond chance" in trial.text("web", VALUES, 40.0, [by_name["held up %"]])


@pytest.mark.parametrize(("one", "two", "half"), [
    ([1.0, 1.0], [2.0, 2.0], 0.0), ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 2.78 * (2 / 3)**0.5)])
def test_confidence(one: list[float], two: list[float], half: float) -> None:
    assert trial.half_width(one, two) == pytest.approx(half)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, LabError])
def test_an_error_takes_it_back(fake: Fake, error: type[BaseException]) -> None:
    def sleep(seconds: float) -> None:
        fake.sleep(seconds)
        if fake.own() == OWN | VALUES:
            raise error
    with pytest.raises(error):
        trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, sleep)
    assert fake.own() == OWN


def test_a_vm_that_ends_meanwhile(fake: Fake) -> None:
    def sleep(_: float) -> None:
        (fake.root / "proc/7/cmdline").unlink(missing_ok=True)
    with pytest.raises(LabError, match="has ended meanwhile"):
        trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, sleep)


def test_what_is_refused(fake: Fake) -> None:
    for text in ("soon", "10 days", "-1s", "5s"):
        with pytest.raises(UsageError):
            trial.seconds(text)
    assert [trial.seconds(text) for text in ("10min", "90s", "1.5h", "60")] == [
        600, 90, 5400, 60]
    with pytest.raises(UsageError, match="known: recommended, and NAME=VALUE"):
        trial.wanted({}, "recomended")
    assert trial.wanted({"mark": "yield"}, "recommended") == {"mark": "yield", "extend": "ecs"}
    with pytest.raises(UsageError, match="no setting 'marks'"):
        trial.run(fake.host, "100", {"marks": "exit"}, 40.0, lambda _: None, fake.sleep)
    assert fake.own() == OWN


def test_recommended_is_what_the_lab_measures() -> None:
    assert trial.PRESETS["recommended"] == dict(config.schemes()["recommended"].host)


def test_what_cannot_be_taken_back_is_said(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    write = settings._write

    def stuck(host: Host, vm: Vm, name: str, value: str) -> None:
        if len(fake.on) == trial.WINDOWS and name == "extend":
            raise LabError("the file is stuck")
        write(host, vm, name, value)
    monkeypatch.setattr(settings, "_write", stuck)
    with pytest.raises(LabError, match=r"not all of .* taken back: extend=off \(the file is stuck"):
        trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, fake.sleep)
    assert fake.own() == OWN


def test_one_at_a_time(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "vms.toml"
    monkeypatch.setattr(settings, "PAUSE_S", 0)

    def sleep(seconds: float) -> None:
        fake.sleep(seconds)
        now = fake.own()
        for act in (lambda: trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, fake.sleep),
                    lambda: actions.change(fake.host, file, "100", {"mark": "kvm"}),
                    lambda: actions.reset(fake.host, file, None)):
            with pytest.raises(LabError, match="another pvsync, such as `pvsync try`"):
                act()
        assert fake.own() == now
    trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, sleep)
    assert fake.own() == OWN and not file.exists()
    actions.change(fake.host, file, "100", {"mark": "kvm"})
    assert fake.own() == OWN | {"mark": "kvm"}


@pytest.mark.parametrize("before", ["0\n", "1\n"])
def test_each_window_counts(fake: Fake, before: str) -> None:
    """Also after another tool's end has stopped it."""
    fake.put("debug/pvsync/vcpu_stat", before)
    seen: list[str] = []

    def sleep(seconds: float) -> None:
        seen.append(vms.counts(fake.host.debugfs))
        fake.put("debug/pvsync/vcpu_stat", "0\n")
        fake.sleep(seconds)
    trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, sleep)
    assert seen == ["1"] * trial.WINDOWS and vms.counts(fake.host.debugfs) == before


def test_a_signal_at_the_fork_does_not_end_the_guard(
        fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def signals() -> None:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)

    def killed(seconds: float) -> None:
        fake.sleep(seconds)
        if fake.own() == OWN | VALUES:
            os._exit(9)
    child = os.fork()
    if not child:
        monkeypatch.setattr(os, "setsid", signals)
        trial.run(fake.host, "100", VALUES, 40.0, lambda _: None, killed)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert soon(lambda: fake.own() == OWN)


def soon(what: Callable[[], bool]) -> bool:
    """Whether it becomes true."""
    for _ in range(5000):
        if what():
            return True
        time.sleep(0.02)
    return False


@contextmanager
def under_way(host: Fake) -> Iterator["subprocess.Popen[bytes]"]:
    """`pvsync try`, in a window that is on."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "lab", "try", "100", "recommended", "--for", "20s",
         "--debugfs", host.host.debugfs, "--proc", host.host.proc],
        env={**os.environ, "PYTHONPATH": str(paths.ROOT)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        assert soon(lambda: host.own() == OWN | VALUES) and child.poll() is None
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_killed_one(tmp_path: Path, number: int) -> None:
    host = Fake(tmp_path)
    host.put("debug/pvsync/vcpu_stat", "0\n")
    with under_way(host) as child:
        assert soon(lambda: vms.counts(host.host.debugfs) == "1")
        child.send_signal(number)
        assert child.wait(timeout=60) == (130 if number != signal.SIGKILL else -signal.SIGKILL)
        assert soon(lambda: host.own() == OWN and vms.counts(host.host.debugfs) == "0\n")


def test_a_killed_one_keeps_others_away_until_all_is_taken_back(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, file = Fake(tmp_path), tmp_path / "vms.toml"

    def changed() -> bool:
        with suppress(LabError):
            return bool(actions.change(host.host, file, "100", {"mark": "kvm"}))
        return False
    with under_way(host) as child:
        guard = int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())
        os.kill(guard, signal.SIGSTOP)
        child.kill()
        child.wait()
        try:
            with monkeypatch.context() as patch, pytest.raises(LabError, match="another pvsync"):
                patch.setattr(settings, "PAUSE_S", 0)
                actions.change(host.host, file, "100", {"mark": "kvm"})
        finally:
            os.kill(guard, signal.SIGCONT)
        assert soon(lambda: host.own() == OWN) and soon(changed)
        assert host.own() == OWN | {"mark": "kvm"}


def test_the_command_refuses_two_presets(monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pvsync", "try", "web", "recommended", "stock"])
    assert cli._guarded() == 2
    assert capsys.readouterr().err == "pvsync: give one of recommended, and NAME=VALUE besides.\n"
