# SPDX-License-Identifier: GPL-2.0-only
"""Switched off in Kconfig, the functions that our hooks touch are the base's code.

So are critical sections of a kernel whose host reads what it keeps anyway.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from lab.build import kernel

OBJECTS = (
    "kernel/locking/spinlock.o",
    "kernel/locking/qspinlock.o",
    "kernel/locking/qrwlock.o",
    "lib/lockref.o",
    "arch/x86/kernel/hpet.o",
    "arch/x86/kernel/kvm.o",
    "arch/x86/mm/tlb.o",
    "kernel/locking/mutex.o",
    "kernel/locking/rwsem.o",
    "kernel/rcu/tree.o",
    "kernel/softirq.o",
    "kernel/smp.o",
    "kernel/sched/core.o",
    "kernel/sched/fair.o",
)
"""Files with a hook, and users of every operation behind one: lock, trylock, is_locked,
value_unlocked."""
KVM = "arch/x86/kvm/"
KVM_OBJECTS = (
    "arch/x86/kvm/x86.o",
    "arch/x86/kvm/debugfs.o",
    "arch/x86/kvm/svm/svm.o",
    "arch/x86/kvm/vmx/vmx.o",
    "virt/kvm/kvm_main.o",
)
"""The same, in a folder that can only be built as a whole."""

HOOKED = (OBJECTS[0], OBJECTS[2], "arch/x86/mm/tlb.o", *OBJECTS[-7:], *KVM_OBJECTS)
"""Those of them that differ when switched on."""

OURS = "kernel/pvsync/"
"""Ours in a kernel that counts neither sections nor locks; that it compiles is what is asked."""

SECTIONS = (*OBJECTS[:2], "lib/lockref.o", "kernel/locking/mutex.o", "kernel/locking/rwsem.o",
            "kernel/rcu/tree.o", "kernel/softirq.o")
"""Where critical sections begin and end: the same code with pvsync.ecs=free, as it is read.

qrwlock.o has none: it is where rwlocks are waited for, which is told in both forms.
"""


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
    """Build folders of the variants, with all objects in them."""
    made = {name: kernel.objects(name, (*OBJECTS, KVM)) for name in ("stock", "off", "test")}
    return made | {"free": kernel.objects("free", (*SECTIONS, OURS))}


@pytest.mark.parametrize("name", OBJECTS + KVM_OBJECTS)
def test_off_is_the_base(folders: dict[str, Path], name: str) -> None:
    assert disassembly(folders["off"] / name) == disassembly(folders["stock"] / name)


@pytest.mark.parametrize("name", SECTIONS)
def test_free_adds_no_instruction(folders: dict[str, Path], name: str) -> None:
    """With pvsync.ecs=free sections are what they were; HOOKED shows that counting is seen."""
    assert disassembly(folders["free"] / name) == disassembly(folders["stock"] / name)


@pytest.mark.parametrize("name", HOOKED)
def test_the_comparison_sees_a_difference(folders: dict[str, Path], name: str) -> None:
    """With pvsync in, the functions with a hook do differ from the base's."""
    assert disassembly(folders["test"] / name) != disassembly(folders["stock"] / name)


OF_REGISTERS = re.compile(r"(?!__SCK__|pvsync_)\w*(get_(cpl|if_flag|r?flags|exit_info|segment\w*|"
                          r"cs_db_l_bits|linear_rip|ip)|cache_reg|in_kernel|is_64_bit_mode)")
"""Functions of KVM, and its static calls, that read registers and may keep a copy."""
REGISTERS = {"regs.o": {"get_cpl", "get_if_flag", "get_exit_info", "in_kernel"},
             "tlb.o": {"get_cs_db_l_bits"}, "friebel.o": {"preempted_in_kernel"}}
"""The objects that may take some of them. tlb.c asks in a hypercall, where nothing is half done;
friebel.c reads what KVM has noted of other vCPUs."""


def symbols(paths: Iterable[Path], *options: str) -> set[str]:
    """Names that `nm` tells of object files."""
    done = subprocess.run(["nm", "--format=just-symbols", *options, *map(str, paths)],
                          capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if not name.endswith(":")}


def unexported(folder: Path, exported: set[str]) -> set[str]:
    """What KVM's objects take from the rest of the kernel, and a module could not."""
    objects = [*folder.glob("arch/x86/kvm/**/*.o"), *folder.glob("virt/**/*.o")]
    taken = symbols(objects, "--undefined-only") - symbols(objects, "--defined-only")
    assert len(taken) > 300, f"{folder} has too few objects of KVM"
    return taken - exported


def test_kvm_may_be_a_module(folders: dict[str, Path]) -> None:
    """KVM takes nothing that is not exported but what stock's takes only when built in."""
    marks = symbols([kernel.build("test").vmlinux])
    exported = {name.removeprefix("__ksymtab_") for name in marks if name.startswith("__ksymtab_")}
    assert unexported(folders["test"], exported) <= unexported(folders["stock"], exported)


def test_registers_are_read_in_one_place() -> None:
    """A read where a thread is preempted must leave no copy behind: see regs.c."""
    folder = kernel.objects("test", (KVM,)) / KVM / "pvsync"
    found = {}
    for path in folder.glob("*.o"):
        taken = symbols([path], "--undefined-only")
        if some := set(filter(OF_REGISTERS.fullmatch, taken)):
            found[path.name] = some
    assert found.keys() == REGISTERS.keys(), found
    for name, taken in found.items():
        assert all(any(one.endswith(allowed) for allowed in REGISTERS[name])
                   for one in taken), (name, taken)
