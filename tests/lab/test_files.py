# SPDX-License-Identifier: GPL-2.0-only
"""Locks on files, and what is not read as text."""

import os
import socket
import time
from pathlib import Path

import pytest

from lab.core import files


def test_a_lock_is_one_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each open is a holder of its own; who waits looks as often as told, and sleeps between."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    first, second = (os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    assert files.lock(first, 3, 60) and slept == []
    assert not files.lock(second, 3, 0.05) and slept == [0.05, 0.05]
    os.close(first)
    assert files.lock(second, 1, 60) and slept == [0.05, 0.05]
    os.close(second)


def test_only_text_of_a_regular_file_is_read(tmp_path: Path) -> None:
    """And nothing is waited for: a pipe has no end, /dev/zero neither."""
    good, pipe, link, folder = (tmp_path / name for name in ("good", "pipe", "link", "folder"))
    good.write_text("Gr\u00f6\u00dfe\n")
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(good)
    assert files.text(good, 8) == files.text(link, 8) == "Gr\u00f6\u00dfe\n"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for file, said in ((pipe, "it is a pipe"), (folder, "it is a directory"),
                           (Path("/dev/zero"), "it is a device"),
                           (tmp_path / "socket", "it is a socket")):
            with pytest.raises(files.UnfitError, match=said):
                files.text(file, 8)
    with pytest.raises(files.UnfitError, match="it is larger than 7 bytes"):
        files.text(good, 7)
    good.write_bytes(b"\xff")
    with pytest.raises(files.UnfitError, match="it is no text"):
        files.text(good, 8)
    with pytest.raises(FileNotFoundError):
        files.text(tmp_path / "none", 8)


def test_what_others_can_write_is_not_ours(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("x")
    link.symlink_to(file)
    for mode, fits in ((0o600, True), (0o644, True), (0o664, False), (0o646, False)):
        file.chmod(mode)
        assert files.text(file, 8) == "x"
        if fits:
            assert files.text(file, 8, ours=True) == "x"
        else:
            with pytest.raises(files.UnfitError, match="others than root can write it"):
                files.text(file, 8, ours=True)
    file.chmod(0o644)
    with pytest.raises(files.UnfitError, match="it is a symlink"):
        files.text(link, 8, ours=True)
    if os.geteuid() == 0:
        os.chown(file, 12345, 0)
        with pytest.raises(files.UnfitError, match="others than root can write it"):
            files.text(file, 8, ours=True)


def test_a_file_is_written_through_no_link(tmp_path: Path) -> None:
    """In a folder that others can write, they may have put one where the new file begins."""
    file, precious = tmp_path / "file", tmp_path / "precious"
    precious.write_text("kept")
    precious.chmod(0o600)
    (tmp_path / f".file.{os.getpid()}").symlink_to(precious)
    with files.prepared(file, "new", 0o644):
        assert not file.exists()
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o644
    assert precious.read_text() == "kept" and precious.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "precious"]


def test_nobody_else_can_open_a_new_file_for_writing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a moment: who has it open can write to it for ever, also under umask 0."""
    modes = []

    def seen(descriptor: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
    monkeypatch.setattr(os, "fsync", seen)
    before = os.umask(0)
    try:
        with files.prepared(tmp_path / "file", "new", 0o644):
            pass
    finally:
        os.umask(before)
    assert modes == [0o600] and (tmp_path / "file").stat().st_mode & 0o777 == 0o644
