# SPDX-License-Identifier: GPL-2.0-only
"""The ACPI table that gives the emulated host's CPUs an idle state.

QEMU's machines describe none, so Linux has no cpuidle driver in them. A real host has
one, by ACPI or by its maker's driver. The table adds `_CST` to each processor, with the one
state that a machine without MWAIT has: C1, entered by HLT.
"""

import struct

C1_LATENCY_US = 1
C1_POWER_MW = 1000
"""Linux reads it and does not use it."""
HALT = bytes((0x82, 12, 0, 0x7F, 1, 1, 0)) + bytes(8) + b"\x79\x00"
"""Resource template: a register of "functional fixed hardware", Intel's class 1: C1 by HLT."""
PROCESSOR = b"\\/\x03_SB_CPUS"
"""Where QEMU's machine `q35` has its processors, which it calls C000, C001, ..., CFFF."""
MOST_CPUS = 0x1000


def _package_length(size: int) -> bytes:
    """AML's length of what follows, its own bytes included; one or two bytes long."""
    if size + 1 < 1 << 6:
        return bytes((size + 1,))
    size += 2
    return bytes((0x40 | (size & 0xF), size >> 4))


def _block(opcode: int, body: bytes) -> bytes:
    return bytes((opcode,)) + _package_length(len(body)) + body


def _cst() -> bytes:
    """Name (_CST, Package () { 1, Package () { HALT, 1, latency, power } })."""
    register = _block(0x11, bytes((0x0A, len(HALT))) + HALT)
    state = register + bytes((0x01, 0x0A, C1_LATENCY_US, 0x0B)) + struct.pack("<H", C1_POWER_MW)
    return b"\x08_CST" + _block(0x12, b"\x02\x01" + _block(0x12, b"\x04" + state))


def idle_states(cpus: int) -> bytes:
    """The table (an SSDT) for a machine with so many CPUs, for QEMU's -acpitable file=.

    Raises ValueError for more processors than have a name.
    """
    if not 0 < cpus <= MOST_CPUS:
        raise ValueError(f"an ACPI table for {cpus} CPUs")
    body = b"".join(_block(0x10, PROCESSOR + b"C%03X" % cpu + _cst()) for cpu in range(cpus))
    head = struct.pack("<4sIBB6s8sI4sI", b"SSDT", 36 + len(body), 2, 0, b"PVSYNC", b"IDLE    ",
                       1, b"PVSY", 1)
    checksum = -sum(head + body) & 0xFF
    return head[:9] + bytes((checksum,)) + head[10:] + body
