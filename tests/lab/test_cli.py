# SPDX-License-Identifier: GPL-2.0-only
"""The command line: exit statuses, and one clear sentence for what is wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cli import options
from lab.core import paths
from lab.core.errors import LabError, UsageError
from lab.core.model import Observe
from tests.lab.calls import Call, FakeRunner, call, one_sentence, runner
from tests.lab.synthetic import Synthetic

__all__ = ["call", "runner"]


def test_list(call: Call) -> None:
    status, out, _ = call("list")
    assert status == 0
    for name in ("demo", "torture8", "pmt-inf", "dbench-tmpfs", "nopvspin",
                 "pvsync.ecs=count (others: stock) extend=ecs",
                 "(others: pvsync.ecs=count) extend=ecs", "(kernel: off)"):
        assert name in out
    assert "pvsync.lock=busted" not in out


def test_help(call: Call) -> None:
    assert call("--help")[0] == 0
    for command in ("build", "list", "run", "report", "replay", "shell", "top", "series"):
        assert command in call("--help")[1]
        assert call(command, "--help")[0] == 0
    status, _, err = call()
    assert status == 2 and "Commands:" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rnu",), "No such command 'rnu'. Did you mean 'run'? (see `./pvsync --help`)."),
        (("run",), "Missing argument 'EXPERIMENT' (see `./pvsync run --help`)."),
        (("run", "lcoks"), "did you mean 'locks'?"),
        (("run", "demo", "--schemes", "pmt,tickt"), "did you mean 'ticket'?"),
        (("run", "demo", "--schemes", "pmt,,tas"), "has an empty name in it"),
        (("run", "demo", "--schemes", ""), "schemes must name at least one"),
        (("run", "demo", "--workload", "hackbnch"), "did you mean 'hackbench'?"),
        (("run", "demo", "--vms", "1,x"), "'1,x' is no list of numbers such as 1,2,3"),
        (("run", "demo", "--vms", "0"), "vms must be from 1 to 64, not 0"),
        (("run", "demo", "--vcpus", "two"), "'two' is not a valid integer"),
        (("run", "demo", "--reps", "0"), "reps must be from 1"),
        (("run", "demo", "--backend", "xen"),
         "'xen' is not one of 'auto', 'vt', 'tcg', 'kvm', 'local'"),
        (("run", "demo", "--sceme", "pmt"), "No such option '--sceme'"),
        (("run", "demo", "--sceme", "pmt"), " (see `./pvsync run --help`)."),
        (("run", "demo", "--disturb", "kil"), "Invalid value for '--disturb': 'kil' is not one of"
         " parameters, offers, kill, restore."),
        (("run", "demo", "--variant", "kasn"), "demo: there is no kernel variant 'kasn'"),
        (("run", "demo", "--window-ms", "9"), "window_ms, unless 0, must be from 10 to 60000"),
        (("run", "demo", "--cmd", ""), "--cmd needs a command"),
        (("run", "demo", "--cmd", "true", "--workload", "hackbench"), "not both"),
        (("run", "demo", "--out", "a", "--resume", "b"), "not both"),
        (("run", "demo", "--resume", "none"), "There is no directory none"),
        (("report", "none"), "There is no directory none"),
        (("report",), "Missing argument 'DIR'"),
        (("shell", "gest"), "'gest' is not one of 'host', 'guest'"),
        (("shell", "--scheme", "pmtt"), "pvsync: --scheme: there is no scheme 'pmtt', did you mean"
         " 'pmt'? (known: "),
        (("shell", "--vcpus", "0"), "0 is not in the range"),
        (("top", "--interval", "0"), "0.0 is not in the range"),
        (("top", "--interval", "soon"), "'soon' is not a valid float"),
        (("top", "now"), "unexpected extra argument"),
    ],
)
def test_wrong_usage(
    call: Call, runner: FakeRunner, arguments: tuple[str, ...], message: str
) -> None:
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert message in err and one_sentence(err)
    assert not runner.calls


def test_virtual_time(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    call("run", "demo", "--backend", "vt", "--seeds", "5", "--machine", "nested", "--jobs", "2")
    (experiment, _, options), = runner.calls
    assert (experiment.boots, experiment.reps) == (5, 1)
    assert (options.machine, options.jobs, options.backend) == ("nested", 2, "vt")
    assert not options.snapshot
    call("run", "demo", "--backend", "vt", "--snapshot", "--out", str(tmp_path / "loaded"))
    assert runner.calls[1][2].snapshot and not runner.calls[1][2].trace
    call("run", "demo", "--backend", "vt", "--trace", "--out", str(tmp_path / "traced"))
    assert runner.calls[2][2].trace


@pytest.mark.parametrize(("arguments", "message"), [
    (("--seeds", "5", "--reps", "2"), "--seeds, or --boots and --reps, not both"),
    (("--seeds", "5", "--backend", "tcg"), "--seeds is of virtual time"),
    (("--machine", "zen44"), "no machine model 'zen44', did you mean 'zen4'?"),
    (("--seeds", "0"), "0 is not in the range"),
])
def test_refused_of_virtual_time(
    call: Call, runner: FakeRunner, arguments: tuple[str, ...], message: str
) -> None:
    status, out, err = call("run", "demo", *arguments)
    assert (status, out) == (2, "") and message in err and one_sentence(err)
    assert not runner.calls


def test_run_and_report(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    status, out, _ = call("run", "demo", "--schemes", "pmt,pmt", "--vms", "1,3", "--out", "here",
                          "--cmd", "make -j2", "--seed", "5", "--backend", "tcg")
    assert status == 0
    (experiment, directory, options), = runner.calls
    assert [scheme.label for scheme in experiment.schemes] == ["pmt", "pmt:2"]
    assert (experiment.vms, experiment.workloads[0].command) == ((1, 3), "make -j2")
    assert (directory, options.seed, options.backend, options.resume) == (
        Path("here"), 5, "tcg", False)
    assert options.command[:3] == ("./pvsync", "run", "demo")
    assert "hackbench: time (s)" in out and out.endswith("Report: here/report.html\n")
    assert json.loads((tmp_path / "here" / "summary.json").read_text())["valid"]


def test_run_without_a_page(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    status, out, _ = call("run", "demo", "--no-page", "--out", "here")
    assert status == 0 and runner.calls
    assert "hackbench: time (s)" in out and "Report:" not in out
    assert (tmp_path / "here" / "summary.json").exists()
    assert not (tmp_path / "here" / "report.html").exists()


@pytest.mark.parametrize(
    ("argument", "observe"),
    [((), False), (("--observe",), True), (("--no-observe",), False), (("--observe=all",), True),
     (("--observe=tlb",), "tlb"), (("--observe=locks",), "locks"), (("--observe=ecs",), "ecs")])
def test_observe(
    call: Call, runner: FakeRunner, argument: tuple[str, ...], observe: Observe
) -> None:
    assert call("run", "--out", "here", *argument, "demo")[0] == 0
    assert [experiment.observe for experiment, _, _ in runner.calls] == [observe]


def test_window_ms(call: Call, runner: FakeRunner) -> None:
    for number, argument in enumerate(((), ("--window-ms", "0"), ("--window-ms=50",))):
        assert call("run", "ecs-fairness", "--out", f"here{number}", *argument)[0] == 0
    assert [experiment.window_ms for experiment, _, _ in runner.calls] == [100, 0, 50]


def test_pin(call: Call, runner: FakeRunner) -> None:
    for number, argument in enumerate(((), ("--pin",), ("--no-pin",))):
        assert call("run", "ecs-fairness", "--out", f"here{number}", *argument)[0] == 0
    assert [experiment.pin for experiment, _, _ in runner.calls] == [False, True, False]


def test_observe_of_an_observed_experiment(call: Call, runner: FakeRunner) -> None:
    for number, argument in enumerate((("--no-observe",), (), ("--observe=locks",))):
        assert call("run", "tlb", "--out", f"here{number}", *argument)[0] == 0
    assert [experiment.observe for experiment, _, _ in runner.calls] == [False, "tlb", "locks"]


@pytest.mark.parametrize(("arguments", "message"), [
    (("--observe=lock",), "'lock' is not one of 'locks', 'tlb', 'ecs', 'all'"),
    (("--observe", "--no-observe"), "Give --observe or --no-observe, not both"),
    (("--observe", "tlb"), "unexpected extra argument"),
])
def test_wrong_observe(
    call: Call, runner: FakeRunner, arguments: tuple[str, ...], message: str
) -> None:
    status, _, err = call("run", "demo", *arguments)
    assert status == 2 and message in err and not runner.calls


def test_invalid_run_is_status_1(call: Call, runner: FakeRunner) -> None:
    runner.made = Synthetic(reps=1, boots=1, lost=frozenset({("pmt", 2)}))
    status, out, _ = call("run", "demo", "--out", "here")
    assert status == 1 and "NOT VALID" in out
    assert call("report", "here")[0] == 1


def test_default_directory(call: Call, runner: FakeRunner) -> None:
    assert call("run", "demo")[0] == 0
    ((_, directory, _),) = runner.calls
    assert directory.parent == Path("results") and directory.name.startswith("demo-")


def test_existing_directory_is_left_alone(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "thesis.txt").write_text("precious")
    status, _, err = call("run", "demo", "--out", "here")
    assert status == 2 and err == "pvsync: here exists and is not empty: name another.\n"
    (tmp_path / "here" / "manifest.json").touch()
    _, _, err = call("run", "demo", "--out", "here")
    assert "here exists and is not empty: continue there with --resume here, or name another" in err
    assert not runner.calls
    (tmp_path / "empty").mkdir()
    assert call("run", "demo", "--out", "empty")[0] == 0


def test_impossible_directory_is_refused_before_anything_is_built(
    call: Call, runner: FakeRunner, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    status, out, err = call("run", "demo", "--out", "file/a/b")
    assert (status, out, runner.calls) == (2, "", [])
    assert err == ("pvsync: file/a/b cannot be made: file is no directory that can be written to;"
                   " name another with --out.\n")
    assert call("run", "demo", "--out", "new/a/b")[0] == 0


def test_dry_run_runs_nothing(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    assert call("run", "demo", "--dry-run") == (0, "would run demo\n", "")
    assert not runner.calls and not (tmp_path / "results").exists()
    status, out, err = call("run", "demo", "--dry-run", "--tree", "missing")
    assert (status, out) == (2, "") and "there is no tree missing" in err


def test_interrupted(call: Call, runner: FakeRunner) -> None:
    runner.error = KeyboardInterrupt()
    status, _, err = call("run", "demo", "--vms", "1", "--out", "my dir")
    assert status == 130
    assert err.splitlines()[-1] == (
        "Continue with: ./pvsync run demo --vms 1 --resume 'my dir'"
    )


def test_lab_error_is_status_1(call: Call, runner: FakeRunner) -> None:
    runner.error = LabError("the host died")
    assert call("run", "demo", "--out", "y")[::2] == (
        1, "pvsync: the host died.\nContinue with: ./pvsync run demo --resume y\n")
    runner.error = UsageError("qemu is missing")
    assert call("run", "demo", "--out", "x")[::2] == (2, "pvsync: qemu is missing.\n")


def test_full_disk_is_one_sentence(call: Call, runner: FakeRunner) -> None:
    for file, said in (("runs.jsonl", "runs.jsonl"), (None, "x")):
        runner.error = OSError(28, "No space left on device", file)
        status, _, err = call("run", "demo", "--out", "x")
        assert status == 1
        assert err.splitlines() == [f"pvsync: {said}: No space left on device.",
                                    "Continue with: ./pvsync run demo --resume x"]
        shutil.rmtree("x")


def test_report_of_damaged_records(call: Call, tmp_path: Path) -> None:
    Synthetic(reps=1).write(tmp_path)
    (tmp_path / "runs.jsonl").write_bytes(b"\x89PNG\r\n\x1a\n" * 3)
    status, _, err = call("report", str(tmp_path))
    assert status == 2 and "runs.jsonl, line 1, is no valid JSON" in err and one_sentence(err)


def test_packages_are_remembered() -> None:
    assert options.remembered_packages(None) == ()
    assert options.remembered_packages(("fio", "redis-server")) == ("fio", "redis-server")
    assert options.remembered_packages(None) == ("fio", "redis-server")
    assert options.remembered_packages(()) == () == options.remembered_packages(None)


def test_impossible_package_is_not_remembered(call: Call, runner: FakeRunner) -> None:
    status, _, err = call("build", "--guest-packages", "fio,No Such")
    assert status == 2 and "'No Such' cannot be a Debian package" in err and one_sentence(err)
    assert options.remembered_packages(None) == ()


def test_build(call: Call, runner: FakeRunner) -> None:
    status, out, _ = call("build")
    assert (status, out.splitlines()[-1]) == (
        0, "Ready: kernel 6.12.0-pvsync 0123456789ab, QEMU QEMU emulator version 11.1.3.")


def test_workloads_bring_their_packages(call: Call, runner: FakeRunner) -> None:
    call("run", "demo", "--guest-packages", "fio", "--workload", "hackbench,dbench-tmpfs")
    ((_, _, options),) = runner.calls
    assert options.packages == ("fio", "dbench", "rt-tests")


def process(tmp_path: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(paths.ROOT)},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_it_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    """Short sleeps, as Python sees a signal that comes right before one when it is over."""
    code = (
        "import sys, time\nfrom lab.cli import main as cli\nfrom lab.plan import config\n"
        "def slow():\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        while True: time.sleep(0.05)\n"
        "    finally: print('cleaned up', flush=True)\n"
        "config.experiments = slow\n"
        "sys.argv = ['pvsync', 'list']\ncli.main()\n"
    )
    with process(tmp_path, code) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err.strip()) == (130, "cleaned up\n", "pvsync: interrupted.")


def test_as_a_program_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "__init__.py").write_text("raise SystemExit('the wrong lab')")
    found = subprocess.run(
        [sys.executable, "-P", "-m", "lab", "report", "nowhere"], cwd=tmp_path, check=False,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(paths.ROOT)},
    )
    assert (found.returncode, found.stderr) == (2, "pvsync: There is no directory nowhere.\n")
