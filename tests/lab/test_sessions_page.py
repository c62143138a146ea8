# SPDX-License-Identifier: GPL-2.0-only
"""docs/sessions.md: each of its sessions is typed again, on made-up hosts, and says the same.

PVSYNC_RECORD=1 writes what is said now into the page.
"""

import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.cli import top as cli_top
from lab.observe import top
from lab.observe.vms import Vm
from lab.operate import doctor, settings, trial
from lab.operate.settings import LOCKDOWN, PARAMETERS, Host
from tests import recorded
from tests.lab import test_settings, test_top, test_trial

Fake = test_settings.Fake
fake = test_settings.fake
WINDOWS = re.compile(r"(?m)(^web: window 1 of .*\n)(?:web: window .*\n)*(web: window .*\n)")
NEW_YEAR = 1767225600
"""Of 2026, seconds since 1970: when the clock of the slow host starts."""
OPTIONS = {"doctor": ("--debugfs", "--proc", "--sys"), "top": ("--debugfs", "--proc"),
           "try": ("--debugfs", "--proc"), "export": ("--debugfs", "--proc", "--sys")}
"""Of commands that take no file of settings."""


class Slow(test_trial.Fake):
    """A CPU and a VM `web` of two vCPUs that spin, and wait for half of their time.

    Time passes while a command sleeps. While `mark` is exit they spin less, and are told of it.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.yields = self.told = 0
        self.put("proc/7/cmdline", "/usr/bin/kvm\0-id\0" "100\0-name\0web\0")
        self.put("sys/module/pvsync/parameters/mark", "kvm\n")
        self.put("sys/devices/system/cpu/online", "0\n")
        self.put("sys/kernel/tracing/events/enable", "0\n")  # and no folder `instances`
        self.busy()

    def sleep(self, seconds: float) -> None:
        on = self.own()["mark"] == "exit"
        self.on.append(on)
        self.ms += round(1000 * seconds)
        uneven = 1 + len(self.on) % 3 / 100
        self.yields += round(seconds * uneven * (300 if on else 2000))
        self.exits += round(seconds * uneven * (9000 if on else 12000))
        self.told += round(seconds * uneven * (700 if on else 350))
        self.state(self.ms, self.yields, self.exits)
        self.busy()

    def busy(self) -> None:
        """What the doctor's own host has otherwise: CPUs that idle, and no pvsync."""
        lost = round(0.8 * self.ms)
        self.put("proc/stat", f"cpu  {self.ms // 10} 0 0 0 0 0 0 0 {self.ms // 10} 0\n")
        counted = dict(test_top.ZEROS) | {
            "preempt_user": lost // 2, "preempt_lock": lost // 4, "preempt_irq": lost // 4,
            "preempt_unmarked": lost - self.told, "preempt_yielded": self.yields}
        self.put("debug/kvm/7-11/pvsync/counters",
                 "".join(f"{name} {value}\n" for name, value in counted.items()))
        self.put("debug/kvm/7-11/preemption_reported", f"{self.told}\n")
        self.put("debug/kvm/7-11/preemption_other", f"{lost - self.told}\n")
        for tid in (8, 9):
            self.put(f"proc/7/task/{tid}/status", "Cpus_allowed_list:\t0\n"
                     f"nonvoluntary_ctxt_switches:\t{lost // 2}\n")


def slow(root: Path, patch: pytest.MonkeyPatch) -> Slow:
    """Such a host, on whose time the commands are."""
    made = Slow(root)
    patch.setattr(cli_top, "LIST_WIDTH", 80)
    patch.setattr(time, "monotonic", lambda: made.ms / 1000)
    patch.setattr(time, "time", lambda: NEW_YEAR + made.ms / 1000)
    for module, name in ((doctor, "looks"), (top, "looks"), (trial, "run")):
        patch.setattr(module, name, partial(getattr(module, name), sleep=made.sleep))
    return made


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def closed(made: Fake, patch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def denied(self: Path, *words: str, **more: str) -> str:
        if self.parent.name == "pvsync" and made.host.debugfs in self.parents:
            raise PermissionError(1, "Operation not permitted", str(self))
        return read(self, *words, **more)
    patch.setattr(Path, "read_text", denied)


def locked(made: Fake, patch: pytest.MonkeyPatch) -> None:
    closed(made, patch)
    file = made.host.sys / LOCKDOWN
    file.parent.mkdir(parents=True)
    file.write_text("none [integrity] confidentiality\n")


def ends(made: Fake, patch: pytest.MonkeyPatch) -> None:
    check = settings.check

    def ended(host: Host, vm: Vm, wanted: dict[str, str]) -> None:
        check(host, vm, wanted)
        made.ends(vm.pid)
    patch.setattr(settings, "check", ended)


def stock(made: Fake, _: pytest.MonkeyPatch) -> None:
    for vm in (made.host.debugfs / "kvm").iterdir():
        (vm / "pvsync").rename(vm / "away")
    (made.host.sys / PARAMETERS).rename(made.host.sys / "away")


def unmounted(made: Fake, _: pytest.MonkeyPatch) -> None:
    made.host.debugfs.rename(made.host.debugfs.with_name("away"))
    made.host.debugfs.mkdir()


SLOW = ("Why is a VM slow: `doctor`", "For programs: CSV", "See how it goes on: `top`",
        "Try settings: `try`", "Watch: `export`", "An old kernel")
"""Titles of sessions on that host."""
SCENES: dict[str, Callable[[Fake, pytest.MonkeyPatch], None]] = {
    "No root": closed, "A full disk": lambda _, patch: patch.setattr(os, "fsync", full),
    "No pvsync in the kernel": stock, "A VM that ends meanwhile": ends,
    "Secure Boot": locked, "debugfs is not mounted": unmounted}
"""What is otherwise in a session, by its title; in this order, after all others."""


def typed(made: Fake | Slow, root: Path, line: str, patch: pytest.MonkeyPatch,
          capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says, with the paths of a real host; after ` | ` a shell gets that."""
    line, _, pipe = line.partition(" | ")
    words = line.split()[1:]
    where = {"--debugfs": made.host.debugfs, "--proc": made.host.proc, "--sys": made.host.sys,
             "--file": root / "etc/pvsync" / ("host.toml" if "--host" in words else "vms.toml")}
    if "--host" in words or words[0] == "show":
        where["--run"] = root / "run/pvsync"
    taken = OPTIONS.get(words[0], where.keys())
    patch.setattr(sys, "argv", ["pvsync", *words, *(
        str(one) for pair in where.items() if pair[0] in taken for one in pair)])
    try:
        status = cli._guarded()
    except SystemExit as ended:
        status = int(str(ended.code))
    out, err = capsys.readouterr()
    if words[0] == "try":  # tells how far it is before it says what came of it
        out, err = WINDOWS.sub(r"\1...\n\2", err), out
    said = f"{out}{err}".replace(str(made.host.debugfs), "/sys/kernel/debug")
    said = re.sub(r"(?m) +$", "", said.replace(str(made.host.proc.parent), ""))
    if pipe:
        (root / "said").write_text(said)  # as fakes write in place of os.write()
        with (root / "said").open() as file:
            said = subprocess.run(pipe, shell=True, stdin=file, stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
    return said.replace(str(root), "") + (f"(exit status {status})\n" if status else "")


def test_the_sessions_are_so(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                             capsys: pytest.CaptureFixture[str]) -> None:
    parameters = fake.host.sys / PARAMETERS
    parameters.mkdir(parents=True)
    (tmp_path / "etc/pvsync").mkdir(parents=True)
    (tmp_path / "etc/pvsync/host.toml").write_text('mark = "exit"\n')
    (parameters / "mark").write_text("kvm\n")
    fake.vm(10, "-name", "web")
    fake.vm(20, "-id", "100", "-name", "db")
    sessions = {title: session for title, session in recorded.blocks(recorded.SESSIONS)
                if title != recorded.TOP_FILE}
    assert len(sessions) >= 7 and sessions.keys() >= {*SLOW, *SCENES}
    for title in sorted(sessions, key=lambda one: list(SCENES).index(one) + 1
                        if one in SCENES else 0):
        with monkeypatch.context() as patch:
            if title in SCENES:
                SCENES[title](fake, patch)
            made = slow(tmp_path / title, patch) if title in SLOW else fake
            session = [(line, typed(made, tmp_path, line, patch, capsys))
                       for line, _ in recorded.said(sessions[title])]
        if title == "No pvsync in the kernel":
            for vm in (fake.host.debugfs / "kvm").iterdir():
                (vm / "away").rename(vm / "pvsync")
            (fake.host.sys / "away").rename(parameters)
        recorded.compare(recorded.SESSIONS, title, session)
