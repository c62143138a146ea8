# SPDX-License-Identifier: GPL-2.0-only
import socket
import threading
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from lab.build.images import PLACEHOLDERS, GuestFiles
from lab.core.errors import UsageError
from lab.core.model import Experiment, Scheme, Workload
from lab.core.progress import Silent
from lab.machine import tsc
from lab.machine.control import Control, HostLost, Refused
from lab.machine.guest import GuestSpec, clock_args, guest_command
from lab.machine.machine import HostSpec, Machine, guest_disks, host_command, hostd_command
from lab.plan import kconfig
from lab.run import runner, shell
from lab.run.fleet import guest_files, guest_spec

SPEC = HostSpec("tcg", 2, 3000, Path("/k"), Path("/h"), Path("/g"), Path("/gk"), ("ld.so", "qemu"),
                args=("tsc_early_khz=2596130",))


def value(argv: list[str], option: str, nth: int = 0) -> str:
    return [argv[i + 1] for i, word in enumerate(argv) if word == option][nth]


def test_host_command() -> None:
    argv = host_command(SPEC, Path("/run"), Path("/logs"))
    assert argv[:2] == ["ld.so", "qemu"] and "-no-reboot" in argv
    assert value(argv, "-accel").startswith("tcg,thread=multi") and value(argv, "-smp") == "2"
    kernel = value(argv, "-append").split()
    assert {"panic=-1", "oops=panic", "tsc_early_khz=2596130"} <= set(kernel)
    assert "kvm.tsc_tolerance_ppm=10000" in kernel
    assert not any(word.startswith("kvm.halt_poll_ns") for word in kernel), "as users have it"
    assert value(argv, "-acpitable") == "file=/run/idle.aml"
    drives = [value(argv, "-drive", i) for i in range(3)]
    assert ["readonly=on" in d for d in drives] == [True] * 3
    assert [d.split("file=")[1].split(",")[0] for d in drives] == ["/h", "/g", "/gk"]
    other = host_command(HostSpec(**{**SPEC.__dict__, "backend": "kvm"}), Path("/r"), Path("/l"))
    assert value(other, "-accel") == "kvm" and value(other, "-cpu") == "host"


def test_other_kernels_for_guests_are_more_disks() -> None:
    others = (GuestFiles("off", Path("/k-off"), Path("/g-off")),
              GuestFiles("x", Path("/k-x"), Path("/g-x")))
    spec = replace(SPEC, others=others)
    argv = host_command(spec, Path("/run"), Path("/logs"))
    drives = [argv[i + 1] for i, word in enumerate(argv) if word == "-drive"]
    disks = {f"/dev/vd{letter}": drive.split("file=")[1].split(",")[0]
             for letter, drive in zip("abcdefg", drives, strict=True)}
    assert len({drive.split(",")[0] for drive in drives}) == 7
    files = guest_files(spec)
    assert {name: disks[str(image)] for name, (_, image) in files.items()} == {
        "": "/g", "off": "/g-off", "x": "/g-x"}
    assert [disks[guest_disks(place)[1]] for place in range(3)] == ["/gk", "/k-off", "/k-x"]
    assert len({kernel for kernel, _ in files.values()}) == 3
    assert guest_files(replace(spec, backend="local"))["x"] == (
        PurePosixPath("/k-x"), PurePosixPath("/g-x"))


def test_guest_command() -> None:
    spec = GuestSpec("pmt-0", 8, 256, ("pvsync.lock=pmt",))
    argv = guest_command(("qemu",), spec, PurePosixPath("/b"), PurePosixPath("/dev/vdb"),
                         PurePosixPath("/w"))
    assert value(argv, "-append").endswith(" pvsync.lock=pmt") and value(argv, "-smp") == "8"
    assert value(argv, "-cpu") == "host"
    other = GuestSpec("a-0", 2, 256, (), ("kvm-pv-unhalt=off",))
    argv_other = guest_command(("qemu",), other, PurePosixPath("/b"), PurePosixPath("/dev/vdb"),
                               PurePosixPath("/w"))
    assert value(argv_other, "-cpu") == "host,kvm-pv-unhalt=off"
    assert "-enable-kvm" in argv and "readonly=on" in value(argv, "-drive")
    assert value(argv, "-M").startswith("microvm,kernel-irqchip=on,ioapic2=off,")
    assert value(argv, "-serial") == "chardev:console"
    assert value(argv, "-chardev") == "file,id=console,path=/w/guests/pmt-0/console,append=on"


def test_a_guest_without_kvm_is_told_its_clock() -> None:
    assert clock_args(("kvm=off",), "vt") == ("tsc_early_khz=1000000",)
    assert clock_args(("kvm=off",), "local") == clock_args(("kvm-pv-unhalt=off",), "vt") == ()
    bare = Scheme("bare", "", ("x=1",), cpu=("kvm=off",))
    what = Experiment("e", "", (bare,), (), (1,), 2, 2, 1, 1)
    argv = guest_command(("qemu",), guest_spec(what, bare, "bare", 0, "vt"),
                         PurePosixPath("/b"), PurePosixPath("/dev/vdb"), PurePosixPath("/w"))
    assert value(argv, "-append").endswith(" tsc_early_khz=1000000 x=1")


def test_dry_run_says_everything() -> None:
    work = Workload("w", "", "true", "time", "s", "lower", "", 10)
    what = Experiment("e", "", (Scheme("a", "", ("x=1",), {"window": "aple"}, label="a"),), (work,),
                      (1, 2), 2, 2, 3, 1)
    text = "\n".join(runner.dry_run(what, backend="tcg"))
    assert "6 runs in 1 host boot.\n" in text and "x=1" in text and "window=aple" in text
    assert text.count("b0-r2-w-v2-a") == 1 and "tied" not in text
    off = replace(what, schemes=(*what.schemes, Scheme("b", "", label="b", variant="off")))
    first, second = (line for line in runner.dry_run(off, backend="tcg") if " -append " in line
                     and "-M microvm" in line)
    assert "/bzImage " in first and "/dev/vdb" in first
    assert "/bzImageoff " in second and "/dev/vdd" in second
    assert "KERNEL-off" in "\n".join(runner.dry_run(off, backend="tcg"))
    assert "is tied to a pCPU" in runner.dry_run(replace(what, pin=True), backend="tcg")[0]


@pytest.mark.parametrize(("usable", "pcpus", "refused"), [
    ({0, 1}, 2, ""), ({4, 6, 7}, 3, ""), ({0, 1, 2, 3}, 2, "say --pcpus 4"),
    ({1}, 2, "say --pcpus 1"),
])
def test_local_guests_have_the_cpus_of_the_lab(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usable: set[int], pcpus: int,
        refused: str) -> None:
    work = Workload("w", "", "true", "time", "s", "lower", "", 10)
    what = Experiment("e", "", (Scheme("a", "", label="a"),), (work,), (1,), 2, pcpus, 3, 1,
                      guest_mem=1 << 40)  # more than there is
    monkeypatch.setattr("lab.run.runner.backends.choose", lambda wanted: wanted)
    monkeypatch.setattr("lab.run.runner.os.sched_getaffinity", lambda _: usable)
    with pytest.raises(UsageError, match=refused or "MiB for all guests"):
        runner.run(what, tmp_path, runner.Options("local"), Silent(), PLACEHOLDERS)
    with pytest.raises(UsageError, match="MiB for all guests"):
        runner.run(what, tmp_path, runner.Options("tcg"), Silent(), PLACEHOLDERS)


def test_memory_for_all_guests() -> None:
    work = Workload("w", "", "true", "time", "s", "lower", "", 10)
    schemes = tuple(Scheme(str(i), "", label=str(i)) for i in range(5))
    what = Experiment("e", "", schemes, (work,), (1, 3), 2, 2, 3, 1, guest_mem=256)
    assert runner.host_memory(what) == 1024 + 15 * (256 + 90)
    more = kconfig.variant("kasan").memory
    assert more > 0
    assert runner.host_memory(replace(what, variant="kasan")) == \
        1024 + more + 15 * (256 + more + 90)
    one = replace(what, schemes=(replace(schemes[0], variant="kasan"), *schemes[1:]))
    assert runner.host_memory(one) == 1024 + 15 * (256 + more + 90), "guests are alike"
    assert runner.host_memory(replace(what, host_variant="kasan")) == 1024 + more + 15 * (256 + 90)


def test_shell_commands(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"12345")
    files = PLACEHOLDERS.__class__(**{**PLACEHOLDERS.__dict__, "guest_kernel": tmp_path / "k"})
    argv = shell.command("guest", Scheme("s", "", ("nopvspin",)), "tcg", files, vcpus=2, pcpus=2,
                         run=tmp_path)
    assert value(argv, "-serial") == "mon:stdio"
    assert "pvsync.shell=1" in value(argv, "-append")
    script = (tmp_path / "script").read_text()
    assert "nopvspin pvsync.shell=1" in script and "head -c 5 /dev/vdc" in script
    assert "typed" not in script and "typed" not in value(argv, "-append")
    shell.command("guest", Scheme("s", "", ("nopvspin",)), "vt", files, vcpus=2, pcpus=2,
                  run=tmp_path)
    script = (tmp_path / "script").read_text()
    assert "nopvspin lab.typed=1 pvsync.shell=1" in script
    assert "typed.py /usr/bin/qemu-system-x86_64" in script


def test_tsc_takes_the_least_disturbed_reading() -> None:
    assert tsc.best([(0, 100, 900), (1000, 5, 1010), (2000, 7, 2500)]) == (1005, 5)
    assert tsc.rate((0, 0), (1_000_000_000, 2_596_130_000)) == 2_596_130
    first, second = tsc.khz.__wrapped__(), tsc.khz.__wrapped__()
    assert abs(first - second) <= first * 200e-6


def test_a_host_that_cannot_start(tmp_path: Path) -> None:
    fails = ("sh", "-c", "echo no such option >&2; exit 3")
    spec = HostSpec(**{**SPEC.__dict__, "emulator": fails})
    machine = Machine(spec, tmp_path)
    with machine, pytest.raises(HostLost, match="status 3 no such option"):
        machine.start(10)
    assert not machine.run.exists()


def test_console_and_triple_fault_are_seen(tmp_path: Path) -> None:
    machine = Machine(SPEC, tmp_path)
    assert machine.trouble() == ""
    (tmp_path / "host-console.log").write_bytes(b"[ 1.0] Kernel panic - not syncing: x\r\n")
    assert "Kernel panic" in machine.trouble()
    (tmp_path / "qemu.log").write_text("CPU Reset (CPU 0)\nTriple fault\n")
    assert "triple" in Machine(SPEC, tmp_path / "..").trouble() or machine.tripled()
    machine.stop()


class Peer:
    """The other end of a Control, answered by hand."""

    def __init__(self, tmp_path: Path) -> None:
        ours, self.theirs = socket.socketpair()
        self.control = Control(ours, tmp_path / "log", lambda: "the host triple-faulted")

    def later(self, data: bytes) -> None:
        def work() -> None:
            self.theirs.recv(4096)
            self.theirs.sendall(data)
        threading.Thread(target=work, daemon=True).start()


def test_control_answers(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    peer.later(b'\x00junk\n[1]\n{"id": 99, "ok": true}\n{"id": 1, "ok": true, "x": 5}\n')
    assert peer.control.call("hello")["x"] == 5
    peer.later(b'{"id": 2, "ok": false, "error": "no guest b"}\n')
    with pytest.raises(Refused, match="no guest b"):
        peer.control.call("kill", name="b")
    assert "> " in (tmp_path / "log").read_text()
    peer.theirs.close()
    with pytest.raises(HostLost, match="triple-faulted"):
        peer.control.call("hello")
    peer.control.close()


def test_control_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.machine.control.ANSWER_GRACE", 0.05)
    peer = Peer(tmp_path)
    with pytest.raises(HostLost, match="silent"):
        peer.control.call("hello", timeout=0.05)
    peer.control.close()


def test_hostd_command() -> None:
    argv = hostd_command(Path("/r"))
    assert Path(argv[2]).is_file() and argv[-1] == "/r"
