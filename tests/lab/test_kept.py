# SPDX-License-Identifier: GPL-2.0-only
"""The file of kept settings: what is read of it, and what is left alone."""

import errno
import os
from pathlib import Path

import pytest

from lab.observe.vms import Vm
from lab.operate import actions, kept, settings
from lab.operate.settings import Host
from tests.lab.test_settings import Fake, made, refusal, values


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return made(tmp_path, monkeypatch)


def test_what_cannot_be_looked_at_is_not_missing(
        fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    web = fake.vm(10, "-name", "web")
    looked = Path.stat

    def denied(self: Path, **more: bool) -> os.stat_result:
        if self == web:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return looked(self, **more)
    monkeypatch.setattr(Path, "stat", denied)
    said = "the pvsync folder of web is closed: run pvsync as root"
    assert refusal(lambda: actions.reset(fake.host, fake.file, None)) == said
    assert [one.wrong for one in actions.show(fake.host, fake.file, None)] == [said]


@pytest.mark.parametrize(("text", "said"), [
    ("x", "correct it, or remove the file"), ("web = 1\n", "'web' must be a table"),
    ("[web]\nmark = exit\n", "(at line 2, column 8), in 'mark = exit', where lines are such as"
     ' [web], and below it mark = "exit": correct it'),
    ('mark = "exit"\n', "'mark' must be a table: write a line such as [web], with the name of the"
     " virtual machine, above it"),
    ('[[web]]\nmark = "exit"\n', "'web' must be a table: write a line such as [web]"),
    ('[web]\n[web]\n', "twice (at line 2, column 5), in '[web]', where"),
    ('[web.a]\nmark = "exit"\n', 'web.a must be a string or an integer: write a = "VALUE"'),
    ("[web]\nmark = true\n", "web.mark must be a string or an integer"),
    ("[web]\nmark = ['exit']\n", "web.mark must be"), ("\udcff", "it is no text")])
def test_a_damaged_file_is_not_replaced(fake: Fake, text: str, said: str) -> None:
    web = fake.vm(10, "-name", "web")
    fake.file.parent.mkdir(parents=True)
    fake.file.write_bytes(text.encode(errors="surrogateescape"))
    for act in (lambda: fake.set("web", mark="exit"),
                lambda: actions.apply(fake.host, fake.file, None),
                lambda: actions.reset(fake.host, fake.file, None),
                lambda: actions.show(fake.host, fake.file, None)):
        assert said in refusal(act)
    assert values(web) == {}
    assert fake.file.read_bytes() == text.encode(errors="surrogateescape")


@pytest.mark.parametrize("what", ["pipe", "directory", "device", "huge"])
def test_what_is_no_file_of_settings_is_left_alone(fake: Fake, what: str) -> None:
    """In time: a pipe would be waited for, and a device replaced."""
    web = fake.vm(10, "-name", "web")
    fake.file.parent.mkdir(parents=True)
    said = f"it is a {what}"
    if what == "pipe":
        os.mkfifo(fake.file)
    elif what == "directory":
        fake.file.mkdir()
    elif what == "huge":
        with fake.file.open("wb") as file:
            file.truncate(1 << 40)
        said = "it is larger than 1048576 bytes"
    else:
        fake.file.symlink_to("/dev/null")
    before = sorted(one.name for one in fake.file.parent.iterdir())
    for act in (lambda: fake.set("web", mark="exit"),
                lambda: actions.apply(fake.host, fake.file, None),
                lambda: actions.reset(fake.host, fake.file, None),
                lambda: actions.show(fake.host, fake.file, None)):
        assert refusal(act) == (f"{fake.file} cannot be read ({said}): remove it, or name another"
                                " one with --file")
    assert values(web) == {} and sorted(
        one.name for one in fake.file.parent.iterdir()) == before


def test_a_kept_number_is_shown_by_what_it_means(fake: Fake) -> None:
    web = fake.vm(10, "-name", "web")
    fake.set("web", extend_us="0500")
    (web / "extend_us").write_text("500\n")
    shown = actions.lines(actions.show(fake.host, fake.file, None), {})
    assert shown[1:] == ["web", "  extend_us=500"]


@pytest.mark.parametrize("name", ["a.b", 'q"u', "Größe", "back\\slash", "a b", "x]"])
def test_any_name_comes_back(name: str, tmp_path: Path) -> None:
    file = tmp_path / "vms.toml"
    file.write_text(kept.text_of({name: {"mark": "exit"}, "b": {"extend_us": "7"}}))
    assert kept.read(file) == {name: {"mark": "exit"}, "b": {"extend_us": "7"}}


def test_a_vm_that_ends_while_all_are_shown(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are shown, and what is kept for it."""
    fake.vm(10, "-name", "web")
    fake.vm(20, "-name", "db")
    fake.set("web", mark="exit")
    read = settings.own

    def ends(host: Host, vm: Vm) -> dict[str, str]:
        if vm.name == "web":
            fake.ends(vm.pid)
        return read(host, vm)
    monkeypatch.setattr(settings, "own", ends)
    shown = actions.show(fake.host, fake.file, None)
    assert [(one.name, one.runs, one.wrong) for one in shown] == [
        ("db", True, ""), ("web", False, "")]
