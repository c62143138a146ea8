# SPDX-License-Identifier: GPL-2.0-only
"""Files, values and records that `apply --host` and `reset --host` read: what they refuse."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.operate import host_parameters, sample, settings
from tests.lab.test_host_parameters import Fake, made
from tests.lab.test_settings import refusal


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return made(tmp_path, monkeypatch)


def test_a_record_names_parameters_alone(fake: Fake) -> None:
    fake.wants(mark="exit")
    fake.apply()
    record = json.loads(fake.record.read_text())
    record["before"]["../../../victim"] = "owned"
    fake.record.write_text(json.dumps(record))
    assert fake.reset() == ["host: mark=exit: taken back"]
    assert not list(fake.host.sys.parent.rglob("victim"))


TABLE = "take the lines [host] out, as this file has no tables"


@pytest.mark.parametrize(("text", "said"), [
    ("x", "Expected '=' after a key in a key/value pair (at end of document), where a line is such"
     ' as mark = "exit"'),
    ("extend = 1\nmark = exit\n", "Invalid value (at line 2, column 8), in 'mark = exit', where a"
     ' line is such as mark = "exit"'),
    ("mark = true\n", 'mark must be a string or an integer: write mark = "Y" for a switch that is'
     ' on, else a value in quotes such as "exit"'),
    ("shootdown = false\n", 'shootdown must be a string or an integer: write shootdown = "N" for a'
     ' switch that is off, else a value in quotes such as "exit"'),
    ("extend_us = 1.5\n", "extend_us must be a string or an integer: write extend_us = \"VALUE\""),
    ('mark = ["exit"]\n', 'mark must be a string or an integer: write mark = "VALUE"'),
    ("mark = 2026-01-01\n", 'mark must be a string or an integer: write mark = "VALUE"'),
    ('[host]\nmark = "exit"\n', TABLE), ('[[host]]\nmark = "exit"\n', TABLE),
    ('host = { mark = "exit" }\n', TABLE),
    ('[host]\nmark = "exit"\n[host]\n', "Cannot declare ('host',) twice (at line 3, column 6), in"
     " '[host]', where a line is such as mark = \"exit\""),
    ('mark = "a"\nmark = "b"\n', "Cannot overwrite a value (at line 2, column 11), in 'mark ="
     " \"b\"', where a line is such as mark = \"exit\""),
    ('"\\u001b[2J" = 1\n', "'\\x1b[2J' is no name of a setting")])
def test_each_wrong_line_is_told(fake: Fake, text: str, said: str) -> None:
    fake.file.write_text(text)
    for act in (fake.apply, lambda: host_parameters.differs(fake.host, fake.file)):
        assert refusal(act) == f"{fake.file}: {said}: correct it, or remove the file"
    assert fake.own() == {} and not fake.host.run.exists()


def test_what_is_no_file_is_told(fake: Fake) -> None:
    os.mkfifo(fake.file)
    assert refusal(fake.apply) == (
        f"{fake.file} cannot be read (it is a pipe): remove it, or name another one with --file")
    fake.file.unlink()
    fake.file.symlink_to("/dev/null")
    assert "it is a device" in refusal(fake.apply)
    assert not fake.host.run.exists()


@pytest.mark.parametrize(("now", "wanted", "same"), [
    *(("N", text, True) for text in ("n", "N", "0", "no", "f", "off", "oF", "F")),
    *(("Y", text, True) for text in ("y", "Y", "1", "yes", "t", "on", "oN", "T")),
    *(("Y", text, False) for text in ("n", "0", "off", "", "2", "o", "oy", "\u00fd")),
    ("N", "y", False), ("N", "Y", False), ("n", "N", False),
    *(("8", text, True) for text in ("8", "08", "+8", "0x8", "010", "0X08")),
    *(("8", text, False) for text in ("-8", "8.0", "0x9", "1_0", " 8", "x8", "\u0668", "", "y",
                                     "++8")),
    ("10", "0b1010", False), ("10", "010", True), ("0", "00", True),
    ("aple:8", "aple:08", True), ("aple:8", "aple:8", True), ("aple:8", "aple:9", False),
    ("aple:8", "hvs:8", False), ("aple:8", "8", False), ("exit", "exit", True),
    ("exit", "Exit", False)])
def test_a_value_is_compared_by_what_it_means(now: str, wanted: str, same: bool) -> None:
    """As the kernel's kstrtobool(), kstrtouint() and pvsync_parse_number() read it."""
    assert settings.same(now, wanted) is same


def test_a_check_of_what_the_kernel_writes_otherwise(fake: Fake) -> None:
    (fake.parameters / "shootdown").write_text("N\n")
    fake.wants(shootdown="n", extend_us="01000")
    assert host_parameters.differs(fake.host, fake.file) == []
    fake.wants(shootdown="y", extend_us="0999")
    assert host_parameters.differs(fake.host, fake.file) == [
        "host: shootdown is N, not y", "host: extend_us is 1000, not 0999"]


def test_what_cannot_be_read_is_not_missing(
        fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit")
    said = f"{fake.parameters} cannot be read: run pvsync as root"
    listed, read = Path.iterdir, Path.read_text

    def closed(self: Path) -> Iterator[Path]:
        if self == fake.parameters:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return listed(self)

    def broken(self: Path) -> Iterator[Path]:
        if self == fake.parameters:
            raise OSError(errno.EIO, "Input/output error", str(self))
        return listed(self)

    def unreadable(self: Path, *words: str, **more: str) -> str:
        if self.parent == fake.parameters:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return read(self, *words, **more)
    acts = (fake.apply, lambda: host_parameters.differs(fake.host, fake.file),
            lambda: sample.facts(fake.host))
    for act in acts:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "iterdir", closed)
            assert refusal(act) == said
        with monkeypatch.context() as patch:
            patch.setattr(Path, "iterdir", broken)
            assert refusal(act) == f"{fake.parameters} cannot be read (Input/output error)"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_text", unreadable)
            assert refusal(act) == (
                f"{fake.parameters / 'candidate'} cannot be read: run pvsync as root")
    assert fake.own() == {} and not fake.host.run.exists()


@pytest.mark.parametrize("what", ["folder", "link", "file", "record", "record's link", "owner"])
def test_a_record_that_others_can_write_is_not_trusted(
        fake: Fake, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit")
    fake.apply()
    elsewhere, wrong = fake.file.parent / "elsewhere", fake.host.run
    if what == "folder":
        wrong.chmod(0o777)
        why = "others than root can write it"
    elif what == "link":
        wrong.rename(elsewhere)
        wrong.symlink_to(elsewhere)
        why = "it is a symlink"
    elif what == "file":
        shutil.rmtree(wrong)
        wrong.touch()
        why = "it is no directory"
    elif what == "record":
        wrong = fake.record
        wrong.chmod(0o664)
        why = "others than root can write it"
    elif what == "record's link":
        wrong = fake.record
        wrong.rename(elsewhere)
        wrong.symlink_to(elsewhere)
        why = "it is a symlink"
    else:
        if os.geteuid():
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        else:
            os.chown(wrong, 12345, 12345)
        why = "others than root can write it"
    fake.wants(mark="yield")
    before = sorted(fake.host.run.parent.rglob("*"))
    for act in (fake.apply, fake.reset):
        assert refusal(act) == (f"{wrong} is not to be trusted ({why}): remove it as root; what was"
                                " set stays until the host boots")
    assert fake.own() == {"mark": "exit"}
    assert sorted(fake.host.run.parent.rglob("*")) == before


def test_a_record_that_may_not_be_read(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.wants(mark="exit")
    fake.apply()
    looked = Path.lstat

    def denied(self: Path) -> os.stat_result:
        if self == fake.record:
            raise PermissionError(errno.EACCES, "Permission denied")
        return looked(self)
    monkeypatch.setattr(Path, "lstat", denied)
    for act in (fake.apply, fake.reset):
        assert refusal(act) == f"{fake.record} cannot be read: run pvsync as root"


@pytest.mark.parametrize("text", ["", "[]", '{"file": 1, "before": {}}', '{"file": "x"}'])
def test_a_damaged_record(fake: Fake, text: str) -> None:
    fake.wants(mark="exit")
    fake.host.run.mkdir(parents=True, mode=0o755)
    fake.record.write_text(text)
    fake.record.chmod(0o644)
    for act in (fake.apply, fake.reset):
        assert refusal(act).startswith(f"{fake.record} cannot be read: remove it;")
    assert fake.own() == {}
