# SPDX-License-Identifier: GPL-2.0-only
"""kvm-unit-tests, built elsewhere: what its unittests.cfg lists, run by QEMU in the KVM host.

KUT=FOLDER names the source folder, in which `make` has been run for x86-64.
"""

import configparser
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.machine.control import Control, Refused
from tests.kernel.suites import Verdict

VARIABLE = "KUT"
FOLDER = "/run/files/x86"
LIST = "unittests.cfg"
QEMU = ("qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-accel", "kvm",
        "-device", "pc-testdev", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x4",
        "-device", "pci-testdev", "-serial", "stdio")
HOW = {1: "pass", 3: "fail", 77 << 1 | 1: "skip"}
"""QEMU's exit status after the program's own, 0, 1 and 77, has come through its device."""
LIMIT_S = 90
"""Unless the list says something else."""


@dataclass(frozen=True)
class Entry:
    """One of the list: a program, and how it is run."""

    name: str
    file: str
    cpus: int
    arguments: tuple[str, ...]
    limit_s: int


def entries(text: str) -> Iterator[Entry]:
    """Those for 64 bits; ValueError for a list that is none."""
    parser = configparser.ConfigParser(interpolation=None, strict=False,
                                       comment_prefixes=("#",), delimiters=("=",))
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(f"{LIST}: {error}") from None
    for name in parser.sections():
        section = parser[name]
        if section.get("arch", "x86_64") != "x86_64" or "file" not in section:
            continue
        cpus = section.get("smp", "1")
        yield Entry(name, section["file"], int(cpus) if cpus.isdecimal() else 2,
                    tuple(shlex.split(section.get("extra_params", ""))),
                    int(section.get("timeout", LIMIT_S) or LIMIT_S))


def command(entry: Entry) -> list[str]:
    """What runs it."""
    return [*QEMU, "-kernel", f"{FOLDER}/{entry.file}", "-smp", str(entry.cpus),
            *entry.arguments]


def run(control: Control, listed: list[Entry], slower: float) -> list[Verdict]:
    """Run them, each for at most `slower` times its limit; HostLost passes through."""
    found = []
    for entry in listed:
        try:
            status, said = control.run(*command(entry), timeout=entry.limit_s * slower)
        except Refused as refusal:
            found.append(Verdict(entry.name, "late", str(refusal)))
            continue
        found.append(Verdict(entry.name, HOW.get(status, "fail"), said.strip()[-300:]))
    return found


def files(folder: Path) -> list[Path]:
    """What is brought into the host: the folder of the programs; ValueError without a list."""
    programs = folder / "x86"
    if not (programs / LIST).is_file():
        raise ValueError(f"{VARIABLE}={folder} has no x86/{LIST}")
    return [programs]
