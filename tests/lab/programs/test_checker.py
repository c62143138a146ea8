# SPDX-License-Identifier: GPL-2.0-only
"""tlb-checker, and all programs under sanitizers."""

import re
from pathlib import Path

import pytest

from lab.build import userland
from tests.lab.programs.built import LOOPS, WORK, Build, build, figure, good, number, run

__all__ = ["build"]

SANITIZERS = ("address", "thread", "undefined")


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
