# SPDX-License-Identifier: GPL-2.0-only
"""ebizzy-like, cpu-burn, data-guard and dedup-like; the options of vm-memory-*."""

import os
import re
import resource
from pathlib import Path

import pytest

from lab.build import userland
from tests.lab.programs.built import Build, build, figure, good, number, run, shell

__all__ = ["build"]


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


def test_dedup_passes_take_time(build: Build) -> None:
    program = build("dedup-like")

    def spent(passes: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        good(program, "-t", "1", "-c", "500", "-w", passes)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert spent("4000") > 10 * max(spent("1"), 0.01)


def test_dedup_finds_a_changed_chunk(build: Build) -> None:
    done = run(build("dedup-like", *userland.CC, "-DCORRUPT_CHUNK"), "-c", "100")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r": chunk \d+ changed before it was written\n$", done.stderr)


@pytest.mark.parametrize(("options", "message"), [
    (("-c", "0"), "-c needs a whole number from 1"), (("-s", "31"), "-s needs a whole number from"),
    (("-t", "0"), "-t needs a whole number from 1"), (("-w", "0"), "-w needs a whole number"),
    (("-x",), "there is no option -x"),
    (("-s", "4194304", "-t", "99"), "are more than 1024 MiB"), (("more",), "'more' is too much"),
])
def test_dedup_wrong_options(build: Build, options: tuple[str, ...], message: str) -> None:
    done = run(build("dedup-like"), *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
