# SPDX-License-Identifier: GPL-2.0-only
"""Machines that say what they do: with the firmware lockstep.S, what each CPU took."""

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("lockstep.S")
LIMIT = 60.0
"""Seconds of the machine's own time for what takes less than one on an idle machine."""


@dataclass(frozen=True)
class Spent:
    """What one CPU says."""

    ns: int
    """By its own counter, from before its work until after."""
    found: int
    """Sum of the numbers that it got of the shared counter, modulo 2^32."""


@dataclass(frozen=True)
class Said:
    """What a machine says."""

    ns: int
    """Until all CPUs were done, and the first one saw it."""
    spent: list[Spent]


@dataclass(frozen=True)
class Played:
    """What a machine said, and what the emulator took for it."""

    said: Said
    cpu_s: float
    """Seconds of CPU time of this machine, user's and system's."""


def build(folder: Path, work: str, times: int) -> Path:
    """The firmware for this work, so often, in a folder that keeps it."""
    rom = folder / f"{work}-{times}.bin"
    if not rom.exists():
        assemble(SOURCE, rom, f"-DWORK={work}", f"-DTIMES={times}")
    return rom


def assemble(source: Path, rom: Path, *flags: str) -> None:
    """Make a firmware of any source."""
    made = rom.with_suffix(".o")
    subprocess.run(["gcc", "-m32", "-c", *flags, str(source), "-o", str(made)], check=True)
    subprocess.run(["ld", "-melf_i386", "-Ttext=0", "--oformat=binary", str(made), "-o",
                    str(rom)], check=True)


def play(emulator: Sequence[str], rom: Path, cpus: int, *, icount: str = "lockstep=on,seed=1",
         charges: str = "", limit: float = LIMIT) -> Played:
    """Run a firmware on so many CPUs, in lockstep or as `icount` says."""
    said = rom.with_suffix(".said")
    argv = [*emulator, "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-M", "q35", "-accel", "tcg,thread=single",
            "-icount", f"shift=0,sleep=off,{icount}", "-cpu", f"qemu64,+svm{charges}",
            "-smp", str(cpus), "-m", "16M", "-bios", str(rom), "-serial", f"file:{said}"]
    before = os.times()
    subprocess.run(argv, check=True, timeout=limit)
    after = os.times()
    total, *lines = said.read_text().splitlines()
    spent = [Spent(*(int(word, 16) for word in line.split())) for line in lines]
    return Played(Said(int(total, 16), spent),
                  after.children_user + after.children_system
                  - before.children_user - before.children_system)


def said_until(command: Sequence[str], over: re.Pattern[str], limit_s: float) -> str:
    """What a machine prints until this is in it, or for so many seconds; then it is ended."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    end = threading.Timer(limit_s, child.kill)
    end.start()
    text = ""
    try:
        assert child.stdout is not None
        while not over.search(text) and (some := os.read(child.stdout.fileno(), 4096)):
            text += some.decode(errors="replace")
    finally:
        end.cancel()
        child.kill()
        child.wait()
    return text
