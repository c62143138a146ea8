# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync top`: reading fake hosts, what the view says, and how it ends."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.live import Live

from lab.cli import main as cli
from lab.core import paths
from lab.core.errors import LabError, UsageError
from lab.observe import preemptions, top, vms
from lab.observe.top import Row
from lab.observe.vms import Reading

STATUS = "Name:\tCPU 0/KVM\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t{}\n"
KINDS = (*preemptions.KINDS, "yielded", "unmarked")
ZEROS = dict.fromkeys((f"preempt_{kind}" for kind in KINDS), 0) | {
    "yield_unmarked": 0, "extend_granted": 0, "extend_avoided": 0, "extend_ns": 0,
    "extend_expired": 0}


class Host:
    """A fake KVM host: debugfs and proc."""

    def __init__(self, folder: Path) -> None:
        self.debugfs, self.proc = folder / "debug", folder / "proc"
        (self.debugfs / "kvm").mkdir(parents=True)
        (self.debugfs / "kvm" / "exits").write_text("5\n")
        (self.debugfs / "tracing").mkdir()
        self.proc.mkdir()

    def folder(self, pid: int) -> Path:
        return self.debugfs / "kvm" / f"{pid}-12"

    def vm(self, pid: int, *waited_ms: int, name: str = "", lost: int = 0, ran: int = 5,
           counters: dict[str, int] | None = None, told: bool = True) -> None:
        """A VM, or what it has become; a time for each vCPU. Threads are pid + 1 and so on."""
        process, words = self.proc / str(pid), ["qemu", *(["-name", name] if name else []), "-m"]
        for number, ms in enumerate(waited_ms):
            task = process / "task" / str(pid + 1 + number)
            task.mkdir(parents=True, exist_ok=True)
            (task / "schedstat").write_text(f"{ran} {ms * 10**6} 77\n")
            (task / "status").write_text(STATUS.format(lost))
            (task / "comm").write_text(f"CPU {number}/KVM\n")
            vcpu = self.folder(pid) / f"vcpu{number}"
            vcpu.mkdir(parents=True, exist_ok=True)
            if told:
                (vcpu / "pid").write_text(f"{pid + 1 + number}\n")
        (process / "task" / str(pid)).mkdir(exist_ok=True)
        (process / "task" / str(pid) / "comm").write_text("qemu-system-x86\n")
        (process / "cmdline").write_text("\0".join((*words, "")))
        (process / "comm").write_text("qemu-system-x86\n")
        if counters is not None:
            (self.folder(pid) / "pvsync").mkdir(exist_ok=True)
            lines = (f"{key} {value}\n" for key, value in (ZEROS | counters).items())
            (self.folder(pid) / "pvsync/counters").write_text("".join(lines))

    def read(self) -> dict[str, Reading]:
        return vms.read(self.debugfs, self.proc)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


# Reading

@pytest.mark.parametrize(("text", "waited"), [
    ("123 456 7\n", 456), ("123 0 7\n", 0), ("0 0 0\n", None), ("", None), ("123 456\n", None),
    ("123 -4 7\n", None), ("123 45x 7\n", None)])
def test_schedstat(text: str, waited: int | None) -> None:
    assert vms.schedstat(text) == waited


def test_switches() -> None:
    assert vms.switches(STATUS.format(31)) == 31
    assert vms.switches("voluntary_ctxt_switches:\t9\n") is None and vms.switches("") is None


@pytest.mark.parametrize(("words", "name"), [
    (("qemu", "-name", "web"), "web"), (("qemu", "-name", "guest=web,debug-threads=on"), "web"),
    (("qemu", "-name", "debug-threads=on,guest=web"), "web"),
    (("qemu", "--name", "web"), "web"),
    (("qemu", "-name", "guest=a,,b,process=c"), "a,b"), (("qemu", "-name"), "comm"),
    (("qemu", "-name", ""), "comm"), (("crosvm", "run"), "comm"),
    (("qemu", "-name", "a\x1b[2Jb"), "a[2Jb"), ((), "comm")])
def test_name(words: tuple[str, ...], name: str) -> None:
    assert vms.vm_name("\0".join(words), "comm\n") == name
    assert vms.vm_name("", "") == "?"


def test_a_command_line_without_end(host: Host) -> None:
    """Whoever may open /dev/kvm has a VM, and says how long its command line is."""
    host.vm(100, 0, name="w" * 100_000)
    with (host.proc / "100/cmdline").open("r+b") as file:
        file.truncate(8 << 20)  # zeros
    (vm,) = vms.find(host.debugfs, host.proc)
    assert vm.name == "w" * vms.LONGEST_NAME and len(vm.words) <= vms.MOST


def test_number_of_a_vm_of_proxmox() -> None:
    line = "/usr/bin/kvm\0-id\0{}\0-name\0web,debug-threads=on\0"
    assert vms.vm_number(line.format("100")) == "100" and vms.vm_number(line.format("x")) == ""
    assert vms.vm_number("qemu\0-name\0web\0") == ""


def test_a_pvsync_host(host: Host) -> None:
    host.vm(100, 3, 4, name="web", lost=6, counters={"preempt_lock": 8})
    host.vm(200, 5)
    assert host.read() == {
        "100-12": Reading(100, "web", 2, 7 * 10**6, 12, ZEROS | {"preempt_lock": 8}),
        "200-12": Reading(200, "qemu-system-x86", 1, 5 * 10**6, 6 * 0, {})}


def test_threads_of_kernels_that_do_not_tell_them(host: Host) -> None:
    host.vm(100, 3, 4, lost=1, told=False)
    assert host.read()["100-12"].vcpus == 2 and host.read()["100-12"].switches == 2
    for comm in (host.proc / "100/task").glob("*/comm"):
        comm.write_text("qemu-system-x86\n")
    seen = host.read()["100-12"]
    assert (seen.vcpus, seen.waited_ns, seen.switches) == (0, None, None)


def test_a_vcpu_that_has_not_run_yet(host: Host) -> None:
    host.vm(100, 3, 4)
    (host.folder(100) / "vcpu1/pid").write_text("0\n")
    seen = host.read()["100-12"]
    assert (seen.vcpus, seen.waited_ns) == (1, 3 * 10**6)


def test_what_has_ended_or_is_damaged(host: Host) -> None:
    host.vm(100, 3, counters={})
    host.vm(200, 3)
    (host.proc / "200/cmdline").unlink()
    assert list(host.read()) == ["100-12"]
    (host.proc / "100/task/101/schedstat").unlink()
    (host.proc / "100/task/101/status").write_text("\n")
    (host.folder(100) / "pvsync/counters").write_bytes(b"\xff 1\npreempt_lock 5\n")
    assert host.read()["100-12"] == Reading(100, "qemu-system-x86", 1, None, None, {})


def test_errors_are_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(debugfs: Path, kind: type[LabError] = LabError) -> str:
        with pytest.raises(LabError) as caught:
            next(top.looks(debugfs, tmp_path / "proc", 1, lambda _: None))
        assert type(caught.value) is kind
        return str(caught.value)

    debugfs = tmp_path / "debug"
    missing = said(debugfs, UsageError)
    assert missing == f"there is no folder {debugfs}: give that of debugfs with --debugfs"
    debugfs.mkdir()
    assert said(debugfs) == f"debugfs is not mounted: run `mount -t debugfs debugfs {debugfs}`"
    (debugfs / "tracing").mkdir()
    assert said(debugfs).endswith(
        "KVM is not loaded on this machine; run pvsync on the host of the virtual machines")
    (debugfs / "kvm").mkdir()
    assert said(debugfs) == (
        "no virtual machine runs under KVM on this machine: start one, or run pvsync on the host of"
        " yours")

    def denied(self: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(self))
    monkeypatch.setattr(Path, "iterdir", denied)
    assert said(debugfs) == f"{debugfs / 'kvm'} cannot be read: run pvsync as root"


def test_files_that_may_not_be_read(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.vm(100, 3, counters={})

    def denied(self: Path, **_: object) -> str:
        raise PermissionError(1, "Operation not permitted", str(self))
    monkeypatch.setattr(Path, "read_text", denied)
    with pytest.raises(LabError, match=r"cannot be read: run pvsync as root"):
        host.read()


# Figures

def reading(waited_ms: int | None = 0, switches: int | None = 0, pid: int = 1, vcpus: int = 2,
            **counted: int) -> Reading:
    return Reading(pid, f"vm{pid}", vcpus, None if waited_ms is None else waited_ms * 10**6,
                   switches, ZEROS | counted if counted else {})


def row(before: Reading, after: Reading) -> Row:
    (found,) = top.rows({"x": before}, {"x": after}, 2.0)
    return found


def test_figures_of_a_stock_host() -> None:
    seen = row(reading(100, 10), reading(1100, 50))
    assert seen == Row(1, "vm1", 2, 0.25, 20, None, None)
    assert row(reading(None, 1), reading(1, None)) == Row(1, "vm1", 2, None, None, None, None)
    assert row(reading(5, 5), reading(4, 4)).held_up is None
    fewer = row(reading(1, 1), reading(9, 9, vcpus=1))
    assert (fewer.held_up, fewer.preempted_per_s) == (None, None)


def test_figures_of_a_pvsync_host() -> None:
    seen = row(reading(0, 0, preempt_lock=5), reading(
        400, 999, preempt_lock=9, preempt_user=12, extend_granted=20, extend_avoided=12,
        extend_ns=1_000_000, preempt_yielded=6, preempt_unmarked=7, yield_unmarked=4))
    assert (seen.held_up, seen.preempted_per_s, seen.yields_per_s) == (0.1, 8, 3)
    assert seen.why and (seen.why.avoided, seen.why.granted_per_s, seen.why.us_per_grant) == (
        0.75, 10, 50)
    assert seen.why.unmarked == 11 / 22
    assert top.reasons(seen.why) == "user 75 %, lock 25 %; unmarked 50 %"


def test_who_is_held_up_the_most_is_first() -> None:
    before = {str(pid): reading(0, 0, pid=pid) for pid in (1, 2, 3, 4, 5)}
    after = {"1": reading(1, 9, pid=1), "2": reading(7, 0, pid=2), "3": reading(None, 8, pid=3),
             "4": reading(7, 5, pid=4), "6": reading(9, 9, pid=6)}
    assert [one.pid for one in top.rows(before, after, 1.0)] == [4, 2, 1, 3]


def test_reasons() -> None:
    counted = {"preempt_irq": 3, "preempt_unknown": 600, "preempt_user": 397}
    why = preemptions.figures(ZEROS | counted, 1.0)
    assert top.reasons(why) == "kernel (not told) 60 %, user 40 %"
    assert top.reasons(preemptions.figures(ZEROS, 1.0)) == ""
    assert top.reasons(None) == "-" == top.reasons(preemptions.figures({"preempt_irq": 1}, 1.0))


# Showing

def shown(view: RenderableType, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_view_of_a_pvsync_host() -> None:
    before = {"a": reading(0, 0, pid=1, preempt_lock=0), "b": reading(0, 0, pid=2, preempt_user=0)}
    after = {"a": reading(400, 0, pid=1, preempt_lock=2, preempt_user=6, extend_granted=200,
                          extend_avoided=198, extend_ns=10**7, preempt_yielded=1),
             "b": reading(800, 0, pid=2, preempt_unknown=2400, preempt_user=1600,
                          preempt_unmarked=1000)}
    text = shown(top.render(top.rows(before, after, 2.0), 2.0))
    assert lines(text)[:5] == [
        "2 virtual machines, the last 2.0 s", "held preempt avoided unavoid- granted us/ yields",
        "VM pid vCPUs up % /s why % able/s /s grant /s",
        "vm2 2 2 20.0 2,000 kernel (not told) 60 %, user 40 %; unmarked 25 % - 0.0 0.0 - 0.0",
        "vm1 1 2 10.0 4.0 user 75 %, lock 25 % 99.0 1.0 100 50.0 0.5"]
    assert top.STOCK[:40] not in text and "avoided: of the preemptions in critical" in text
    assert top.SILENT in " ".join(lines(text))
    alone = shown(top.render(top.rows({"a": before["a"]}, {"a": after["a"]}, 2.0), 2.0))
    assert "not told" not in alone


def test_view_of_a_stock_host() -> None:
    text = shown(top.render([Row(7, "web", 2, 0.125, 40, None, None)], 2.0))
    assert lines(text)[1:4] == ["held preempt", "VM pid vCPUs up % /s", "web 7 2 12.5 40.0"]
    assert top.STOCK in " ".join(lines(text)) and "avoided:" not in text
    assert top.NO_TIMES not in " ".join(lines(text))


def test_view_of_what_is_unknown() -> None:
    text = shown(top.render([Row(7, "web", 0, None, None, None, None)], 2.0))
    assert lines(text)[3] == "web 7 - - -" and top.NO_TIMES in " ".join(lines(text))
    assert "No virtual machine has run all this time." in shown(top.render([], 2.0))


def test_names_are_no_markup() -> None:
    assert "[red]x" in shown(top.render([Row(7, "[red]x", 1, 0.1, 1, None, None)], 2.0))


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_terminals_keep_the_figures(width: int) -> None:
    why = preemptions.figures(ZEROS | {"preempt_unknown": 5, "preempt_user": 5,
                                       "extend_granted": 400, "extend_ns": 10**7}, 1.0)
    found = [Row(1234567, "a-rather-long-name", 128, 1, 99_999, why, 1e5),
             Row(7, "web", 2, 0.125, 99, why, 5.0)]
    text = shown(top.render(found, 2.0), width=width)
    said = " ".join(lines(text))
    assert "128 100 99,999 - 0.0 100,000" in said and "web 2 12.5 99.0 - 0.0 5.0" in said
    assert "web (7): user 50 %, kernel (not told) 50 %; granted 400/s, 25.0 us each" in said
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    assert "web (7)" not in shown(top.render(found, 2.0), width=100)


def test_each_view_is_of_what_was_added(host: Host) -> None:
    host.vm(100, 0, name="web", counters={})
    counts = iter((10, 30, 30))

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        host.vm(100, 0, name="web", counters={"preempt_lock": next(counts)})

    views = top.views(top.looks(host.debugfs, host.proc, 0.5, sleep))
    whys = [lines(shown(next(views)))[3] for _ in range(3)]
    assert ["lock 100 %" in one for one in whys] == [True, True, False]


def test_a_vm_may_come_and_go(host: Host) -> None:
    host.vm(100, 0)
    steps: Iterator[Callable[[], None]] = iter((
        lambda: host.vm(200, 0), (host.proc / "100/cmdline").unlink,
        (host.proc / "200/cmdline").unlink))
    views = top.views(top.looks(host.debugfs, host.proc, 1, lambda _: next(steps)()))
    titles = [lines(shown(next(views)))[0].partition(",")[0] for _ in range(3)]
    assert titles == ["1 virtual machine", "1 virtual machine", "0 virtual machines"]


def test_on_a_terminal_it_is_shown_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RenderableType] = []
    monkeypatch.setattr(Live, "update", lambda self, view, refresh: seen.append(view))
    console = Console(file=io.StringIO(), force_terminal=True)

    def views() -> Iterator[RenderableType]:
        yield from ("one", "two")
        raise KeyboardInterrupt

    top.run(views(), console, once=False)
    assert seen == ["one", "two"]
    top.run(views(), console, once=True)
    assert len(seen) == 2 and isinstance(console.file, io.StringIO)
    assert console.file.getvalue().endswith("one\n")


# The command

def test_once(host: Host, monkeypatch: pytest.MonkeyPatch,
              capsys: pytest.CaptureFixture[str]) -> None:
    host.vm(100, 3, 4, name="web")
    arguments = ["--once", "--interval", "0.1", "--debugfs", str(host.debugfs), "--proc",
                 str(host.proc)]
    monkeypatch.setattr(sys, "argv", ["pvsync", "top", *arguments])
    assert cli._guarded() == 0
    out, err = capsys.readouterr()
    assert "web" in out and top.STOCK in " ".join(out.split()) and err == ""
    monkeypatch.setattr(sys, "argv", ["pvsync", "top", *arguments[:-1], "/none"])
    assert cli._guarded() == 1
    assert capsys.readouterr().err == f"pvsync: {vms.none_runs()}.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_cleanly(host: Host, number: int) -> None:
    host.vm(100, 3, name="web")
    child = subprocess.Popen(
        [sys.executable, "-m", "lab", "top", "--interval", "0.2", "--debugfs", str(host.debugfs),
         "--proc", str(host.proc)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(paths.ROOT), "PYTHONUNBUFFERED": "1"})
    assert child.stdout is not None
    end = time.monotonic() + 20
    titles = 0
    while titles < 2 and time.monotonic() < end:
        titles += bool(re.match(r"1 virtual machine, the last 0\.\d s", child.stdout.readline()))
    child.send_signal(number)
    out, err = child.communicate(timeout=10)
    assert (titles, child.returncode, err) == (2, 0, "")
    assert "Traceback" not in out


def test_a_vm_that_ends_in_a_glob(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As until Python 3.12; the other VM is still seen."""
    host.vm(10, 1)
    host.vm(20, 1)
    glob = Path.glob

    def ends(folder: Path, pattern: str) -> Iterator[Path]:
        if folder == host.folder(10):
            shutil.rmtree(folder)
            shutil.rmtree(host.proc / "10")
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        return glob(folder, pattern)
    monkeypatch.setattr(Path, "glob", ends)
    assert [one.pid for one in host.read().values()] == [20]


def test_the_host_counts_meanwhile(host: Host) -> None:
    """A host that counts already goes on; what is no pvsync host has no such file."""
    file = host.debugfs / "pvsync/vcpu_stat"
    with vms.counting(host.debugfs):
        assert not file.exists()
    file.parent.mkdir()
    for before in ("0\n", "1\n"):
        file.write_text(before)
        with pytest.raises(ZeroDivisionError), vms.counting(host.debugfs):
            assert file.read_text() == "1"
            raise ZeroDivisionError
        assert file.read_text() == before
