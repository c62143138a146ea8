# SPDX-License-Identifier: GPL-2.0-only
"""Whose a VMCB is: which virtual machine's, and the number of its vCPU.

The emulator reads the VMCBs in the memory of a host that stands still. Two fields tell them apart.
All vCPUs of a VM have the TSC offset that KVM shows in debugfs, and VMs that booted at different
times have different ones. The Linux in a guest has an area for each of its CPUs, in the order of
their numbers. Its address is in GS or, in user mode, in KernelGSBase.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.core.decode import DecodeError, decode, read_json
from lab.core.errors import LabError
from lab.machine import qemu_trace
from lab.machine.control import Control
from lab.machine.machine import Machine

FILE = "vcpus.json"
"""In the folder of a replay."""
TSC_OFFSET, GS_BASE, KERNEL_GS_BASE = 0x50, 0x458, 0x620
"""Bytes in a VMCB, in AMD's manual's appendix B."""
KERNEL = 1 << 63
SIGN = 1 << 64
WORD = re.compile(r": 0x([0-9a-f]{16})\b", re.ASCII)
OFFSET = re.compile(rb"-?\d{1,19}", re.ASCII)
CERTAIN = ("A VM's name is certain: its TSC offset in the VMCB is that which KVM shows for it. A"
           " vCPU's number is its place among the per-CPU areas of its guest's kernel.")
GROUPED = "of VMs named by letters no more is known than that their vCPUs have one TSC offset"
ORDERED = "vCPUs of {} have the numbers of the order in which they were first entered"


@dataclass(frozen=True)
class Block:
    """What a VMCB holds of its vCPU."""

    vmcb: str
    """Its address, as traces have it."""
    tsc_offset: int
    area: int | None
    """Where the guest's kernel has this CPU's variables; None where that is not known."""


@dataclass(frozen=True)
class Vcpu:
    """A vCPU's name."""

    vmcb: str
    vm: str
    number: int


@dataclass(frozen=True)
class Names:
    """Those of a trace, VM by VM, and how they were had."""

    vcpus: tuple[Vcpu, ...]
    how: str
    ahead_ns: int | None = None
    """How far the trace's times are ahead of the host's clock; None where it was not asked."""


def word(said: str) -> int:
    """A word of memory as QEMU's monitor says it; LabError for anything else."""
    found = WORD.search(said)
    if not found:
        raise LabError(f"QEMU does not show memory of the host: {said.strip()[:100] or 'nothing'}")
    return int(found[1], 16)


def blocks(machine: Machine, vmcbs: Iterable[str]) -> list[Block]:
    """What the VMCBs at these addresses hold; the host stands still."""
    with qemu_trace.monitor(machine) as monitor:
        def read(vmcb: str, offset: int) -> int:
            return word(qemu_trace.human(monitor, f"xp /1gx {int(vmcb, 16) + offset:#x}"))

        return [block(vmcb, *(read(vmcb, offset) for offset in (TSC_OFFSET, GS_BASE,
                                                                KERNEL_GS_BASE)))
                for vmcb in vmcbs]


def offsets(control: Control, folder: str, vcpus: int) -> list[int]:
    """The TSC offsets that the host's KVM shows for a VM, given its folder in debugfs."""
    texts = [control.read_file(f"{folder}/vcpu{number}/tsc-offset").strip()
             for number in range(vcpus)]
    return [int(text) for text in texts if OFFSET.fullmatch(text)]


def block(vmcb: str, tsc_offset: int, gs_base: int, kernel_gs_base: int) -> Block:
    """From the three words of a VMCB."""
    area = next((base for base in (gs_base, kernel_gs_base) if base >= KERNEL), None)
    return Block(vmcb, tsc_offset - SIGN if tsc_offset >= KERNEL else tsc_offset, area)


def named(blocks: Sequence[Block], offsets: Mapping[str, Iterable[int]], vcpus: int,
          ahead_ns: int | None = None) -> Names:
    """The names, given the TSC offsets that KVM shows for each VM and what vCPUs one has.

    `blocks` are in the order of first entries. `ahead_ns` is kept with the names.
    """
    owners = defaultdict[int, set[str]](set)
    for vm, known in offsets.items():
        for offset in known:
            owners[offset].add(vm)
    groups, strangers, notes = defaultdict[str, list[Block]](list), list[int](), list[str]()
    for one in blocks:
        owner = owners[one.tsc_offset]
        if len(owner) != 1 and one.tsc_offset not in strangers:
            strangers.append(one.tsc_offset)
        groups[min(owner) if len(owner) == 1 else
               f"VM {_letters(strangers.index(one.tsc_offset))}"].append(one)
    found = list[Vcpu]()
    for vm, own in sorted(groups.items()):
        areas = {one.area for one in own}
        numbered = None not in areas and len(areas) == len(own) == vcpus
        notes += [] if numbered else [ORDERED.format(vm)]
        row = sorted(own, key=lambda one: one.area or 0) if numbered else own
        found += [Vcpu(one.vmcb, vm, number) for number, one in enumerate(row)]
    but = "; ".join([GROUPED] * bool(strangers) + notes)
    return Names(tuple(found), CERTAIN + (f" But {but}." if but else ""), ahead_ns)


def unnamed(vmcbs: Iterable[str]) -> Names:
    """For a trace of which nothing is known but its own lines."""
    return Names(tuple(Vcpu(vmcb, "unknown VM", number) for number, vmcb in enumerate(vmcbs)),
                 "Which VM a vCPU is of is not known, as the VMCBs were not read: vCPUs have the"
                 " numbers of the order in which they were first entered.")


def _letters(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"{number + 1}"


def write(folder: Path, names: Names) -> None:
    """Keep them beside the trace."""
    (folder / FILE).write_text(json.dumps(asdict(names), indent=1) + "\n")


def read(folder: Path, vmcbs: Sequence[str]) -> Names:
    """Those of a trace with these VMCBs; `unnamed` where they are not there, or not whole."""
    try:
        names = decode(Names, read_json((folder / FILE).read_text()))
    except (OSError, ValueError, DecodeError):
        return unnamed(vmcbs)
    return names if {one.vmcb for one in names.vcpus} >= {*vmcbs} else unnamed(vmcbs)
