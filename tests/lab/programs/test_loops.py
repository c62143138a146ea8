# SPDX-License-Identifier: GPL-2.0-only
"""tlb-loop, call-loop and kernel-loop."""

import os
import resource
import time
from pathlib import Path

import pytest

from lab.build import userland
from lab.plan import config
from tests.lab.programs.built import LIMIT, LOOPS, WORK, Build, build, figure, good, number, run

__all__ = ["build"]


# tlb-loop

@pytest.mark.parametrize("mode", LOOPS)
def test_loop_counts_turns(build: Build, mode: str) -> None:
    output = good(build("tlb-loop"), "-m", mode, "-S", "0.2")
    turns, rate = number(output, "turns"), number(output, "turns/s")
    assert turns >= 1 and 0.19 < turns / rate < 10
    assert figure(f"{mode}-loop", output) == rate
    assert f"-m {mode} " in config.workloads()[f"{mode}-loop"].command


def counted(least: int, name: str, program: Path, *options: str) -> tuple[float, int]:
    """What a run counted, and its page faults; one that counts too little is made anew, longer."""
    seconds, end = 0.2, time.monotonic() + LIMIT
    while True:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        output = good(program, *options, "-S", str(seconds))
        taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
        if number(output, name) > least:
            return number(output, name), taken
        assert time.monotonic() < end, output
        seconds *= 2


@pytest.mark.parametrize("mode", LOOPS)
def test_loop_touches_its_pages_anew_each_turn(build: Build, mode: str) -> None:
    """Page faults; only pages that stay mapped and writable take none."""
    least = 500 if mode == "mprotect" else 0
    turns, taken = counted(least, "turns", build("tlb-loop"), "-m", mode, "-p", "50", "-t", "0")
    if mode == "mprotect":
        assert taken < 500 < turns
    else:
        assert taken >= 50 * turns


def shootdowns() -> int:
    """Flushes for another CPU that this machine's CPUs have made so far."""
    lines = Path("/proc/interrupts").read_text().splitlines()
    (counts,) = (line.split()[1:] for line in lines if line.split()[:1] == ["TLB:"])
    return sum(int(count) for count in counts if count.isdigit())


CPU_FLAGS = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()


@pytest.mark.skipif((os.cpu_count() or 1) < 2 or "invlpgb" in CPU_FLAGS,
                    reason="flushes of other CPUs are counted when they are interrupted")
@pytest.mark.parametrize(("name", "options"), [
    *(("tlb-loop", ("-m", mode, "-S", "0.5")) for mode in LOOPS),
    ("dedup-like", ("-c", "4000")), ("tlb-checker", ("-S", "0.5"))])
def test_other_cpus_are_reached(build: Build, name: str, options: tuple[str, ...]) -> None:
    """By flushes in hundreds; this machine alone makes few.

    On a loaded one the threads seldom have their CPUs at the same time: there the program runs
    again, until it made far more than the machine in as much time without it.
    """
    program, reached, alone, end = build(name), 0, 0, time.monotonic() + LIMIT
    while True:
        before, began = shootdowns(), time.monotonic()
        good(program, *options)
        reached += shootdowns() - before
        if reached > 200 + 2 * alone:
            break
        assert time.monotonic() < end, f"{reached} flushes, {alone} without the program"
        before, took = shootdowns(), time.monotonic() - began
        time.sleep(took)
        alone += shootdowns() - before


def test_loop_wrong_options(build: Build) -> None:
    for options in ((), ("-m", "x"), ("-m",), ("-m", "fork", "-p", "0"), ("-m", "fork", "more")):
        done = run(build("tlb-loop"), *options)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# call-loop

def test_call_loop_times_each_call(build: Build) -> None:
    output = good(build("call-loop"), "-S", "0.2")
    calls, rate = number(output, "calls"), number(output, "calls/s")
    assert calls >= 1 and 0.19 < calls / rate < 10
    assert figure("membarrier-loop", output) == rate
    shares = ("p50", "p75", "p90", "p95", "p99", "p99.9", "max")
    times = [number(output, f"{share} us") for share in shares]
    assert times == sorted(times)
    assert times[0] * calls / 2 < 10e6 and times[-1] < 10e6


def test_call_loop_wrong_options(build: Build) -> None:
    for options in (("-S", "0"), ("-S",), ("-t", "5000"), ("-m", "x"), ("more",)):
        done = run(build("call-loop"), *options)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# kernel-loop

@pytest.mark.parametrize("mode", WORK)
def test_kernel_loop_counts_the_work_of_all_threads(build: Build, mode: str) -> None:
    workload, what = WORK[mode]
    output = good(build("kernel-loop"), "-m", mode, "-S", "0.25", "-t", "9")
    number_of, rate = number(output, what), number(output, f"{what}/s")
    assert 0.24 < number_of / rate < 10
    assert figure(workload, output) == rate
    command = config.workloads()[workload].command
    assert f"-m {mode} " in command
    pages = 1 if mode == "mmap" else 8
    few = good(build("kernel-loop"), "-m", mode, "-S", "0.05", "-t", "1", "-p", "8")
    assert number(few, what) % pages == 0 and number(few, what) > pages


@pytest.mark.parametrize(("mode", "least"), [("mmap", 50), ("fault", 1), ("pread", 0)])
def test_kernel_loop_touches_fresh_pages(build: Build, mode: str, least: int) -> None:
    """A fault for each page of each mapping, one for each that is counted, or hardly any."""
    done, taken = counted(500, WORK[mode][1], build("kernel-loop"), "-m", mode, "-p", "50",
                          "-t", "2")
    assert least * done <= taken <= least * done + 500


def test_kernel_loop_checks_what_it_reads(build: Build) -> None:
    broken = build("kernel-loop", *userland.CC, "-DCORRUPT_FILE")
    done = run(broken, "-m", "pread", "-S", "0.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(": what was read is not what was written\n")


@pytest.mark.parametrize(("options", "message"), [
    ((), "-m is missing"), (("-m",), "-m needs an argument"),
    (("-m", "x"), "there is no mode 'x'"), (("-m", "mmap", "-S", "0"), "-S needs seconds"),
    (("-m", "mmap", "-t", "0"), "-t needs a whole number from 1 to 4096"),
    (("-m", "fault", "-p", "0"), "-p needs a whole number from 1 to 65536"),
    (("-m", "pread", "more"), "'more' is too much"), (("-q",), "there is no option -q"),
])
def test_kernel_loop_wrong_options(build: Build, options: tuple[str, ...], message: str) -> None:
    done = run(build("kernel-loop"), *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
