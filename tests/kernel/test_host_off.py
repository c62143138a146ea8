# SPDX-License-Identifier: GPL-2.0-only
"""Instructions of a host that nobody has asked for anything: stock, and with pvsync but off.

Too much state is behind the functions of a wake-up, of a switch of a vCPU and of a PAUSE exit
to run them, as test_uncontended.py does with others. But with all keys off a branch behind one
is a no-op, and what it leads to is out of reach. So all instructions that can be reached are
counted: no path has more of them on top of stock's than all paths together. -s shows the
table of docs/results/off.md.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.build import kernel
from tests.kernel.test_uncontended import sites

CORE, MAIN = "kernel/sched/core.o", "virt/kvm/kvm_main.o"
X86, SVM, VMX = (f"arch/x86/kvm/{name}.o" for name in ("x86", "svm/svm", "vmx/vmx"))


class Added(NamedTuple):
    """What all paths of a function may have on top of stock's."""

    noops: int
    """Exactly so many."""
    others: int = 0
    """At most so many: registers that the compiler saves or moves, jumps that it turns round."""


PATHS = {
    "a wake-up": {(CORE, "try_to_wake_up"): Added(2)},
    "a switch of a vCPU": {
        (X86, "kvm_arch_vcpu_load"): Added(1, 1),
        (X86, "kvm_arch_vcpu_put"): Added(1, 1),
        (SVM, "svm_vcpu_load"): Added(1),
        (VMX, "vmx_vcpu_load"): Added(1),
    },
    "a PAUSE exit": {
        (SVM, "pause_interception"): Added(1),
        (VMX, "handle_pause"): Added(1),
        (MAIN, "kvm_vcpu_on_spin"): Added(1),
        (MAIN, "kvm_vcpu_yield_to"): Added(1),
    },
}
"""In kvm_vcpu_on_spin() it is one for each vCPU that is looked at."""
FUNCTIONS = {one: added for functions in PATHS.values() for one, added in functions.items()}
OBJECTS = (CORE, MAIN, X86, SVM, VMX)
KVM_SITES = {X86: 2, SVM: 2, VMX: 2, MAIN: 2}
"""Branches on the host's key, all of them in FUNCTIONS."""
ALWAYS = {"pvsync_assert_flushed", "pvsync_settle_exit", "pvsync_init_vm", "pvsync_destroy_vm",
          "pvsync_ecs_forget", "pvsync_flush_tlb",
          "pvsync_hypercall", "pvsync_create_vm_debugfs", "pvsync_check_extension",
          "pvsync_enable_cap", "pvsync_get_msr", "pvsync_set_msr"}
"""What KVM calls of pvsync whether it is off or not: as a VM or vCPU comes or goes, for pvsync's
own hypercalls, for a request that follows from one, and for capabilities and MSRs that KVM does
not know."""

STEP = re.compile(r" *([0-9a-f]+):\t(.*)")
NOOP = re.compile(r"nop[lw]?\b|xchg +%ax,%ax|data16 (?:cs )?nopw|cs nopw")
JUMP = re.compile(r"(j\w+) +([0-9a-f]+) <")
BRANCH = re.compile(r"([0-9a-f]*0) R_X86_64_PC32 +\.text\+0x([0-9a-f]+)")
"""Where a branch on a key is: the first word of each 16 bytes of the table of these."""


class Step(NamedTuple):
    """An instruction of a function."""

    text: str
    moved: bool
    """It has a relocation: a jump then leads out of the function's section."""


def steps(path: Path, function: str) -> dict[int, Step]:
    """Address to instruction."""
    done = subprocess.run(
        ["objdump", "--disassemble=" + function, "--reloc", "--no-show-raw-insn", str(path)],
        capture_output=True, text=True, check=True)
    found: dict[int, Step] = {}
    last = 0
    for line in done.stdout.splitlines():
        if step := STEP.fullmatch(line):
            last = int(step[1], 16)
            found[last] = Step(step[2].strip(), False)
        elif line.startswith("\t\t\t") and found:
            found[last] = found[last]._replace(moved=True)
    assert len(found) > 5, f"{path} has no {function}"
    return found


def follow(code: dict[int, Step], start: int) -> Iterator[Step]:
    """The instructions that can be reached from the first one, branches of keys being no-ops."""
    after = dict(zip(code, [*list(code)[1:], -1], strict=True))
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        at = waiting.pop()
        if at in seen or at not in code:
            continue
        seen.add(at)
        step = code[at]
        yield step
        jump = JUMP.match(step.text)
        assert jump or not step.text.startswith("j"), f"a jump to wherever: {step.text}"
        if jump and not step.moved:
            waiting.append(int(jump[2], 16))
        if not re.match(r"(jmp|ret|repz ret)\b", step.text):
            waiting.append(after[at])


def off(path: Path, code: dict[int, Step]) -> dict[int, Step]:
    """The code with a no-op for each branch on a key.

    The compiler writes jumps there, and objtool makes no-ops of them in most objects before they
    are linked, and of the others' after that.
    """
    done = subprocess.run(["objdump", "--reloc", "--section=__jump_table", str(path)],
                          capture_output=True, text=True, check=True)
    places = {int(found[2], 16) for found in BRANCH.finditer(done.stdout)}
    return {at: Step("nop", False) if at in places and step.text.startswith("jmp") else step
            for at, step in code.items()}


def counts(path: Path, function: str) -> tuple[int, int]:
    """Instructions that can be reached, and how many of them are no-ops in a key's place."""
    code = off(path, steps(path, function))
    reached = list(follow(code, min(code)))
    return len(reached), sum(bool(NOOP.match(step.text)) for step in reached)


@pytest.fixture(scope="module")
def folders() -> dict[str, Path]:
    """Build folders of the base and of pvsync."""
    return {name: kernel.objects(name, OBJECTS) for name in ("stock", "test")}


@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_off_is_a_no_op(folders: dict[str, Path], name: str, function: str) -> None:
    (base, before), (off, after) = (counts(folders[which] / name, function)
                                    for which in ("stock", "test"))
    path = next(path for path, functions in PATHS.items() if (name, function) in functions)
    print(f"| {path} | `{function}` | {base} | {off} | {after - before} |")
    added = FUNCTIONS[name, function]
    assert after - before == added.noops
    assert off - base - added.noops <= added.others


@pytest.mark.parametrize("name", KVM_SITES)
def test_kvm_asks_one_key(folders: dict[str, Path], name: str) -> None:
    """And calls nothing of pvsync where it does not."""
    assert sites(folders["test"] / name) == {"pvsync_vcpus_key": KVM_SITES[name]}
    done = subprocess.run(["nm", "--undefined-only", "--format=just-symbols",
                           folders["test"] / name], capture_output=True, text=True, check=True)
    taken = {one for one in done.stdout.split() if one.startswith("pvsync_")}
    assert taken <= {"pvsync_vcpus_key", *ALWAYS}


def test_what_a_branch_leads_to_is_not_counted() -> None:
    lines = ("test %eax,%eax", "je 30 <f+0x30>", "xchg %ax,%ax", "ret", "call 99 <on>", "ret")
    code = {16 * i: Step(line, False) for i, line in enumerate(lines)}
    assert [step.text for step in follow(code, 0)] == ["test %eax,%eax", "je 30 <f+0x30>",
                                                       "xchg %ax,%ax", "ret"]
    with pytest.raises(AssertionError, match="wherever"):
        list(follow({0: Step("jmp *%rax", False)}, 0))
