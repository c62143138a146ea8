# SPDX-License-Identifier: GPL-2.0-only
"""Run every stage of the tests and close with one count for the whole run.

A stage is a command. Its count comes from pytest's XML, from the last line of
its output that reads `N passed, N failed[, N skipped]`, or, for a plain check,
from its exit status. A stage that crashes, runs out of time or closes without
a count is one failure: silence is failure.

    python -m tests.run_all [--only STAGE,...] [--list]
    python -m tests.run_all --soak SECONDS [--report FILE]
"""

import argparse
import contextlib
import math
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Literal

from tests import running, soak_report
from tests.running import Wanted

ROOT = Path(__file__).resolve().parent.parent
CLOSING = re.compile(r"^\s*(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$")
WHOLE_S = 87 * 60
"""For all that `make test` runs: CI, which would say nothing, ends it after 90 minutes."""
EXAMPLES_PER_S = 5
"""For each of the properties of the lab's parsers, all together: about so many take a second."""
BOTH_CPUS = ("-n", "2", "--dist", "worksteal")
"""Such a test uses one CPU; what it prints is shown when all are done."""
FUZZ = sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("tests/lab/test_fuzz*.py"))
ISOLATION = "tests/vmx/test_isolation.py"
"""Its kernel is one more to build."""
KERNEL = (sys.executable, "-m", "pytest", "-vv", "--durations=25", "tests/kernel", "--sample", "-m")
"""Some of the tests of the kernel, by their marks, with the seconds of those that take longest;
of those that are sampled this commit's share."""
PROGRAMS = "tests/lab/programs"
"""Its tests need both CPUs, and look what the whole machine does."""
ANSI = re.compile(r"\x1b\[[0-9;]*m")
AT_ONCE = 2
"""Stages that run beside each other, so that no CPU waits for a download or a single process."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run."""


@dataclass(frozen=True)
class Count:
    """How many checks of a stage went which way."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


@dataclass(frozen=True)
class Stage:
    """One command and how it is counted."""

    name: str
    command: tuple[str, ...]
    count: Literal["pytest", "closing", "status"]
    timeout_s: float = 1800
    whole: bool = False
    """A check that is skipped has failed."""
    beside: bool = False
    """It needs no quiet machine: it may run while another such stage does."""


def stages() -> list[Stage]:
    """What `make test` runs: what needs no quiet machine, then cheapest first."""
    python = sys.executable
    return [
        # All that is fetched, the emulator and the first kernel; checks go before it.
        Stage("images", ("nice", "-n", "19", python, "-m", "tests.images"), "status", 3600,
              beside=True),
        Stage("ruff", (python, "-m", "ruff", "check", "lab", "tests"), "status", 300, beside=True),
        Stage("lab", (python, "-m", "pytest", *BOTH_CPUS, "tests/lab", "--ignore", PROGRAMS),
              "pytest", beside=True),
        Stage("mypy", (python, "-m", "mypy"), "status", 900, beside=True),
        Stage("series", ("./pvsync", "series", "check"), "status", 600, beside=True),
        Stage("models", (python, "-m", "pytest", "-rP", *BOTH_CPUS, "tests/models", "--sample"),
              "pytest", whole=True, beside=True),
        Stage("policy", ("make", "-C", "tests/policy", "check"), "closing", whole=True,
              beside=True),
        # A host in virtual time is a process of one core, and no load is seen in it. Where all is
        # to be made first, that is done by now.
        Stage("kernel-vt", (*KERNEL, "virtual", "-n", "2", "--dist", "loadfile"), "pytest", 3600,
              whole=True, beside=True),
        Stage("programs", (python, "-m", "pytest", PROGRAMS), "pytest"),
        # Their turns are measured in real time.
        Stage("locks", ("make", "-C", "tests/locks", "check"), "closing", whole=True),
        # In real time an emulated host uses both CPUs.
        Stage("kernel", (*KERNEL, "not virtual"), "pytest", 3600, whole=True),
        Stage("vmx", (python, "-m", "pytest", "-vv", *BOTH_CPUS, "tests/vmx", "--ignore",
                      ISOLATION), "pytest", whole=True),
    ]


def soak_stages(seconds: int) -> list[Stage]:
    """The long checks; each takes about so many seconds, machines not counted."""
    duration = f"DURATION={seconds}"
    kernel = (sys.executable, "-m", "pytest", "-vv", "tests/kernel", "--soak", str(seconds))
    lab = (sys.executable, "-m", "pytest", *FUZZ, "--examples",
           str(seconds * EXAMPLES_PER_S))
    return [
        Stage("lab", lab, "pytest", 20 * seconds + 3600),
        Stage("models", (sys.executable, "-m", "pytest", *BOTH_CPUS, "tests/models"), "pytest",
              3600),
        Stage("locks", ("make", "-C", "tests/locks", "soak", duration), "closing",
              10 * seconds + 3600),
        Stage("kernel", kernel, "pytest", 100 * seconds + 60_000),
        Stage("vmx", (sys.executable, "-m", "pytest", "-vv", ISOLATION), "pytest"),
    ]


def run_stage(stage: Stage, folder: Path) -> tuple[Count, str]:
    """Run one stage, passing its output on; its count, and why when it is broken."""
    return judged(stage, folder, *_execute(command(stage, folder), stage.timeout_s))


def command(stage: Stage, folder: Path) -> tuple[str, ...]:
    """What is executed; pytest writes its XML into the folder."""
    extra = (f"--junit-xml={xml(stage, folder)}",) if stage.count == "pytest" else ()
    return (*stage.command, *extra)


def xml(stage: Stage, folder: Path) -> Path:
    """Where pytest writes what it has found."""
    return folder / f"{stage.name}.xml"


def judged(stage: Stage, folder: Path, status: int | None, output: str) -> tuple[Count, str]:
    """The count of a stage that is over, and why when it is broken."""
    if status is None:
        by_then = junit(xml(stage, folder)) if stage.count == "pytest" else None
        return (by_then or Count()) + Count(failed=1), (
            f"could not run to its end: {output.splitlines()[-1]}")
    if stage.count == "status":
        return (Count(passed=1), "") if status == 0 else (Count(failed=1), f"status {status}")
    found = junit(xml(stage, folder)) if stage.count == "pytest" else closing(output)
    if found is None:
        return Count(failed=1), f"gave no count (status {status})"
    if found == Count():
        return Count(failed=1), "ran no check at all"
    if stage.whole and found.skipped:
        return Count(found.passed, found.failed + found.skipped), "skipped what it has to check"
    if status != 0 and found.failed == 0:
        return found + Count(failed=1), f"status {status} though no check failed"
    if status == 0 and found.failed:
        return found, "status 0 though checks failed"
    return found, ""


def closing(output: str) -> Count | None:
    """The last closing line among the last few lines; None without one."""
    for line in reversed(ANSI.sub("", output).splitlines()[-5:]):
        match = CLOSING.match(line)
        if match:
            return Count(*(int(number or 0) for number in match.groups()))
    return None


def junit(path: Path) -> Count | None:
    """Counts of pytest's XML; None when it was not written to its end."""
    try:
        suites = list(ET.parse(path).getroot().iter("testsuite"))
        numbers = [[int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")]
                   for suite in suites]
    except (OSError, ET.ParseError, ValueError):
        return None
    total, failures, errors, skipped = (sum(column) for column in zip(*numbers, strict=True))
    # A test that fails and then errs in its teardown counts twice.
    return Count(max(0, total - failures - errors - skipped), failures + errors, skipped)


def _execute(command: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
    """Status and output; status None when it did not start or had to be ended."""
    late = threading.Event()
    process: subprocess.Popen[str] | None = None
    timer: threading.Timer | None = None
    lines = []
    try:
        with _undisturbed():
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )
            timer = threading.Timer(timeout_s, _end_late, (process, late))
            timer.daemon = True
            timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
        status = process.wait()
    except OSError as error:
        if process is not None:
            running.stop(process)
            raise
        return None, f"{command[0]}: {error.strerror}"
    except KeyboardInterrupt:
        if process is not None:
            running.stop(process)
        raise
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()  # nothing of a stage is left when the next one begins
    if late.is_set():
        return None, f"it took more than {timeout_s:.0f} s and was ended"
    return status, "".join(lines)


def _end_late(process: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    running.stop(process)


def run_all(chosen: Sequence[Stage], report: Path | None = None,
            whole_s: float = math.inf) -> Count:
    """Run the stages in order, all of them, and print what each gave, and what failed.

    `report` is a file with a head, to which a section is added for each. What is not over
    after `whole_s` has failed.
    """
    total, lines = Count(), []
    end = time.monotonic() + whole_s
    with tempfile.TemporaryDirectory(prefix="pvsync-test-") as name:
        folder = Path(name)

        def note(stage: Stage, result: str, seconds: float) -> None:
            found = soak_report.cases(xml(stage, folder))
            if report is not None:
                _add(report, soak_report.section(stage.name, stage.command, result, seconds,
                                                 found))
            lines.append(f"{stage.name:10} {result} in {seconds:.0f} s")
            lines.extend(f"    {one.name}: {one.said}" for one in found if one.outcome == "failed")

        for beside, group in groupby(chosen, key=lambda stage: stage.beside):
            for stage, count, broken, seconds in (
                    _at_once(list(group), folder, end) if beside
                    else _one_by_one(list(group), folder, end, note)):
                total += count
                note(stage, f"{count}; {broken}" if broken else str(count), seconds)
    print("=== all stages", *lines, sep="\n")
    print(total, flush=True)
    return total


Result = tuple[Stage, Count, str, float]
"""A stage, its count, why when it is broken, and seconds."""


def _one_by_one(chosen: Sequence[Stage], folder: Path, end: float,
                note: Callable[[Stage, str, float], None]) -> Iterator[Result]:
    """Each after the other, and its output as it comes; one that is stopped is noted here."""
    for stage in chosen:
        _announce(stage)
        began = time.monotonic()
        limit = max(1.0, min(stage.timeout_s, end - began))
        try:
            count, broken = run_stage(replace(stage, timeout_s=limit), folder)
        except BaseException:
            note(stage, "was stopped", time.monotonic() - began)
            raise
        yield stage, count, broken, time.monotonic() - began


def _at_once(chosen: Sequence[Stage], folder: Path, end: float) -> Iterator[Result]:
    """Beside each other, and the output of each when it is over."""
    print("=== beside each other:", *(stage.name for stage in chosen), flush=True)
    wanted = [Wanted(stage.name, command(stage, folder), stage.timeout_s) for stage in chosen]
    left = {stage.name: stage for stage in chosen}
    try:
        for ended in running.at_once(wanted, AT_ONCE, folder, ROOT, end, _undisturbed):
            stage = left.pop(ended.name)
            _announce(stage)
            print(ended.output, flush=True)
            yield stage, *judged(stage, folder, ended.status, ended.output), ended.seconds
    finally:
        for stage in left.values():  # of a run that is stopped
            print(running.said(folder, stage.name), flush=True)


def _announce(stage: Stage) -> None:
    print(f"=== {stage.name}: {' '.join(stage.command)}", flush=True)


def _add(report: Path, section: str) -> None:
    try:
        with report.open("a") as file:
            file.write("\n" + section)
    except OSError as error:
        print(f"{report} cannot be written: {error.strerror}. It would have:", section, sep="\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End as on Ctrl-C, with everything that a stage has started."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What `_interrupt` does comes at the end of the block.

    A process that was started must be known before it can be ended.
    """
    came: list[int] = []
    ours = [number for number in ENDING if signal.getsignal(number) is _interrupt]
    for number in ours:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, _interrupt)
    if came:
        raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything passed, 1 when something failed, 2 on wrong usage."""
    parser = argparse.ArgumentParser(description="Run pvsync's tests.")
    parser.add_argument("--only", help="stages to run, separated by commas")
    parser.add_argument("--list", action="store_true", help="name the stages and stop")
    parser.add_argument("--soak", type=int, metavar="SECONDS", help="run the long checks instead")
    parser.add_argument("--report", type=Path, metavar="FILE",
                        help="where --soak writes what ran and what it found")
    options = parser.parse_args(arguments)
    if options.soak is not None and options.soak <= 0:
        parser.error("--soak needs a number of seconds above 0")
    if options.report is not None and options.soak is None:
        parser.error("--report is for --soak")
    known = stages() if options.soak is None else soak_stages(options.soak)
    wanted = options.only.split(",") if options.only else [stage.name for stage in known]
    for name in wanted:
        if name not in {stage.name for stage in known}:
            parser.error(f"there is no stage '{name}': {', '.join(s.name for s in known)}")
    chosen = [stage for stage in known if stage.name in wanted]
    if options.list:
        print(*(f"{stage.name}: {' '.join(stage.command)}" for stage in chosen), sep="\n")
        return 0
    if options.report is not None:
        try:
            options.report.parent.mkdir(parents=True, exist_ok=True)
            options.report.write_text(soak_report.head(options.soak))
        except OSError as error:
            parser.error(f"{options.report} cannot be written: {error.strerror}")
    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # under nohup
            signal.signal(number, _interrupt)
    try:
        whole_s = WHOLE_S if options.soak is None else math.inf
        return 1 if run_all(chosen, options.report, whole_s).failed else 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
