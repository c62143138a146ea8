# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor`: figures and findings of fake hosts, and how they are told."""

import csv
import io
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from lab.cli import main as cli
from lab.cli import told
from lab.core import paths
from lab.core.errors import LabError
from lab.observe import preemptions, vms
from lab.operate import doctor, figures, findings, sample
from lab.operate.figures import HostFigures, VmFigures
from lab.operate.findings import Finding
from lab.operate.sample import Facts
from lab.operate.settings import Host

ALL = frozenset(range(4))
FACTS = Facts("6.1.0-28-amd64", ALL, True, "tsc", {"kvm_intel.ple_gap": "128"}, frozenset(),
              frozenset(), {})
QUIET = VmFigures("web", "", 7, 2, 0.01, 0.02, 0.3, 0.01, 5.0, 0.9, 0.0, 500.0, 0.0, 20.0, 0.0,
                  0.0, None, None, (ALL, ALL), False, ("qemu",))
SECONDS = 2.0


def host_of(*machines: VmFigures, overcommit: float = 3.0, idle: float = 0.01,
            stolen: float = 0.0) -> HostFigures:
    return HostFigures(SECONDS, 12, overcommit, idle, stolen, machines)


def found(vm: VmFigures = QUIET, facts: Facts = FACTS, **of_host: float) -> dict[str, Finding]:
    return {one.key: one for one in findings.of(facts, host_of(vm, **of_host))}


# Findings

def test_a_quiet_host() -> None:
    assert found() == {}


def test_what_only_fewer_vms_cure() -> None:
    for share, limit in ((0.06, "5 %"), (0.5, "10 %")):
        one = found(replace(QUIET, held_up=share))["held-up"]
        assert one.today == one.pvsync == findings.NOTHING and one.costs == share
        assert f"from {limit} on" in one.threshold
    assert found(replace(QUIET, held_up=0.049)) == {}


def test_co_stop_is_an_estimate_and_has_a_cure() -> None:
    vm = replace(QUIET, held_up=0.5, costop=0.2, yields_per_s=5000.0)
    seen = found(vm)
    assert set(seen) == {"held-up", "co-stop"} and "estimate" in seen["co-stop"].why
    assert "mark=exit" in seen["co-stop"].pvsync and seen["held-up"].pvsync != findings.NOTHING
    assert "co-stop" not in found(replace(vm, yields_per_s=5.0))


CPU_PM = ("qemu", "-overcommit", "mem-lock=off,cpu-pm=on")
DEDICATED = ("qemu", "-cpu", "host,migratable=on,kvm-hint-dedicated=on")
NARROW = (frozenset({0}), frozenset({0, 1}))


@pytest.mark.parametrize(("key", "vm", "of_host"), [
    ("limit", {"throttled": 0.2}, {}),
    ("pinned", {"held_up": 0.2, "allowed": NARROW}, {"idle": 0.4}),
    ("too-many-vcpus", {"held_up": 0.2, "vcpus": 8, "allowed": (ALL,) * 8}, {}),
    ("unmarked", {"unmarked": 0.5, "lost_per_s": 900.0}, {}),
    ("yields", {"yields_per_s": 900.0, "yields_taken": 0.1}, {}),
    ("polling", {"polled": 0.2}, {}),
    ("exits", {"exits_per_s": 50_000.0}, {}),
    ("hint-dedicated", {"words": DEDICATED}, {}),
    ("cpu-pm", {"words": CPU_PM}, {}),
    ("core-scheduling", {"cookies": True}, {}),
    ("stolen", {}, {"stolen": 0.2}),
])
def test_each_finding(key: str, vm: dict[str, object], of_host: dict[str, float]) -> None:
    seen = found(replace(QUIET, **vm), **of_host)  # type: ignore[arg-type]
    assert set(seen) == {key}, seen
    one = seen[key]
    assert one.what and one.why and one.today and one.pvsync
    assert one.vm == ("" if key == "stolen" else "web")


@pytest.mark.parametrize(("monitor", "number", "wrong"), [
    ("libvirt", "", {"hint-dedicated"}), ("proxmox", "100", {"hint-dedicated", "cpu-pm"}),
    ("qemu", "", {"hint-dedicated", "cpu-pm"})])
def test_whole_command_lines(monitor: str, number: str, wrong: set[str]) -> None:
    """As libvirt 11.3 writes it for web.xml, as Proxmox VE does for `args`, and by hand."""
    file = paths.ROOT / f"tests/lab/data/vm-{monitor}.cmdline"
    words = tuple(shlex.split(file.read_text()))
    line = "".join(f"{word}\0" for word in words)
    assert (vms.vm_name(line, "comm"), vms.vm_number(line)) == ("web", number)
    assert set(found(replace(QUIET, words=words))) == wrong


def test_what_is_right_on_another_host() -> None:
    for words in (CPU_PM, DEDICATED):
        assert found(replace(QUIET, words=words), overcommit=1.0) == {}
    assert found(replace(QUIET, words=("qemu", "-cpu", "host,kvm-hint-dedicated=off"))) == {}
    assert found(replace(QUIET, cookies=True), replace(FACTS, smt=False)) == {}
    assert set(found(replace(QUIET, held_up=0.2, allowed=NARROW))) == {"held-up"}


@pytest.mark.parametrize(("modules", "flags", "off"), [
    ({"kvm_intel.ple_gap": "0"}, "", True), ({"kvm_intel.ple_gap": "128"}, "", False),
    ({"kvm_amd.pause_filter_count": "3000"}, "pausefilter", False),
    ({"kvm_amd.pause_filter_count": "3000"}, "", True),
    ({"kvm_amd.pause_filter_count": "0"}, "pausefilter", True), ({}, "", False)])
def test_pause_loop_exits(modules: dict[str, str], flags: str, off: bool) -> None:
    facts = replace(FACTS, modules=modules, flags=frozenset(flags.split()))
    assert set(found(facts=facts)) == ({"no-pause-exits"} if off else set())
    assert found(facts=facts, overcommit=0.5) == {}


def test_settings_of_the_host() -> None:
    assert set(found(facts=replace(FACTS, clocksource="hpet"))) == {"clock"}
    nested = replace(QUIET, nested_per_s=90.0)
    assert set(found(nested, replace(FACTS, modules={"kvm_amd.avic": "N"}))) == {"nested"}
    assert found(nested) == {}


@pytest.mark.parametrize(("release", "features", "doubtful"), [
    ("6.12.117", "", True), ("7.0.1", "", True), ("6.11.9", "", False), ("odd", "", False),
    ("6.12.117", "NO_DELAY_DEQUEUE", False)])
def test_waits_that_may_be_sleep(release: str, features: str, doubtful: bool) -> None:
    facts = replace(FACTS, release=release, features=frozenset(features.split()))
    vm = replace(QUIET, held_up=0.3)
    assert set(found(vm, facts, idle=0.5)) == {"waits-doubtful" if doubtful else "held-up"}
    assert set(found(vm, facts)) == {"held-up"}
    assert (doctor.SLEEP[:20] in doctor.text(doctor.Look(facts, host_of(vm), []))) == doubtful


def test_what_a_pvsync_kernel_knows() -> None:
    why = {f"preempt_{kind}": 0 for kind in preemptions.KINDS} | {
        "preempt_lock": 200, "preempt_user": 800}
    told = replace(QUIET, why=preemptions.figures(why, SECONDS), loans=(3, 9))
    seen = found(told, replace(FACTS, pvsync={"mark": "exit"}))
    assert set(seen) == {"sections", "loans"} and seen["sections"].what.startswith("20 %")


# Figures

@pytest.mark.parametrize(("waits", "runs", "share"), [
    ([0.5, 0.5], [0.5, 0.5], 0.25), ([0.0, 0.0], [1.0, 1.0], 0.0), ([0.9], [0.1], 0.0),
    ([0.0, 1.0], [1.0, 0.0], 0.5), ([None, 0.5], [0.5, 0.5], None), ([], [], None)])
def test_co_stop(waits: list[float | None], runs: list[float | None],
                 share: float | None) -> None:
    assert figures.costop(waits, runs) == share


@pytest.mark.parametrize(("text", "cpus"), [
    ("0-3\n", {0, 1, 2, 3}), ("0,8-9", {0, 8, 9}), ("", set()), ("x", set()), ("1-", set()),
    ("0-99999999", set())])
def test_cpu_lists(text: str, cpus: set[int]) -> None:
    assert sample.cpu_list(text) == cpus


class Fake:
    """A stock KVM host of two CPUs with one VM of two vCPUs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = Host(root / "debug", root / "proc", root / "sys")
        self.put("debug/sched/features", "GENTLE\n")
        self.put("proc/cpuinfo", "processor: 0\nflags\t\t: fpu svm pausefilter\n\nflags\t: x\n")
        self.put("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n")
        self.put("sys/devices/system/cpu/online", "0-1\n")
        self.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        self.put("sys/module/kvm_amd/parameters/pause_filter_count", "3000\n")
        self.put("proc/7/cmdline", "/usr/bin/kvm\0-id\0" "100\0-name\0a-rather-long-name\0")
        self.put("proc/7/comm", "kvm\n")
        self.state(0, 0, 0)

    def put(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def state(self, ms: int, yields: int, exits: int) -> None:
        """After so many milliseconds, of which each vCPU waited for a half."""
        self.put("proc/stat", f"cpu  {ms // 10} 0 0 {ms // 10} 0 0 0 0 {ms // 10} 0\n")
        for number, tid in enumerate((8, 9)):
            self.put(f"proc/7/task/{tid}/schedstat", f"{ms * 500_000 + 1} {ms * 500_000} 3\n")
            self.put(f"proc/7/task/{tid}/status", "Cpus_allowed_list:\t0-1\n")
            self.put(f"proc/7/task/{tid}/cgroup", "0::/qemu.slice/vm\n")
            self.put(f"debug/kvm/7-11/vcpu{number}/pid", f"{tid}\n")
        self.put("sys/fs/cgroup/qemu.slice/vm/cpu.stat", f"nr_throttled 1\nthrottled_usec {ms}\n")
        for name, value in {"exits": exits, "directed_yield_attempted": yields,
                            "directed_yield_successful": yields // 4,
                            "preemption_reported": exits // 2, "preemption_other": exits // 2,
                            "halt_poll_fail_ns": 0}.items():
            self.put(f"debug/kvm/7-11/{name}", f"{value}\n")

    def look(self) -> doctor.Look:
        before = sample.read(self.host, lambda: 0.0)
        self.state(2000, 4000, 8000)
        facts = sample.facts(self.host)
        seen = figures.of_host(facts, before, sample.read(self.host, lambda: SECONDS))
        return doctor.Look(facts, seen, findings.of(facts, seen))


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_figures_of_a_stock_host(fake: Fake) -> None:
    look = fake.look()
    assert look.facts == Facts("6.1.0-28-amd64", frozenset({0, 1}), False, "tsc",
                               {"kvm_amd.pause_filter_count": "3000"},
                               frozenset({"fpu", "svm", "pausefilter"}), frozenset({"GENTLE"}), {})
    assert (look.host.overcommit, look.host.idle, look.host.stolen) == (1.0, 0.5, 0.0)
    (vm,) = look.host.vms
    assert (vm.name, vm.number, vm.vcpus) == ("a-rather-long-name", "100", 2)
    assert (vm.held_up, vm.worst, vm.busy, vm.costop) == (0.5, 0.5, 0.5, 0.25)
    assert (vm.yields_per_s, vm.yields_taken, vm.exits_per_s) == (2000, 0.25, 2000)
    assert (vm.unmarked, vm.lost_per_s, vm.polled) == (0.5, 4000, 0.0)
    assert vm.throttled == pytest.approx(0.0005) and not vm.cookies
    assert {one.key for one in look.findings} == {"held-up", "co-stop", "unmarked", "yields"}


def test_a_reader_that_loses_its_cpu(fake: Fake) -> None:
    """A VM's figures are over the time between its own readings, whatever the others' was."""
    before = sample.read(fake.host, lambda: 0.0)
    fake.state(2000, 4000, 8000)
    times = chain([SECONDS], repeat(2 * SECONDS))
    seen = figures.of_host(sample.facts(fake.host), before,
                           sample.read(fake.host, lambda: next(times)))
    (vm,) = seen.vms
    assert (seen.seconds, vm.held_up, vm.busy, vm.exits_per_s) == (SECONDS, 0.25, 0.25, 1000)
    times = chain([SECONDS, SECONDS], repeat(4 * SECONDS))
    (vm,) = figures.of_host(sample.facts(fake.host), before,
                            sample.read(fake.host, lambda: next(times))).vms
    assert (vm.held_up, vm.worst, vm.exits_per_s) == ((0.5 + 0.125) / 2, 0.5, 500)


def test_it_is_readable_at_60_columns(fake: Fake) -> None:
    look = fake.look()
    vms = tuple(replace(QUIET, name=name, exits_per_s=123_456.0, yields_per_s=99_999.0,
                        held_up=1.0) for name in ("a", "b" * 13))
    text = doctor.text(replace(look, host=replace(look.host, vms=(*look.host.vms, *vms))))
    assert max(map(len, text.splitlines())) <= 60, text
    assert "1 each" not in text and "\na-rather-long-name\n" in text
    assert "   costs:  50 % of its vCPUs' time" in text and "today:  nothing here helps" in text
    assert "Nothing found" in doctor.text(replace(look, findings=[]))


def test_json_and_csv(fake: Fake) -> None:
    look = fake.look()
    told = json.loads(doctor.as_json(look))
    assert told["cpus"] == 2 and told["vms"][0]["held_up"] == 0.5 and not told["pvsync"]
    assert {one["key"] for one in told["findings"]} >= {"held-up", "yields"}
    (row,) = csv.DictReader(io.StringIO(doctor.head() + doctor.rows(look, 0.0)))
    assert row["time"] == "1970-01-01T00:00:00Z" and row["vm"] == "a-rather-long-name"
    assert (row["held_up"], row["yields_taken"]) == ("0.5", "0.25") and "co-stop" in row["findings"]


def test_a_kernel_that_tells_little(fake: Fake) -> None:
    for name in ("debug/kvm/7-11/exits", "proc/7/task/8/schedstat", "proc/cpuinfo", "proc/stat",
                 "sys/devices/system/cpu/online"):
        (fake.root / name).unlink()
    before = sample.read(fake.host)
    facts = sample.facts(fake.host)
    look = doctor.Look(facts, figures.of_host(facts, before, replace(before, at_s=99.0)), [])
    (vm,) = look.host.vms
    assert (vm.held_up, vm.costop, vm.exits_per_s) == (None, None, None)
    assert (look.host.overcommit, look.host.idle) == (None, None)
    assert findings.of(facts, look.host) == [] and " - " in doctor.text(look)


def test_a_kernel_that_is_locked_down(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens no file of debugfs that root could write, as KVM's statistics are."""
    read = Path.read_text

    def closed(self: Path, **more: str) -> str:
        if self.parent.name == "7-11" or self.name == "features":
            raise PermissionError(1, "Operation not permitted", str(self))
        return read(self, **more)
    assert doctor.LOCKED[:20] not in doctor.text(fake.look())
    monkeypatch.setattr(Path, "read_text", closed)
    fake.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    fake.state(0, 0, 0)
    look = fake.look()
    (vm,) = look.host.vms
    assert (vm.held_up, vm.costop, vm.exits_per_s, vm.yields_per_s) == (0.5, 0.25, None, None)
    assert " ".join(doctor.text(look).split()).endswith(doctor.LOCKED)
    assert json.loads(doctor.as_json(look))["lockdown"] == "integrity"


def test_vms_that_come_and_go(fake: Fake) -> None:
    before = sample.read(fake.host)
    (fake.root / "proc/7/cmdline").unlink()
    facts = sample.facts(fake.host)
    after = sample.read(fake.host)
    assert figures.of_host(facts, before, after).vms == ()
    assert figures.of_host(facts, after, before).vms == ()
    with pytest.raises(LabError, match="no virtual machine runs"):
        next(doctor.looks(fake.host, 0.1))


# The command

def run(fake: Fake, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    where = ["--debugfs", str(fake.host.debugfs), "--proc", str(fake.host.proc), "--sys",
             str(fake.host.sys)]
    monkeypatch.setattr(sys, "argv", ["pvsync", "doctor", *words, *where])
    return cli._guarded()


def test_the_command(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                     capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fake, monkeypatch, "--once", "-s", "0.1") == 0
    out, err = capsys.readouterr()
    assert out.startswith("1 VM, 2 vCPUs on 2 CPUs: 1.0 each") and err == ""
    assert run(fake, monkeypatch, "--once", "-s", "0.1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["vcpus"] == 2
    log = tmp_path / "log.csv"
    for _ in range(2):
        assert run(fake, monkeypatch, "--once", "-s", "0.1", "-L", str(log)) == 0
    assert [line.split(",")[0] == "time" for line in log.read_text().splitlines()] == [
        True, False, False]
    assert run(fake, monkeypatch, "--once", "--json", "--csv") == 2
    assert run(fake, monkeypatch, "--once", "-L", "/none/x") == 1
    assert "/none/x cannot be written" in capsys.readouterr().err
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for what, said in ((pipe, "it is a pipe"), (Path("/dev/null"), "it is a device")):
        assert run(fake, monkeypatch, "--once", "-s", "0.1", "-L", str(what)) == 1
        assert capsys.readouterr().err == (
            f"pvsync: {what} cannot be written ({said}): give -L the name of a file.\n")


def test_a_disk_that_is_full(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                             capsys: pytest.CaptureFixture[str]) -> None:
    log, limits = tmp_path / "log.csv", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        assert run(fake, monkeypatch, "--once", "-s", "0.1", "-L", str(log)) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capsys.readouterr().err == (
        f"pvsync: {log} cannot be written (File too large): give -L the name of another file.\n")


@pytest.mark.parametrize("reader", [False, True])
def test_a_pipe_that_comes_late_is_not_waited_for(tmp_path: Path, reader: bool,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of others, after the look whether there is one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    other = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) if reader else -1
    with pytest.raises(LabError, match="pipe cannot be written"), told.to(pipe):
        pass
    if reader:
        os.close(other)


def test_ctrl_c_ends_it(fake: Fake) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "lab", "doctor", "--csv", "-s", "0.2", "--debugfs",
         fake.host.debugfs, "--proc", fake.host.proc, "--sys", fake.host.sys], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": str(paths.ROOT)})
    assert child.stdout is not None
    assert child.stdout.readline() == doctor.head()
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=10)
    assert (child.returncode, err) == (0, "")
