# SPDX-License-Identifier: GPL-2.0-only
"""The table of idle states: as its length, its checksum and its blocks say."""

import struct

import pytest

from lab.machine import acpi


def blocks(body: bytes, opcode: int) -> list[bytes]:
    """The contents of the blocks one after the other, each begun by this opcode."""
    found, at = [], 0
    while at < len(body):
        assert body[at] == opcode
        lead = body[at + 1]
        length = lead if lead < 0x40 else (lead & 0xF) | body[at + 2] << 4
        found.append(body[at + (2 if lead < 0x40 else 3):at + 1 + length])
        at += 1 + length
    assert at == len(body)
    return found


@pytest.mark.parametrize("cpus", [1, 2, 64, 300])
def test_every_cpu_has_c1(cpus: int) -> None:
    table = acpi.idle_states(cpus)
    assert table[:4] == b"SSDT" and struct.unpack_from("<I", table, 4) == (len(table),)
    assert sum(table) & 0xFF == 0
    scopes = blocks(table[36:], 0x10)
    assert [one[:16] for one in scopes] == [
        b"\\/\x03_SB_CPUSC%03X" % cpu + b"\x08" for cpu in range(cpus)]
    for one in scopes:
        assert one[16:20] == b"_CST"
        (package,) = blocks(one[20:], 0x12)
        assert package[:2] == b"\x02\x01", "two elements, the first says that one state follows"
        (state,) = blocks(package[2:], 0x12)
        assert state[0] == 4 and state[1] == 0x11 and acpi.HALT in state
        assert state.endswith(b"\x01\x0a\x01\x0b\xe8\x03"), "C1, 1 us, 1,000 mW"


@pytest.mark.parametrize("cpus", [0, 0x1001])
def test_so_many_have_no_name(cpus: int) -> None:
    with pytest.raises(ValueError, match="an ACPI table for"):
        acpi.idle_states(cpus)
