# SPDX-License-Identifier: GPL-2.0-only
"""Rate of this machine's time stamp counter, which the emulator passes through.

An emulated kernel that measures it itself gets it wrong by 0.1 % when the
emulator has to share its cores, and corrects itself later. KVM keeps the
first figure, finds it out of tolerance, leaves its vCPUs' TSC scaling at zero,
and fires the guests' timers late by the host's whole uptime. So the lab
measures the rate out here, where a disturbed reading is seen and dropped, and
tells the kernel.
"""

import base64
import ctypes
import mmap
import platform
import re
import time
from collections.abc import Callable
from functools import cache

from lab.core.errors import LabError
from lab.core.model import Backend
from lab.machine.control import Control

# lfence; rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_TSC = bytes.fromhex("0faee8" "0f31" "48c1e220" "4809d0" "c3")
SPAN_S = 0.3
TRIES = 200
VIRTUAL_KHZ = 1_000_000
"""In virtual time the counter counts nanoseconds, whatever an instruction takes."""

IN_HOST = f"""
import ctypes, mmap, time
page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("{_READ_TSC.hex()}"))
read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
now = time.monotonic_ns
for _ in range(16):
    print(now(), read(), now())
"""
"""A program for the host: its clock, its counter and its clock again."""
SAMPLE = re.compile(r"(\d{1,18}) (\d{1,18}) (\d{1,18})", re.ASCII)

Sample = tuple[int, int]
"""Nanoseconds and counter, read together."""


def _reader() -> Callable[[], int]:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_READ_TSC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    function = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)
    function.page = page  # type: ignore[attr-defined]  # lives as long as the function
    return function


def best(samples: list[tuple[int, int, int]]) -> Sample:
    """The least disturbed of (ns before, counter, ns after)."""
    before, count, after = min(samples, key=lambda sample: sample[2] - sample[0])
    return (before + after) // 2, count


def rate(first: Sample, second: Sample) -> int:
    """kHz between two samples."""
    return round((second[1] - first[1]) * 1_000_000 / (second[0] - first[0]))


@cache
def khz() -> int:
    """The counter's rate in kHz, good to a few parts in a million; 0 when unknown."""
    if platform.machine() != "x86_64":
        return 0
    try:
        read = _reader()
    except (OSError, ValueError):
        return 0
    now = time.monotonic_ns
    first = best([(now(), read(), now()) for _ in range(TRIES)])
    time.sleep(SPAN_S)
    return rate(first, best([(now(), read(), now()) for _ in range(TRIES)]))


def kernel_arguments(backend: Backend) -> tuple[str, ...]:
    """What the host's kernel is told of the rate, if it runs in the emulator."""
    if backend == "vt":
        return (f"tsc_early_khz={VIRTUAL_KHZ}",)
    known = khz() if backend == "tcg" else 0
    return (f"tsc_early_khz={known}",) if known else ()


def ahead_ns(control: Control) -> int:
    """How far the counter of a host in virtual time is ahead of its clock; LabError if unknown."""
    answer = control.call("exec", argv=["python3", "-c", IN_HOST], timeout=60)
    said = base64.b64decode(answer["out"]).decode(errors="replace")
    samples = [(int(one[1]), int(one[2]), int(one[3]))
               for line in said.splitlines() if (one := SAMPLE.fullmatch(line))]
    if not samples:
        raise LabError(f"the host does not say its time: {said.strip()[:100] or 'nothing'}")
    clock, count = best(samples)
    return count - clock
