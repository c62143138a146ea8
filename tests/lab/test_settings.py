# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync set`, `show`, `reset`, `apply`: on fake hosts, and what they refuse."""

import errno
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.core.errors import LabError, UsageError
from lab.observe.vms import Vm
from lab.operate import actions, kept, settings
from lab.operate.settings import GLOBAL, Host

NAMES = ("candidate", "mark", "yield", "extend_us")


class Fake:
    """A KVM host; its kernel refuses values that begin with "bad"."""

    def __init__(self, folder: Path) -> None:
        self.host = Host(folder / "debug", folder / "proc", folder / "sys", folder / "kmsg")
        self.file = folder / "etc/pvsync/vms.toml"
        (self.host.debugfs / "kvm").mkdir(parents=True)
        self.host.proc.mkdir()
        (self.host.proc / "sys/kernel").mkdir(parents=True)
        (self.host.proc / "sys/kernel/osrelease").write_text("6.1.0-28-amd64\n")

    def vm(self, pid: int, *words: str, pvsync: bool = True) -> Path:
        folder, process = self.host.debugfs / f"kvm/{pid}-11", self.host.proc / str(pid)
        folder.mkdir()
        process.mkdir()
        (process / "cmdline").write_text("\0".join(("/usr/bin/kvm", *words, "")))
        (process / "comm").write_text("kvm\n")
        if pvsync:
            (folder / "pvsync").mkdir()
            for name in NAMES:
                (folder / "pvsync" / name).write_text(f"{GLOBAL}\n")
            (folder / "pvsync/counters").write_text("epochs 1\n")
        return folder / "pvsync"

    def ends(self, pid: int) -> None:
        shutil.rmtree(self.host.debugfs / f"kvm/{pid}-11")
        shutil.rmtree(self.host.proc / str(pid))

    def set(self, word: str, **wanted: str) -> list[str]:
        return actions.change(self.host, self.file, word, wanted)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A host, and a kernel that refuses the values that the class names."""
    write = os.write

    def kernel(file: int, data: bytes) -> int:
        if data.startswith(b"bad"):
            with (tmp_path / "kmsg").open("a") as log:
                log.write("4,1,1,-;pvsync: mark does not have that value, it stays as it is;"
                          " use one of: kvm yield exit\n")
            raise OSError(errno.EINVAL, "Invalid argument")
        return write(file, data)
    monkeypatch.setattr(os, "write", kernel)
    (tmp_path / "kmsg").touch()
    return Fake(tmp_path)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return made(tmp_path, monkeypatch)


def values(folder: Path) -> dict[str, str]:
    found = {name: (folder / name).read_text().strip() for name in NAMES}
    return {name: value for name, value in found.items() if value != GLOBAL}


def refusal(act: Callable[[], object], kind: type[LabError] = LabError) -> str:
    with pytest.raises(LabError) as caught:
        act()
    assert type(caught.value) is kind, caught.value
    return str(caught.value)


def test_a_host_without_virtual_machines_is_shown(fake: Fake) -> None:
    assert actions.lines(actions.show(fake.host, fake.file, None), {"mark": "kvm"}) == [
        "All virtual machines, unless they have their own:", "  mark=kvm",
        "No VM runs under KVM here; nothing is kept for any."]
    assert "no virtual machine is called 'web'" in refusal(
        lambda: actions.show(fake.host, fake.file, "web"), UsageError)


def test_set_show_reset(fake: Fake) -> None:
    web, db = fake.vm(10, "-name", "guest=web"), fake.vm(20, "-id", "100", "-name", "db")
    assert fake.set("web", mark="exit", candidate="hvs") == ["web: candidate=hvs mark=exit"]
    fake.set("100", mark="yield")
    assert (values(web), values(db)) == ({"candidate": "hvs", "mark": "exit"}, {"mark": "yield"})
    assert kept.read(fake.file) == {"100": {"mark": "yield"},
                                    "web": {"mark": "exit", "candidate": "hvs"}}
    fake.set("db", extend_us="500")
    assert kept.read(fake.file)["100"] == {"mark": "yield", "extend_us": "500"}
    fake.set("web", candidate=GLOBAL)
    assert kept.read(fake.file)["web"] == {"mark": "exit"} == values(web)
    (web / "yield").write_text("strong\n")
    (db / "mark").write_text("exit\n")
    shown = actions.show(fake.host, fake.file, None)
    assert actions.lines(shown, {"mark": "kvm"}) == [
        "All virtual machines, unless they have their own:", "  mark=kvm", "db (100)",
        "  extend_us=500", "  mark=exit; kept: yield (`pvsync apply`)",
        "web", "  mark=exit", "  yield=strong until it ends"]
    assert actions.reset(fake.host, fake.file, "db") == [
        "db: extend_us=500 mark=exit: taken back"]
    assert values(db) == {} and set(kept.read(fake.file)) == {"web"}
    actions.reset(fake.host, fake.file, None)
    assert values(web) == {} == kept.read(fake.file)
    assert actions.reset(fake.host, fake.file, None) == ["nothing was set"]
    assert sorted(one.name for one in fake.file.parent.iterdir()) == [
        ".vms.toml.lock", "vms.toml"]


def test_a_vm_that_starts_again(fake: Fake) -> None:
    fake.vm(10, "-name", "web")
    fake.set("web", mark="exit")
    fake.ends(10)
    assert actions.apply(fake.host, fake.file, None) == (["web: does not run"], [])
    web, other = fake.vm(30, "-name", "web"), fake.vm(40, "-name", "other")
    assert actions.apply(fake.host, fake.file, "other") == ([], [])
    assert values(web) == {}
    assert actions.apply(fake.host, fake.file, "web") == (["web: mark=exit"], [])
    assert (values(web), values(other)) == ({"mark": "exit"}, {})
    fake.ends(30)
    assert actions.lines(actions.show(fake.host, fake.file, "web"), {})[1:] == [
        "web: does not run", "  mark=exit when it starts"]
    assert actions.reset(fake.host, fake.file, "web") == [
        "web: nothing is kept for it any more"]


def test_one_vm_that_cannot_have_it_keeps_no_other_from_it(fake: Fake) -> None:
    a, b = fake.vm(10, "-name", "a"), fake.vm(20, "-name", "b")
    kept_file = fake.file
    kept_file.parent.mkdir(parents=True)
    kept_file.write_text('[a]\nextend_us = 500\nmark = "bad"\n[b]\nmark = "exit"\n')
    done, wrong = actions.apply(fake.host, kept_file, None)
    assert (done, values(a), values(b)) == (["b: mark=exit"], {}, {"mark": "exit"})
    assert wrong == ["a: the kernel does not take 'bad' for mark: use one of: kvm yield exit"]


def test_all_or_nothing(fake: Fake) -> None:
    web = fake.vm(10, "-name", "web")
    fake.set("web", mark="yield")
    before = fake.file.read_bytes()
    said = refusal(lambda: fake.set("web", candidate="hvs", mark="bad"), UsageError)
    assert said == "the kernel does not take 'bad' for mark: use one of: kvm yield exit"
    assert values(web) == {"mark": "yield"} and fake.file.read_bytes() == before


def test_an_interrupt_takes_back(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    web = fake.vm(10, "-name", "web")
    write = settings._write

    def slow(host: Host, vm: Vm, name: str, value: str) -> None:
        write(host, vm, name, value)
        if (name, value) == ("mark", "exit"):
            raise KeyboardInterrupt
    monkeypatch.setattr(settings, "_write", slow)
    with pytest.raises(KeyboardInterrupt):
        fake.set("web", candidate="hvs", mark="exit")
    assert values(web) == {} and not fake.file.exists()


def test_a_second_interrupt_waits_until_all_is_taken_back(
        fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    web = fake.vm(10, "-name", "web")
    write = settings._write

    def interrupted(host: Host, vm: Vm, name: str, value: str) -> None:
        write(host, vm, name, value)
        if name == "mark":
            signal.raise_signal(signal.SIGINT)
    monkeypatch.setattr(settings, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fake.set("web", candidate="hvs", mark="exit")
    assert values(web) == {} and not fake.file.exists()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_reset_waits_for_apply(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    web = fake.vm(10, "-name", "web")
    fake.set("web", mark="exit")
    check = settings.check
    reset = threading.Thread(target=actions.reset, args=(fake.host, fake.file, "web"))

    def slow(host: Host, vm: Vm, wanted: dict[str, str]) -> None:
        check(host, vm, wanted)
        reset.start()
        reset.join(0.5)
    monkeypatch.setattr(settings, "check", slow)
    assert actions.apply(fake.host, fake.file, None) == (["web: mark=exit"], [])
    reset.join()
    assert (values(web), kept.read(fake.file)) == ({}, {})


def test_another_has_the_settings(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    web, db = fake.vm(10, "-name", "web"), fake.vm(20, "-name", "db")
    fake.set("web", mark="exit")
    fake.set("db", mark="exit")
    before = fake.file.read_bytes()
    said = ("another pvsync, such as `pvsync try`, has the settings of web: wait for its end;"
            " nothing was changed")
    vm = settings.one(actions._running(fake.host), "web")
    with settings.held(fake.host, vm):
        monkeypatch.setattr(settings, "PAUSE_S", 0)
        assert refusal(lambda: fake.set("web", mark="yield")) == said
        for word in ("web", None):
            assert refusal(lambda word=word: actions.reset(  # type: ignore[misc]
                fake.host, fake.file, word)) == said
        (db / "mark").write_text("kvm\n")
        assert actions.apply(fake.host, fake.file, None) == (["db: mark=exit"], [f"web: {said}"])
    assert values(web) == values(db) == {"mark": "exit"} and fake.file.read_bytes() == before
    assert fake.set("web", mark="yield") == ["web: mark=yield"]


def test_a_short_hold_is_waited_for(fake: Fake) -> None:
    fake.vm(10, "-name", "web")
    vm = settings.one(actions._running(fake.host), "web")
    with ThreadPoolExecutor(1) as pool:
        with settings.held(fake.host, vm):
            found = pool.submit(fake.set, "web", mark="exit")
            threading.Event().wait(0.1)
            assert not found.done()
        assert found.result() == ["web: mark=exit"]


@pytest.mark.parametrize("when", ["write", "rename"])
def test_a_full_disk_loses_nothing(fake: Fake, monkeypatch: pytest.MonkeyPatch,
                                   when: str) -> None:
    web = fake.vm(10, "-name", "web")
    fake.set("web", mark="yield")
    before = fake.file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    if when == "write":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    assert refusal(lambda: fake.set("web", mark="exit")) == (
        f"{fake.file} cannot be written (No space left on device): nothing was changed")
    assert values(web) == {"mark": "yield"} and fake.file.read_bytes() == before
    assert not list(fake.file.parent.glob(".vms.toml.[0-9]*"))


def test_what_a_killed_writer_has_left_goes(fake: Fake) -> None:
    fake.vm(10, "-name", "web")
    fake.file.parent.mkdir(parents=True)
    (fake.file.parent / ".vms.toml.4711").write_text("[we")
    fake.set("web", mark="exit")
    assert sorted(one.name for one in fake.file.parent.iterdir()) == [
        ".vms.toml.lock", "vms.toml"]


def test_writers_wait_for_each_other(fake: Fake) -> None:
    names = [f"vm{number}" for number in range(8)]
    for number, name in enumerate(names):
        fake.vm(10 + number, "-name", name)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda name: fake.set(name, mark="exit"), names)) == [
            [f"{name}: mark=exit"] for name in names]
    assert sorted(kept.read(fake.file)) == names


def test_names_that_are_wrong(fake: Fake) -> None:
    assert refusal(lambda: fake.set("web", mark="exit"), UsageError) == (
        "no virtual machine is called 'web' (none runs under KVM here)")
    fake.vm(10, "-name", "web")
    fake.vm(20, "-name", "db")
    assert refusal(lambda: fake.set("wep", mark="exit"), UsageError) == (
        "no virtual machine is called 'wep', did you mean 'web'? (these run: db, web)")
    assert refusal(lambda: fake.set("web", marks="exit"), UsageError) == (
        "this kernel has no setting 'marks' for a virtual machine, did you mean 'mark'?"
        " (known: candidate, extend_us, mark, yield)")
    assert "no setting 'counters'" in refusal(lambda: fake.set("web", counters="1"), UsageError)
    fake.vm(30, "-id", "7", "-name", "web")
    said = refusal(lambda: fake.set("web", mark="exit"), UsageError)
    assert said.startswith("'web' means 2 virtual machines: web (process 10), web (process 30);")
    fake.set("7", mark="exit")
    for act in (actions.reset, actions.apply):
        fake.file.write_text('[x]\nmark = "exit"\n')
        assert "is called 'wep'" in refusal(lambda act=act: act(  # type: ignore[misc]
            fake.host, fake.file, "wep"), UsageError)
    assert not values(fake.host.debugfs / "kvm/20-11/pvsync")


def test_a_kernel_without_pvsync(fake: Fake) -> None:
    fake.vm(10, "-name", "web", pvsync=False)
    assert refusal(lambda: fake.set("web", mark="exit")) == (
        "this host's kernel, 6.1.0-28-amd64, has no pvsync, so there is nothing to set;"
        " `pvsync doctor` says what helps without it")
    assert not fake.file.exists()
    assert actions.lines(actions.show(fake.host, fake.file, None), {}) == [
        "This kernel has no pvsync: nothing can be set.", "web", "  as all"]
    assert actions.reset(fake.host, fake.file, None) == ["nothing was set"]


def test_a_vm_that_ends_meanwhile(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.vm(10, "-name", "web")
    check = settings.check

    def ends(host: Host, vm: Vm, wanted: dict[str, str]) -> None:
        check(host, vm, wanted)
        fake.ends(10)
    monkeypatch.setattr(settings, "check", ends)
    assert refusal(lambda: fake.set("web", mark="exit"), settings.EndedError) == (
        "web has ended meanwhile: nothing was changed")
    assert kept.read(fake.file) == {}


def test_lockdown_and_no_root(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    web = fake.vm(10, "-name", "web")

    def denied(self: Path, **_: object) -> str:
        if self.parent == web:
            raise PermissionError(1, "Operation not permitted", str(self))
        return self.read_bytes().decode()
    monkeypatch.setattr(Path, "read_text", denied)
    assert refusal(lambda: fake.set("web", mark="exit")) == (
        "mark of web is closed: run pvsync as root")
    lockdown = fake.host.sys / "kernel/security/lockdown"
    lockdown.parent.mkdir(parents=True)
    lockdown.write_text("none [integrity] confidentiality\n")
    said = refusal(lambda: fake.set("web", mark="exit"))
    assert said.startswith("this kernel is locked down (Secure Boot)") and "pvsync.mark" in said
    lockdown.write_text("[none] integrity confidentiality\n")
    assert "as root" in refusal(lambda: fake.set("web", mark="exit"))
    for text, kind in (("none integrity [confidentiality]", "confidentiality"),
                       ("none [integrity] confidentiality", "integrity"),
                       ("[none] integrity confidentiality", "")):
        lockdown.write_text(text)
        assert settings.lockdown(fake.host) == kind
    lockdown.unlink()
    assert settings.lockdown(fake.host) == ""


def test_no_debugfs(fake: Fake, tmp_path: Path) -> None:
    fake.host.debugfs.rename(tmp_path / "away")
    assert refusal(lambda: fake.set("web", mark="exit"), UsageError).startswith(
        f"there is no folder {fake.host.debugfs}")
    fake.host.debugfs.mkdir()
    assert refusal(lambda: fake.set("web", mark="exit")).startswith("debugfs is not mounted")


def test_the_commands(fake: Fake, monkeypatch: pytest.MonkeyPatch,
                      capsys: pytest.CaptureFixture[str]) -> None:
    web = fake.vm(10, "-name", "web")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [
            "pvsync", *words, "--debugfs", str(fake.host.debugfs), "--proc",
            str(fake.host.proc), "--file", str(fake.file)])
        try:
            status = cli._guarded()
        except SystemExit as ended:
            status = int(str(ended.code))
        return (status, *capsys.readouterr())

    assert run("set", "web", "mark=exit") == (0, "web: mark=exit\n", "")
    assert run("set", "web", "mark=a", "mark=b")[0] == 2
    fake.vm(20, "-name", "-db")
    fake.set("-db", mark="exit")
    monkeypatch.setattr(sys, "argv", [
        "pvsync", "apply", f"--debugfs={fake.host.debugfs}", f"--proc={fake.host.proc}",
        f"--file={fake.file}", "--", "-db"])
    cli._guarded()
    assert capsys.readouterr() == ("-db: mark=exit\n", "")
    actions.reset(fake.host, fake.file, "-db")
    fake.ends(20)
    assert run("reset")[2] == "pvsync: give the name of a virtual machine, or --all.\n"
    assert run("reset", "web", "--all")[0] == 2
    status, out, err = run("show", "--json")
    assert (status, err) == (0, "") and json.loads(out)["vms"] == [
        {"name": "web", "number": "", "runs": True, "own": {"mark": "exit"},
         "kept": {"mark": "exit"}, "wrong": ""}]
    fake.file.write_text('[web]\nmark = "bad"\n')
    assert run("apply") == (1, "", "pvsync: web: the kernel does not take 'bad' for mark: its log"
                            " says what it takes: dmesg | grep pvsync.\n")
    assert run("reset", "--all") == (0, "web: mark=exit: taken back\n", "")
    assert values(web) == {}
