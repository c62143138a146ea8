# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor --steal`: what guests' agents answer, and all that they may answer instead."""

import csv
import io
import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.observe.vms import Vm
from lab.operate import agents, doctor
from lab.operate.agents import Answer
from tests.lab import test_doctor

Fake = test_doctor.Fake
fake = test_doctor.fake
CPU = ('{"cpu": 0, "guestnice": 0, "idle": %d, "steal": %d, "iowait": 332430, "system": 6639280,'
       ' "guest": 0, "nice": 10154020, "irq": 0, "type": "linux", "user": 43392280,'
       ' "softirq": 7760}')
"""Of an answer of qemu-ga 7.2.22."""
LIBVIRT = f'{{"return":[{CPU % (6000, 1000)},{CPU % (2000, 1000)}]}}'
LATER = f'{{"return":[{CPU % (7000, 1500)},{CPU % (4000, 1500)}]}}'
PROXMOX = r'{ "exitcode" : 0, "exited" : 1, "out-data" : "cpu  870 204 135 %d 11 0 9 %d 0 0\n" }'
WEB = Vm(Path("/none"), Path("/none"), 7, "web", "", ("qemu", "-uuid", "cfe4-ed2b"))


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder before all others in PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def answers(tools: Path, name: str, *texts: str) -> None:
    """Have a command say these, one at a call, and note how it was called."""
    for number, text in enumerate(texts, 1):
        (tools / f"{name}.{number}").write_text(text)
    says(tools, name, "echo x >>$0.calls; cat $0.$(wc -l <$0.calls)")


def says(tools: Path, name: str, script: str) -> None:
    file = tools / name
    file.write_text(f'#!/bin/sh\nprintf "%s;" "$@" >$0.words\n{script}\n')
    file.chmod(0o755)


def one(vm: Vm = WEB) -> Answer:
    return agents.ask([vm])[vm.pid]


def test_by_libvirt(tools: Path) -> None:
    answers(tools, "virsh", LIBVIRT, LATER)
    before, after = agents.ask([WEB]), agents.ask([WEB])
    assert before[7].ticks[3] == 8000 and before[7].ticks[7] == 2000
    assert agents.shares(before, after) == {7: 1000 / 4000}
    assert (tools / "virsh.words").read_text() == (
        "-c;qemu:///system;qemu-agent-command;--domain=cfe4-ed2b;--timeout=4;"
        '{"execute": "guest-get-cpustats"};')


def test_by_proxmox(tools: Path) -> None:
    answers(tools, "qm", PROXMOX % (100, 5), PROXMOX % (190, 15))
    web = replace(WEB, number="100")
    assert agents.shares(agents.ask([web]), agents.ask([web])) == {7: 0.1}
    assert (tools / "qm.words").read_text() == (
        "guest;exec;100;--timeout;4;--;head;-n;1;/proc/stat;")


@pytest.mark.parametrize("answer", [
    "", "{", "[]", '{"return": {}}', '{"return": []}', '{"return": [{"user": 1}]}',
    '{"return": [7]}', LIBVIRT.replace('"idle": 6000', '"idle": -1'),
    LIBVIRT.replace('"steal": 1000', '"steal": true'),
    LIBVIRT.replace('"steal": 1000', '"steal": 1e999'), '{"a":' * 100_000])
def test_an_answer_that_is_none(tools: Path, answer: str) -> None:
    answers(tools, "virsh", answer)
    assert one() == Answer(wrong="its agent does not tell")
    answers(tools, "qm", answer)
    assert one(replace(WEB, number="100")) == Answer(wrong="its agent does not tell")


def test_what_virsh_complains_of(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(tools, "virsh", 'echo "error: Guest agent is not responding: QEMU guest agent is not'
         ' connected" >&2; exit 1')
    assert one().wrong == "Guest agent is not responding: QEMU guest agent is not connected"
    says(tools, "virsh", r'printf "\033[2Jx%s\n" "$(head -c 9000 /dev/zero | tr "\0" y)"; exit 1')
    assert re.fullmatch("\\[2Jxy+", one().wrong) and len(one().wrong) == agents.LONGEST
    (tools / "virsh").unlink()
    monkeypatch.setenv("PATH", str(tools))
    assert one().wrong == "virsh is not installed here, or cannot be called"


@pytest.mark.parametrize("script", [
    "sleep 60", "trap '' TERM; (sleep 60) & wait", "yes", "yes | cat"])
def test_an_answer_without_end(tools: Path, monkeypatch: pytest.MonkeyPatch,
                               script: str) -> None:
    monkeypatch.setattr(agents, "LIMIT_S", 1.0)
    says(tools, "virsh", script)
    began = time.monotonic()
    found = agents.ask(replace(WEB, pid=pid) for pid in range(4))
    assert time.monotonic() - began < 10
    assert {bool(answer.wrong) for answer in found.values()} == {True}


def test_answers_that_do_not_fit(tools: Path) -> None:
    old, new = Answer((1,) * 8), Answer((2,) * 7 + (1,))
    assert agents.shares({}, {7: new}) == {7: "it has just started"}
    assert agents.shares({7: new}, {7: old}) == {7: "its clock stood still or went back"}
    assert agents.shares({7: Answer(wrong="no")}, {7: new}) == {7: "no"}
    assert agents.shares({7: old}, {7: old}) == {7: "its clock stood still or went back"}


def test_the_command(fake: Fake, tools: Path, monkeypatch: pytest.MonkeyPatch,
                     capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        answers(tools, "qm", PROXMOX % (100, 5), PROXMOX % (190, 15))
        (tools / "qm.calls").unlink(missing_ok=True)
        monkeypatch.setattr(sys, "argv", [
            "pvsync", "doctor", "--once", "-s", "0.1", *words, "--debugfs", str(fake.host.debugfs),
            "--proc", str(fake.host.proc), "--sys", str(fake.host.sys)])
        assert cli._guarded() == 0
        return capsys.readouterr().out

    lines = run("--steal").splitlines()
    at = lines.index("a-rather-long-name", lines.index("a-rather-long-name") + 1)
    assert lines[at + 1] == "              10 %" and max(map(len, lines)) <= doctor.WIDTH
    assert json.loads(run("--steal", "--json"))["vms"][0]["steal"] == 0.1
    (row,) = csv.DictReader(io.StringIO(run("--steal", "--csv")))
    assert row["steal"] == "0.1"
    assert "steal" not in run("--csv") and "steal" not in run("--json")
    assert not (tools / "qm.calls").exists(), "nobody is asked unasked"


def test_a_long_complaint_is_readable_at_60_columns(fake: Fake) -> None:
    look = replace(fake.look(), steal={7: "no " * 50})
    text = doctor.text(look)
    assert "unknown: no no" in text and max(map(len, text.splitlines())) <= doctor.WIDTH
    assert json.loads(doctor.as_json(look))["vms"][0]["steal"] is None
    assert "unknown: it has just started" in doctor.text(replace(look, steal={}))
