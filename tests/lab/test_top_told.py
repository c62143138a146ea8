# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync top` for programs: CSV, JSON, and a file that grows."""

import csv
import errno
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.observe import top
from lab.observe.preemptions import KINDS
from tests.lab import test_top

Host = test_top.Host
host = test_top.host


def told(host: Host, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
         *words: str) -> tuple[int, str, str]:
    """Status, output and errors of the command."""
    patch.setattr(sys, "argv", ["pvsync", "top", "-s", "0.1", *words, "--debugfs",
                                str(host.debugfs), "--proc", str(host.proc)])
    try:
        status = cli._guarded()
    except SystemExit as ended:
        status = int(str(ended.code))
    out, err = capsys.readouterr()
    return status, out, err


def grows(host: Host, patch: pytest.MonkeyPatch,
          between: Callable[[int], None] = lambda look: None) -> None:
    """In each look the VM loses its CPU 8 times with a lock, 2 times without, and waits for half
    of its time. `between` is called before each, with its number."""
    looks = [0]

    def sleep(_: float) -> None:
        looks[0] += 1
        between(looks[0])
        host.vm(100, looks[0], name="web", counters=test_top.ZEROS | {
            "preempt_lock": 8 * looks[0], "preempt_user": 2 * looks[0]})
    host.vm(100, 0, name="web", counters=test_top.ZEROS)
    patch.setattr("time.sleep", sleep)
    monotonic = iter(range(100))
    patch.setattr("time.monotonic", lambda: next(monotonic))
    looked = top.looks
    patch.setattr(top, "looks", lambda debugfs, proc, interval: looked(
        debugfs, proc, interval, sleep))


def test_csv_and_json_have_what_the_table_has(
        host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    grows(host, monkeypatch)
    status, out, _ = told(host, monkeypatch, capsys, "--once", "--csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert status == 0 and (row["vm"], row["pid"]) == ("web", "100")
    assert (row["preempted_per_s"], row["lock_per_s"], row["user_per_s"]) == ("10", "8", "2")
    status, out, _ = told(host, monkeypatch, capsys, "--once", "--json")
    look = json.loads(out)
    (vm,) = look["vms"]
    assert (status, look["seconds"], vm["name"]) == (0, 1, "web")
    assert vm["why"]["per_s"]["lock"] == 8 and vm["preempted_per_s"] == 10


def test_a_stock_host_has_empty_cells(host: Host, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    host.vm(100, 3, name="web")
    _, out, _ = told(host, monkeypatch, capsys, "--once", "--csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert {row[f"{kind}_per_s"] for kind in KINDS} == {""} and row["avoided"] == ""
    _, out, _ = told(host, monkeypatch, capsys, "--once", "--json")
    assert json.loads(out)["vms"][0]["why"] is None


def test_a_file_grows_and_has_one_head(host: Host, tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    grows(host, monkeypatch)
    log = tmp_path / "top.csv"
    for _ in range(2):
        assert told(host, monkeypatch, capsys, "--once", "-L", str(log)) == (0, "", "")
    assert [line.split(",")[1] for line in log.read_text().splitlines()] == ["vm", "web", "web"]
    status, out, err = told(host, monkeypatch, capsys, "--once", "-L", "/dev/full")
    assert (status, out) == (1, "") and err.startswith("pvsync: /dev/full cannot be written")
    status, out, err = told(host, monkeypatch, capsys, "--once", "-L", str(log), "--json")
    assert (status, out) == (2, "") and "not both" in err


def ends(look: int) -> None:
    """Ctrl-C in the fifth look."""
    if look == 5:
        raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["moved", "removed", "emptied", "left"])
def test_a_file_that_goes_is_begun_anew(host: Host, tmp_path: Path, how: str,
                                        monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    """As logrotate does it; the lines of the looks before stay where they were moved to."""
    log, old = tmp_path / "top.csv", tmp_path / "top.csv.1"

    def between(look: int) -> None:
        if look == 3:  # so two are in it
            if how == "moved":
                log.rename(old)
            elif how == "removed":
                log.unlink()
            elif how == "emptied":
                log.write_text("")
        ends(look)
    grows(host, monkeypatch, between)
    assert told(host, monkeypatch, capsys, "-L", str(log)) == (0, "", "")
    files = [file.read_text().splitlines() for file in (log, old) if file.exists()]
    lines = {"moved": [3, 3], "left": [5]}.get(how, [3])
    assert [len(one) for one in files] == lines
    for one in files:
        assert [line.split(",")[1] for line in one] == ["vm"] + ["web"] * (len(one) - 1)


def test_a_disk_that_is_full_later(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    """One error; the file has whole lines only, and goes on when there is room."""
    log, left = tmp_path / "top.csv", [300]
    write = os.write

    def disk(file: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, data[:left[0]])
        left[0] -= done
        return done
    grows(host, monkeypatch, ends)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", disk)
        assert told(host, patch, capsys, "-L", str(log)) == (
            1, "", f"pvsync: {log} cannot be written (No space left on device): make room there,"
            " or give -L the name of another file.\n")
    before = log.read_text()
    assert left == [0] and before.endswith("\n") and len(before) < 300
    assert told(host, monkeypatch, capsys, "--once", "-L", str(log))[0] == 0
    after = log.read_text()
    assert after.startswith(before) and after.count("\n") == before.count("\n") + 1
