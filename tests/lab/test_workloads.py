# SPDX-License-Identifier: GPL-2.0-only
"""The workloads of our own: their programs, built and run here, and their figures."""

import os
import re
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.build import userland
from lab.core import paths
from lab.core.model import Experiment, Workload
from lab.plan import config
from lab.run import parse
from tests.binaries import fixed_layout

OWN = re.compile(rf"/{userland.INSIDE}/bin/([\w-]+)")
SANITIZERS = ("address", "thread", "undefined")
LIMIT = 60.0
"""Seconds for what takes a few on an idle machine."""

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds a program as the lab does, or with other flags; each kind once."""
    folder = tmp_path_factory.mktemp("programs")

    def program(name: str, *flags: str) -> Path:
        target = folder / "".join((name, *flags)).replace("/", "")
        if not target.exists():
            command = [*(flags or userland.CC), "-Wextra", "-Werror", "-o", str(target),
                       str(userland.PROGRAMS / f"{name}.c"), "-lm"]
            subprocess.run(command, check=True)
        return target

    return program


def run(program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*fixed_layout(), str(program), *options], capture_output=True,
                          text=True, timeout=60, check=False)


def good(program: Path, *options: str) -> str:
    done = run(program, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def number(output: str, name: str) -> float:
    found = re.findall(rf"(?m)^{re.escape(name)}: ([0-9.]+)(?: s)?$", output)
    assert len(found) == 1, output
    return float(found[0])


def figure(workload: str, output: str) -> float | None:
    return parse.figure(config.workloads()[workload], output, None).value


def test_commands_and_packages_are_in_the_guests() -> None:
    workloads = config.workloads().values()
    tests = (paths.ROOT / "tests" / "kernel").glob("*.py")
    commands = [*(workload.command for workload in workloads), *(t.read_text() for t in tests)]
    named = {name for command in commands for name in OWN.findall(command)}
    assert named == {file.stem for file in userland.PROGRAMS.glob("*.c")} != set()
    # What applications need is in guests of experiments that run them, not in all guests.
    special = {load.name for load in config.experiments()["applications"].workloads}
    packages = {name for workload in workloads if workload.name not in special
                for name in workload.packages}
    assert packages == set(userland.GUEST_PACKAGES)


# ebizzy-like

def test_ebizzy_fixed_work(build: Build) -> None:
    output = good(build("ebizzy-like"), "-r", "25", "-t", "3")
    assert number(output, "records") == 75
    seconds = number(output, "time")
    assert number(output, "records/s") == pytest.approx(75 / seconds, rel=0.5)
    assert figure("ebizzy-like", output) == seconds


def test_ebizzy_fixed_time(build: Build) -> None:
    output = good(build("ebizzy-like"), "-S", "0.2", "-t", "2")
    elapsed = number(output, "records") / number(output, "records/s")
    assert 0.2 <= elapsed * 1.01 < 10
    assert "time:" not in output


def test_ebizzy_default_threads_are_two_a_cpu(build: Build) -> None:
    output = good(build("ebizzy-like"), "-r", "1")
    assert number(output, "records") == 2 * (os.cpu_count() or 1)


@pytest.mark.parametrize("options", [("-M",), ("-m",), ("-s", "8"), ("-s", "5001", "-n", "3"),
                                     ("-t", "1", "-n", "1")])
def test_ebizzy_forms(build: Build, options: tuple[str, ...]) -> None:
    assert number(good(build("ebizzy-like"), "-r", "20", *options), "records") > 0


def faults(program: Path, *options: str) -> int:
    """Page faults of a run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    good(program, *options)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before


def test_ebizzy_faults_every_page_of_every_record_in(build: Build) -> None:
    options = ("-t", "2", "-r", "50", "-n", "2", "-s", str(512 << 10))
    mapped = faults(build("ebizzy-like"), *options)
    assert mapped >= 100 * (512 << 10) // os.sysconf("SC_PAGE_SIZE")
    assert faults(build("ebizzy-like"), "-M", *options) < mapped / 10


def test_ebizzy_gives_its_memory_back(build: Build) -> None:
    """By default 8 threads stay far below a guest's 256 MiB; here they copy 500 MiB."""
    command = f"ulimit -v $((128 << 10)) && {build('ebizzy-like')} -t 8 -r 500"
    done = shell(command)
    assert (done.returncode, done.stderr) == (0, "")
    assert number(done.stdout, "records") == 4000


def test_ebizzy_finds_a_corrupted_key(build: Build) -> None:
    broken = build("ebizzy-like", *userland.CC, "-DCORRUPT_KEY")
    for options in (("-r", "400"), ("-S", "5"), ("-r", "400", "-M", "-n", "1", "-s", "64")):
        done = run(broken, *options)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.search(r": key \d+ of chunk \d+ was not found at its place\n$", done.stderr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-S", "0"), "-S needs seconds from 0.01 to 3600, not '0'"),
        (("-S", "nan"), "-S needs seconds"),
        (("-S",), "-S needs an argument; options: [-S SECONDS | -r RECORDS]"),
        (("-r", "0"), "-r needs a whole number from 1 to 1000000000, not '0'"),
        (("-r", "-1"), "-r needs a whole number"),
        (("-r", "9" * 30), "-r needs a whole number"),
        (("-t", "1025"), "-t needs a whole number from 1 to 1024, not '1025'"),
        (("-t", ""), "-t needs a whole number"),
        (("-t", "+2"), "-t needs a whole number"),
        (("-n", "2x"), "-n needs a whole number from 1 to 65536, not '2x'"),
        (("-s", "7"), "-s needs a whole number from 8 to 16777216, not '7'"),
        (("-n", "63", "-s", "16777216", "-t", "2"), "are more than 1024 MiB"),
        (("-S", "1", "-r", "1"), "give -S or -r, not both"),
        (("-m", "-M"), "give -m or -M, not both"),
        (("-x",), "there is no option -x; options: [-S"),
        (("more",), "'more' is too much; options: [-S"),
    ],
)
def test_ebizzy_wrong_options(build: Build, options: tuple[str, ...], message: str) -> None:
    done = run(build("ebizzy-like"), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ebizzy-like: ") and message in done.stderr
    assert done.stderr.count("\n") == 1


# cpu-burn

def test_cpu_burn_counts_the_work_of_the_time(build: Build) -> None:
    output = good(build("cpu-burn"), "-S", "0.25")
    iterations, rate = number(output, "iterations"), number(output, "iterations/s")
    assert rate == pytest.approx(iterations / 0.25, rel=1e-6)
    assert figure("cpu-burn", output) == rate
    assert number(good(build("cpu-burn"), "-S", "0.25", "-t", "1"), "iterations") > 1e6


def test_cpu_burn_wrong_options(build: Build) -> None:
    for options in (("-S", "x"), ("-t", "0"), ("-q",), ("more",)):
        done = run(build("cpu-burn"), *options)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# data-guard

def test_guard_reads_all_of_it(build: Build) -> None:
    output = good(build("data-guard"), "-S", "0.3", "-m", "8")
    assert "guarded: 8 MiB\n" in output
    assert figure("data-beside-hostile", output) == number_per_s(output)
    assert figure("data-beside-hostile", good(build("data-guard"), "-S", "0.1", "-t", "3"))


def number_per_s(output: str) -> float:
    (value,) = re.findall(r"(?m)^checked: ([0-9.]+) MiB/s$", output)
    assert float(value) > 8
    return float(value)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_guard_finds_one_bit(build: Build, threads: str) -> None:
    broken = build("data-guard", *userland.CC, "-DCORRUPT")
    done = run(broken, "-S", "5", "-m", "4", "-t", threads)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r": word \d+ of thread \d is 0x\w+, not 0x\w+\n$", done.stderr)


@pytest.mark.parametrize(("field", "wrong"), [("lock 1", "lock 23130"),
                                              ("borrowed 0", "borrowed 4294967295")])
def test_guard_finds_records_that_cannot_be(
    build: Build, tmp_path: Path, field: str, wrong: str
) -> None:
    records = tmp_path / "ecs"
    text = "".join(f"cpu {cpu} lock 1 read 0 preempted 0 borrowed 0\n" for cpu in (0, 1, 999))
    records.write_text(text)
    good(build("data-guard"), "-S", "0.1", "-m", "2", "-r", str(records))
    records.write_text(text + text.replace(field, wrong))
    done = run(build("data-guard"), "-S", "5", "-m", "2", "-r", str(records))
    assert done.returncode == 1 and f"a record says {wrong}: cpu 0 lock" in done.stderr


def test_guard_wrong_options(build: Build) -> None:
    for options in (("-S", "x"), ("-t", "0"), ("-m", "0"), ("-q",), ("more",)):
        done = run(build("data-guard"), *options)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# vm-memory-check, vm-memory-storm, vm-shootdown-check: tests/kernel/test_memory.py runs them

def test_vm_memory_wrong_options(build: Build) -> None:
    for name, options in (("vm-memory-check", ("more",)), ("vm-memory-storm", ("-v", "9")),
                          ("vm-memory-storm", ("-s", "0")), ("vm-memory-storm", ("-q",)),
                          ("vm-shootdown-check", ("more",))):
        done = run(build(name), *options)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# dedup-like

def test_dedup_fixed_work(build: Build) -> None:
    output = good(build("dedup-like"), "-c", "500")
    assert number(output, "chunks") == 500
    assert 0.1 < number(output, "duplicates") / 500 < 0.3
    assert figure("dedup-like", output) == number(output, "time")
    assert figure("dedup-beside-burn", output) == number(output, "time")


@pytest.mark.parametrize("options", [("-c", "1"), ("-c", "33", "-t", "1"), ("-s", "32"),
                                     ("-s", "5001"), ("-t", "9", "-s", "200000", "-c", "60")])
def test_dedup_forms(build: Build, options: tuple[str, ...]) -> None:
    runs = {good(build("dedup-like"), "-c", "300", *options).rpartition("time")[0]
            for _ in range(3)}
    assert len(runs) == 1, "the same chunks are duplicates each time"


def test_dedup_maps_and_unmaps_every_chunk(build: Build) -> None:
    """All chunks have 500 MiB, and a page fault for each page that is filled."""
    options = ("-t", "2", "-c", "8000", "-s", str(64 << 10))
    done = shell(f"ulimit -v $((192 << 10)) && {build('dedup-like')} {' '.join(options)}")
    assert (done.returncode, done.stderr) == (0, "")
    assert faults(build("dedup-like"), *options) > 8000 * 16


def test_dedup_finds_a_changed_chunk(build: Build) -> None:
    done = run(build("dedup-like", *userland.CC, "-DCORRUPT_CHUNK"), "-c", "100")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r": chunk \d+ changed before it was written\n$", done.stderr)


@pytest.mark.parametrize(("options", "message"), [
    (("-c", "0"), "-c needs a whole number from 1"), (("-s", "31"), "-s needs a whole number from"),
    (("-t", "0"), "-t needs a whole number from 1"), (("-x",), "there is no option -x"),
    (("-s", "4194304", "-t", "99"), "are more than 1024 MiB"), (("more",), "'more' is too much"),
])
def test_dedup_wrong_options(build: Build, options: tuple[str, ...], message: str) -> None:
    done = run(build("dedup-like"), *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


# tlb-loop

LOOPS = ("munmap", "mprotect", "madvise", "fork")


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

WORK = {"mmap": ("mmap-writer", "mappings"), "fault": ("fault-reader", "faults"),
        "pread": ("pread-loop", "reads")}


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


# tlb-checker

VARIANTS = ("swap", "unmap", "mremap", "mprotect", "dontneed")
SIZES = ("1", "8", "64", "512")


def test_checker_finds_nothing_here(build: Build) -> None:
    output = good(build("tlb-checker"), "-S", "2")
    remaps, probes = re.findall(r"(?m)^checked: (\d+) remaps, (\d+) probes$", output)[0]
    assert int(remaps) >= len(VARIANTS) * len(SIZES) * 16 and int(probes) > 1000
    rate = number(output, "remaps/s")
    assert 1.9 < int(remaps) / rate < 60
    for workload in ("tlb-checker", "tlb-checker-long"):
        assert figure(workload, output) == rate
        assert figure(workload, output.replace(f"{probes} probes", "0 probes")) is None


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("threads", ["2", "5"])
def test_checker_forms(build: Build, variant: str, threads: str) -> None:
    for pages in ("3", "512"):
        good(build("tlb-checker"), "-S", "0.1", "-v", variant, "-p", pages, "-t", threads)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_checker_finds_flushes_that_come_too_late(build: Build, variant: str, size: str) -> None:
    done = run(build("tlb-checker", *userland.CC, "-DPUBLISH_EARLY"), "-S", "30", "-v", variant,
               "-p", size)
    assert (done.returncode, done.stdout) == (1, "")
    what = "stored" if variant == "mprotect" else "(read|stored)"
    assert re.fullmatch(rf"\S+: stale translation \({variant}, {size} pages\): CPU \d+ {what} in"
                        r" generation \d+ [^\n]+\n", done.stderr)


THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
needs_huge_pages = pytest.mark.skipif(not THP.exists() or "[never]" in THP.read_text(),
                                      reason="this kernel has no huge pages for who asks")


def split_huge_pages() -> int:
    """Entries of huge pages that this machine has split so far."""
    lines = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(lines["thp_split_pmd"])


@needs_huge_pages
@pytest.mark.parametrize("variant", VARIANTS)
def test_checker_of_huge_pages(build: Build, variant: str) -> None:
    """What takes a part of one away splits its entry."""
    before = split_huge_pages()
    for pages in ("8", "512"):
        good(build("tlb-checker"), "-H", "-S", "0.5", "-v", variant, "-p", pages)
    assert split_huge_pages() > before or variant == "swap"


@needs_huge_pages
@pytest.mark.parametrize("size", ("8", "512"))
@pytest.mark.parametrize("variant", VARIANTS)
def test_checker_finds_late_flushes_of_huge_pages(build: Build, variant: str, size: str) -> None:
    done = run(build("tlb-checker", *userland.CC, "-DPUBLISH_EARLY"), "-H", "-S", "30",
               "-v", variant, "-p", size)
    assert (done.returncode, done.stdout) == (1, "")
    assert f": stale translation ({variant}, {size} pages): CPU " in done.stderr


@pytest.mark.parametrize(("flag", "word"), [("-DNO_LOADS", "stored"), ("-DNO_STORES", "read")])
@pytest.mark.parametrize("variant", ("swap", "unmap", "mremap"))
def test_checker_finds_either_kind_alone(
    build: Build, variant: str, flag: str, word: str
) -> None:
    flags = (*userland.CC, "-DPUBLISH_EARLY", flag)
    done = run(build("tlb-checker", *flags), "-S", "30", "-v", variant, "-p", "1")
    assert done.returncode == 1 and f" {word} in generation " in done.stderr


@pytest.mark.parametrize(("options", "message"), [
    (("-S", "0"), "-S needs seconds"), (("-v", "x"), "there is no variant 'x': swap, unmap"),
    (("-p", "513"), "-p needs a whole number from 1 to 512"), (("-t", "1"), "from 2 to 500"),
    (("-q",), "there is no option -q"), (("more",), "'more' is too much"),
])
def test_checker_wrong_options(build: Build, options: tuple[str, ...], message: str) -> None:
    done = run(build("tlb-checker"), *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_programs_under_sanitizers(build: Build, sanitizer: str) -> None:
    flags = ("gcc", "-O1", "-pthread", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    good(build("ebizzy-like", *flags), "-r", "20", "-t", "4")
    good(build("ebizzy-like", *flags), "-S", "0.05", "-t", "4", "-M")
    good(build("cpu-burn", *flags), "-S", "0.05", "-t", "2")
    good(build("data-guard", *flags), "-S", "0.05", "-t", "2", "-m", "2")
    good(build("dedup-like", *flags), "-c", "200", "-t", "3")
    for mode in LOOPS:
        good(build("tlb-loop", *flags), "-m", mode, "-S", "0.05")
    for mode in WORK:
        good(build("kernel-loop", *flags), "-m", mode, "-S", "0.05", "-t", "3")
    if sanitizer != "thread":   # to which mmap() over memory in use is a race, as is meant here
        good(build("tlb-checker", *flags), "-S", "0.2", "-t", "3")


# parallel-compile

@pytest.fixture
def compile_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """parallel-compile of three sources in a folder of the test, with gcc for tcc."""
    compiler = tmp_path / "bin/tcc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\nexec gcc -O0 "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    text = (config.WORKLOADS / "parallel-compile.toml").read_text()
    for old, new in (("/tmp/parallel-compile", f"{tmp_path}/build"), ("files = 24", "files = 2")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "parallel-compile.toml").write_text(text)
    workload = config.workloads(tmp_path)["parallel-compile"]
    assert shell(workload.setup).returncode == 0
    return workload


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120,
                          check=False)


def test_compile_is_clean_each_time(compile_here: Workload, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    for _ in range(2):
        done = shell(compile_here.command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    objects = {file.name for file in (folder / "build").iterdir()}
    assert objects == {"main.o", "part0.o", "part1.o", "program"}
    (folder / "build/part0.o").write_text("left over")
    assert shell(compile_here.command).returncode == 0


def test_compile_checks_what_it_built(compile_here: Workload, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    source = folder / "part1.c"
    right = source.read_text()
    source.write_text(right.replace("STEP2_1", "STEP2_2"))
    done = shell(compile_here.command)
    answer = (folder / "answer").read_text().strip()
    assert done.returncode == 1
    assert re.fullmatch(rf"the program says '\d+', not {answer}\n", done.stdout)
    source.write_text(right + "nonsense\n")
    done = shell(compile_here.command)
    assert done.returncode == 1 and "nonsense" in done.stderr
    source.write_text(right)
    assert shell(compile_here.command).returncode == 0


def test_compile_setup_gives_the_same_sources(compile_here: Workload, tmp_path: Path) -> None:
    def sources() -> dict[str, bytes]:
        files = [f for f in (tmp_path / "build").rglob("*") if f.is_file()]
        return {str(file.relative_to(tmp_path)): file.read_bytes() for file in files}

    first = sources()
    assert shell(compile_here.command).returncode == 0
    assert shell(compile_here.setup).returncode == 0
    assert sources() == first


# web-server

DATA = Path(__file__).parent / "data"


@pytest.fixture
def web_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """web-server in a folder of the test; its programs only note how they were called."""
    (tmp_path / "bin").mkdir()
    for name, script in (("ip", ""), ("apache2", f"echo it is broken >>{tmp_path}/web/errors\n"),
                         ("wrk", f"cat {tmp_path}/said\n")):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/called\n{script}')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    text = (config.WORKLOADS / "web-server.toml").read_text()
    for old, new in (("/tmp/web-server", f"{tmp_path}/web"),
                     ("/sys/fs/cgroup/cgroup.procs", f"{tmp_path}/procs")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "web-server.toml").write_text(text)
    return config.workloads(tmp_path)["web-server"]


def test_web_server_is_set_up(web_here: Workload, tmp_path: Path) -> None:
    (tmp_path / "said").write_text((DATA / "wrk.out").read_text())
    assert shell(web_here.setup).returncode == 0
    called = (tmp_path / "called").read_text().splitlines()
    assert called[:2] == ["ip link set lo up", f"apache2 -f {tmp_path}/web/config -k start"]
    assert len(called) == 3
    assert len((tmp_path / "web/pages/page").read_bytes()) == 300
    assert (tmp_path / "procs").read_text().strip().isdecimal()
    listed = (tmp_path / "web/config").read_text().split()
    assert f"{tmp_path}/web/pages" in listed and "127.0.0.1:80" in listed
    done = shell(web_here.command)
    assert figure("web-server", done.stdout) == 24819.98
    cpus = len(os.sched_getaffinity(0))
    assert (tmp_path / "called").read_text().splitlines()[3] == (
        f"wrk -t {cpus} -c {4 * cpus} -d 4s --timeout 20s http://127.0.0.1:80/page")


def test_web_server_leaves_memory_for_wrk() -> None:
    web = config.workloads()["web-server"]
    seconds = re.findall(r"wrk .* --timeout (\d+)s ", web.setup + web.command)
    assert len(seconds) == 2
    # 8 bytes for each microsecond, and the kernel refuses what is more than a guest has.
    assert all(8 * int(one) * 10**6 < 0.75 * Experiment.guest_mem * 2**20 for one in seconds)


@pytest.mark.parametrize("said", ["wrk-errors.out", "wrk-refused.out"])
def test_web_server_that_does_not_serve(web_here: Workload, tmp_path: Path, said: str) -> None:
    (tmp_path / "said").write_text((DATA / said).read_text())
    done = shell(web_here.setup)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "it is broken"
    assert lines[1:] == (DATA / said).read_text().splitlines()[-4:]
    assert (tmp_path / "called").read_text().count("wrk ") == 30


def test_web_server_without_a_device(web_here: Workload, tmp_path: Path) -> None:
    (tmp_path / "bin/ip").write_text("#!/bin/sh\necho no such device >&2; exit 2\n")
    done = shell(web_here.setup)
    assert (done.returncode, done.stderr) == (2, "no such device\n")
    assert not (tmp_path / "called").exists()
