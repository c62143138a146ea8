# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync apply --host`, `reset --host`, and the profile of tuned, on a made-up /sys."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.build import debian, package
from lab.cli import main as cli
from lab.core import paths
from lab.core.errors import UsageError
from lab.operate import host_parameters, kept, trial
from lab.operate.settings import PARAMETERS, Host
from tests.lab.test_settings import refusal

PROFILE = paths.LAB / "operate/data/pvsync-host"
STOCK = {"candidate": "kvm", "extend": "off", "extend_us": "1000", "mark": "kvm"}


class Fake:
    """A host; its kernel refuses the value `bad`, and does not write `closed`."""

    def __init__(self, folder: Path) -> None:
        self.host = Host(folder / "debug", folder / "proc", folder / "sys", folder / "kmsg",
                         folder / "run/pvsync")
        self.parameters = self.host.sys / PARAMETERS
        self.parameters.mkdir(parents=True)
        (self.host.proc / "sys/kernel").mkdir(parents=True)
        (self.host.proc / "sys/kernel/osrelease").write_text("6.1.0-28-amd64\n")
        for name, value in STOCK.items():
            (self.parameters / name).write_text(f"{value}\n")
        self.file = folder / "etc/host.toml"
        self.file.parent.mkdir()
        self.record = self.host.run / host_parameters.RECORD

    def wants(self, **wanted: str) -> None:
        self.file.write_text("".join(f'{name} = "{value}"\n' for name, value in wanted.items()))

    def apply(self) -> list[str]:
        return host_parameters.apply(self.host, self.file)

    def reset(self) -> list[str]:
        return host_parameters.reset(self.host, self.file)

    def own(self) -> dict[str, str]:
        """What is not as at boot."""
        found = {name: (self.parameters / name).read_text().strip() for name in STOCK}
        return {name: value for name, value in found.items() if value != STOCK[name]}


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A host, and a kernel that refuses the values that the class names."""
    write = os.write

    def kernel(file: int, data: bytes) -> int:
        if data == b"bad":
            os.pwrite(file, b"kvm\n", 0)
            raise OSError(errno.EINVAL, "Invalid argument")
        if data == b"closed":
            os.pwrite(file, b"kvm\n", 0)
            raise OSError(errno.EIO, "Input/output error")
        return write(file, data)
    monkeypatch.setattr(os, "write", kernel)
    return Fake(tmp_path)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return made(tmp_path, monkeypatch)


def test_on_and_off(fake: Fake) -> None:
    fake.wants(mark="exit", extend="ecs")
    assert host_parameters.differs(fake.host, fake.file) == [
        "host: mark is kvm, not exit", "host: extend is off, not ecs"]
    assert fake.own() == {} and not fake.host.run.exists()
    for _ in range(2):
        assert fake.apply() == ["host: mark=exit extend=ecs"]
        assert host_parameters.differs(fake.host, fake.file) == []
    assert fake.own() == {"mark": "exit", "extend": "ecs"}
    assert fake.reset() == ["host: mark=exit extend=ecs: taken back"]
    assert fake.own() == {} and not fake.record.exists()
    assert fake.reset() == ["nothing was set"]


def shown(fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
          *words: str) -> tuple[int, str, str]:
    """What `pvsync show` says of the host."""
    (fake.host.debugfs / "kvm").mkdir(parents=True, exist_ok=True)
    (fake.host.debugfs / "kvm/10-11").mkdir(exist_ok=True)
    (fake.host.proc / "10").mkdir(exist_ok=True)
    (fake.host.proc / "10/cmdline").write_text("kvm\0-name\0web\0")
    monkeypatch.setattr(sys, "argv", ["pvsync", "show", *words, "--debugfs",
                                      str(fake.host.debugfs), "--proc", str(fake.host.proc),
                                      "--sys", str(fake.host.sys), "--run", str(fake.host.run),
                                      "--file", str(fake.file.with_name("vms.toml"))])
    try:
        status = cli._guarded()
    except SystemExit as ended:
        status = int(str(ended.code))
    return (status, *capsys.readouterr())


def test_who_has_set_a_parameter(fake: Fake, capsys: pytest.CaptureFixture[str],
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    stock = shown(fake, capsys, monkeypatch)
    assert stock[0] == 0 and "set" not in stock[1]
    fake.wants(mark="exit", extend="ecs", extend_us="1000")
    fake.apply()
    assert f"    {fake.file} set ecs, was off\n" in shown(fake, capsys, monkeypatch)[1]
    fake.wants(mark="exit", extend="ecs")
    fake.apply()
    (fake.parameters / "extend").write_text("count\n")
    assert shown(fake, capsys, monkeypatch) == (
        0, "All virtual machines, unless they have their own:\n  candidate=kvm\n  extend=count\n"
        f"    {fake.file} set ecs, was off; changed since\n  extend_us=1000\n  mark=exit\n"
        f"    {fake.file} set exit, was kvm\nweb\n  as all\n", "")
    status, out, err = shown(fake, capsys, monkeypatch, "--json")
    assert (status, err) == (0, "") and json.loads(out)["host_set"] == {
        "file": str(fake.file), "before": {"mark": "kvm", "extend": "off"},
        "after": {"mark": "exit", "extend": "ecs"}}
    fake.reset()
    assert json.loads(shown(fake, capsys, monkeypatch, "--json")[1])["host_set"] is None
    assert shown(fake, capsys, monkeypatch) == (
        0, stock[1], ""), "as before the first one"


def test_a_record_that_cannot_be_read_hides_nothing_else(
        fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit")
    fake.apply()
    fake.host.run.chmod(0o777)
    for words in ((), ("--json",)):
        status, out, err = shown(fake, capsys, monkeypatch, *words)
        assert status == 1 and "exit" in out and str(fake.file) not in out
        assert err.startswith(f"pvsync: {fake.host.run} is not to be trusted (others than root")
    fake.host.run.chmod(0o755)
    record = json.loads(fake.record.read_text())
    del record["after"]
    fake.record.write_text(json.dumps(record))
    assert f"    {fake.file} set it, was kvm\n" in shown(fake, capsys, monkeypatch)[1]
    fake.reset()
    assert fake.own() == {}


def test_as_it_was_is_not_always_as_stock(fake: Fake) -> None:
    (fake.parameters / "mark").write_text("yield\n")
    fake.wants(mark="exit")
    fake.apply()
    fake.reset()
    assert fake.own() == {"mark": "yield"}


def test_what_the_file_no_longer_says_goes(fake: Fake) -> None:
    fake.wants(mark="exit", extend="ecs")
    fake.apply()
    fake.wants(extend="ecs", extend_us="500")
    assert fake.apply() == ["host: extend=ecs extend_us=500"]
    assert fake.own() == {"extend": "ecs", "extend_us": "500"}
    assert json.loads(fake.record.read_text())["before"] == {"extend": "off", "extend_us": "1000"}
    fake.reset()
    assert fake.own() == {}


def test_who_holds_the_lock_for_long_is_named(
        fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but root can hold it, whatever the umask; what a symlink names is left alone."""
    before = os.umask(0)
    fake.wants(mark="exit")
    fake.apply()
    os.umask(before)
    lock = fake.record.parent / f".{fake.record.name}.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    assert fake.record.parent.stat().st_mode & 0o022 == 0
    monkeypatch.setattr(kept, "LOOKS", 2)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = refusal(fake.apply)
    assert said == (f"another pvsync changes {fake.record}: wait for its end; nothing was changed")
    lock.unlink()
    precious = fake.file.parent / "precious"
    precious.write_text("kept")
    lock.symlink_to(precious)
    assert "cannot be written" in refusal(fake.apply) and precious.read_text() == "kept"


def test_what_cannot_be_undone_is_told_and_kept(
        fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit", extend="bad")
    kernel = os.write

    def stubborn(file: int, data: bytes) -> int:
        if data == b"kvm":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return kernel(file, data)
    monkeypatch.setattr(os, "write", stubborn)
    said = refusal(fake.apply)
    assert "'bad' for extend" in said and "; not taken back: mark" in said
    assert f"`pvsync reset --host --file {fake.file}`" in said
    monkeypatch.setattr(os, "write", kernel)
    fake.reset()
    assert fake.own() == {} and not fake.record.exists()


def test_nothing_is_no_value(fake: Fake) -> None:
    fake.wants(mark="")
    assert refusal(fake.apply) == f"{fake.file}: mark has no value: correct it, or remove the file"


def test_all_or_nothing(fake: Fake) -> None:
    fake.wants(extend="ecs", mark="bad")
    said = refusal(fake.apply, UsageError)
    assert said.startswith("the kernel does not take 'bad' for mark: ")
    assert fake.own() == {} and not fake.record.exists()
    fake.wants(extend="ecs")
    fake.apply()
    before = fake.record.read_bytes()
    fake.wants(extend="off", mark="closed")
    assert refusal(fake.apply, UsageError) == "mark of the host can only be read"
    assert fake.own() == {"extend": "ecs"} and fake.record.read_bytes() == before


@pytest.mark.parametrize("first", [{}, {"mark": "yield", "extend": "ecs"}])
def test_one_that_was_killed_is_taken_back(fake: Fake, first: dict[str, str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    if first:
        fake.wants(**first)
        fake.apply()
    fake.wants(mark="exit", extend_us="500")
    put = host_parameters._put

    def killed(host: Host, name: str, value: str) -> None:
        put(host, name, value)
        os._exit(7)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(host_parameters, "_put", killed)
        fake.apply()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert fake.own() == {**first, "mark": "exit"}
    fake.reset()
    assert fake.own() == {} and not fake.record.exists()


def test_names_and_files_that_are_wrong(fake: Fake) -> None:
    assert refusal(fake.apply) == (
        f'there is no {fake.file}: write lines such as mark = "exit" into it')
    fake.wants(marks="exit")
    assert refusal(fake.apply, UsageError) == (
        "this kernel has no parameter 'marks' of the host, did you mean 'mark'?"
        " (known: candidate, extend, extend_us, mark)")
    assert fake.own() == {} and not fake.host.run.exists()


def test_a_kernel_without_pvsync(fake: Fake) -> None:
    fake.wants(mark="exit")
    fake.parameters.rename(fake.host.sys / "away")
    for act in (fake.apply, lambda: host_parameters.differs(fake.host, fake.file)):
        assert refusal(act) == (
            "this host's kernel, 6.1.0-28-amd64, has no pvsync, so there is nothing to set;"
            " `pvsync doctor` says what helps without it")
    assert fake.reset() == ["nothing was set"] and not fake.host.run.exists()


def test_no_root(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit")
    opened = os.open

    def denied(file: Path, *words: int) -> int:
        if Path(file).parent == fake.parameters:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(file, *words)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        assert refusal(fake.apply) == "mark of the host cannot be written: run pvsync as root"
    assert fake.own() == {} and not fake.record.exists()

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", closed)
        assert refusal(fake.apply) == (
            f"{fake.record} cannot be written: run pvsync as root; nothing was changed")


def test_a_full_disk(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    assert refusal(fake.apply) == (
        f"{fake.record} cannot be written (No space left on device): nothing was changed")
    assert fake.own() == {} and [one.name for one in fake.host.run.iterdir()] == [".host.json.lock"]


def test_the_unit_and_the_profile_do_not_undo_each_other(fake: Fake) -> None:
    fake.wants(mark="exit")
    fake.apply()
    other = fake.file.with_name("other.toml")
    other.write_text('extend = "ecs"\n')
    for act in (host_parameters.apply, host_parameters.reset):
        assert refusal(lambda act=act: act(fake.host, other)) == (  # type: ignore[misc]
            f"the host's parameters are set from {fake.file}: first"
            f" `pvsync reset --host --file {fake.file}`; nothing was changed")
    assert fake.own() == {"mark": "exit"}


def profile(fake: Fake, *words: str) -> tuple[int, str, str]:
    """What the profile's script does when tuned calls it."""
    tools = fake.file.parent
    where = f"--sys {fake.host.sys} --proc {fake.host.proc} --run {fake.host.run}"
    (tools / "pvsync").write_text(f'#!/bin/sh\nexec {sys.executable} -m lab "$@" {where}\n')
    (tools / "pvsync").chmod(0o755)
    done = subprocess.run(
        [PROFILE / "script.sh", *words], capture_output=True, text=True, check=False, timeout=60,
        cwd=PROFILE, env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHONPATH": str(paths.ROOT)})
    return done.returncode, done.stdout, done.stderr


def test_the_profile_of_tuned(fake: Fake) -> None:
    assert kept.read_host(PROFILE / "host.toml") == trial.PRESETS["recommended"]
    assert profile(fake, "verify") == (
        1, "", "pvsync: host: mark is kvm, not exit.\npvsync: host: extend is off, not ecs.\n")
    assert profile(fake, "start") == (0, "host: mark=exit extend=ecs\n", "")
    assert fake.own() == trial.PRESETS["recommended"]
    assert profile(fake, "verify", "ignore_missing") == (0, "", "")
    assert profile(fake, "stop", "full_rollback") == (
        0, "host: mark=exit extend=ecs: taken back\n", "")
    assert fake.own() == {}
    assert profile(fake, "restart")[0] == 2
    fake.parameters.rename(fake.host.sys / "away")
    assert profile(fake, "start") == (
        1, "", "pvsync: this host's kernel, 6.1.0-28-amd64, has no pvsync, so there is nothing to"
        " set; `pvsync doctor` says what helps without it.\n")
    assert profile(fake, "stop") == (0, "nothing was set\n", "")


def test_tuned_reads_the_profile(tmp_path: Path) -> None:
    """With the modules of Debian 13's tuned, unpacked: its daemon would change this machine."""
    fetched = tmp_path / "fetched"
    apt = debian.apt(fetched, "deb", "trixie")
    for words in (["update"], ["download", "tuned"]):
        subprocess.run([*apt, *words], check=True, cwd=fetched)
    subprocess.run(["dpkg-deb", "--extract", next(fetched.glob("*.deb")), fetched / "root"],
                   check=True)
    where = str(fetched / "root/usr/lib/python3/dist-packages")
    (tmp_path / "pvsync-host").symlink_to(PROFILE)
    page = (paths.ROOT / "docs/install.md").read_text()
    code = f"""
import sys, tuned.consts as c, tuned.profiles as p
from tuned.profiles.variables import Variables
from tuned.utils.global_config import GlobalConfig
found = p.Loader(p.Locator([{str(tmp_path)!r}]), p.Factory(), p.Merger(), GlobalConfig(sys.argv[1]),
                 Variables()).load(["pvsync-host"])
print(*c.CFG_DEF_PROFILE_DIRS)
print(found.units["script"].options["script"], sorted(found.units), found.options["summary"])
"""
    config = tmp_path / "tuned-main.conf"
    config.touch()
    done = subprocess.run(["/usr/bin/python3", "-c", code, config], capture_output=True, text=True,
                          check=False, env={"PYTHONPATH": where})
    assert done.returncode == 0, done.stderr
    folders, rest = done.stdout.split("\n", 1)
    packaged, installed = folders.split()
    assert packaged == f"/{package.PROFILES}", "where the package has it"
    assert f" {installed}/pvsync-host/\n" in page, "where it is installed by hand"
    assert rest.startswith(f"['{tmp_path}/pvsync-host/script.sh'] ['script'] Have a pvsync")
