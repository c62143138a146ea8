# SPDX-License-Identifier: GPL-2.0-only
"""VMs that want loans for ever, and a host that lends them."""

from pathlib import Path

from tests.kernel import firmware
from tests.kernel.operate_host import ROM

LEND = {"extend": "ecs", "extend_cap": "1000"}
"""Parameters of the host."""


def claims(folder: Path) -> Path:
    """The memory of a VM with claims.S."""
    rom = folder / "claims.rom"
    firmware.assemble(Path(__file__).with_name("claims.S"), rom)
    memory = folder / "claims.bin"
    memory.write_bytes(bytes(ROM) + rom.read_bytes())
    return memory
