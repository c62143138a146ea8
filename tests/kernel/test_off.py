# SPDX-License-Identifier: GPL-2.0-only
"""Switched off in Kconfig, the functions that our hooks touch are the base's code."""

import re
import subprocess
from pathlib import Path

import pytest

from lab import kernel

OBJECTS = (
    "kernel/locking/spinlock.o",
    "kernel/locking/qspinlock.o",
    "kernel/locking/qrwlock.o",
    "lib/lockref.o",
    "arch/x86/kernel/hpet.o",
    "arch/x86/kernel/kvm.o",
    "kernel/sched/core.o",
)
"""Every user of the operations behind a hook: lock, trylock, is_locked, value_unlocked."""


def disassembly(path: Path) -> str:
    """Instructions and relocations, without the file's name."""
    done = subprocess.run(
        ["objdump", "--disassemble", "--reloc", "--no-show-raw-insn", str(path)],
        capture_output=True, text=True, check=True,
    )
    text = re.sub(r"^.*file format.*$", "", done.stdout, flags=re.MULTILINE)
    assert text.count("\n") > 50, f"{path} has no code"
    return text


@pytest.fixture(scope="module")
def folders() -> dict[str, Path]:
    """Build folders of the variants, with OBJECTS in them."""
    return {name: kernel.objects(name, OBJECTS) for name in ("stock", "off", "test")}


@pytest.mark.parametrize("name", OBJECTS)
def test_off_is_the_base(folders: dict[str, Path], name: str) -> None:
    assert disassembly(folders["off"] / name) == disassembly(folders["stock"] / name)


def test_the_comparison_sees_a_difference(folders: dict[str, Path]) -> None:
    """With the counters in, the lock functions do differ from the base's."""
    name = OBJECTS[0]
    assert disassembly(folders["test"] / name) != disassembly(folders["stock"] / name)
