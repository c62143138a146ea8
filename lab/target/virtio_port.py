# SPDX-License-Identifier: GPL-2.0-only
"""A virtio port as a pair of streams, for hostd.py."""

import asyncio
import os
from pathlib import Path

from vm import LINE_LIMIT


def find(name: str) -> str:
    """Device node of the virtio port with this name; ends the program without one."""
    for entry in Path("/sys/class/virtio-ports").glob("*/name"):
        if entry.read_text().strip() == name:
            return f"/dev/{entry.parent.name}"
    raise SystemExit(f"hostd: no virtio port is named {name}")


async def opened(name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The two directions of a virtio port, which may be opened once only.

    `drain` of the writer waits until the port has taken everything: its machine may stop then.
    """
    loop = asyncio.get_running_loop()
    file = open(find(name), "r+b", buffering=0)  # noqa: SIM115 (stays open until the end)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    twin = os.fdopen(os.dup(file.fileno()), "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, twin)
    transport.set_write_buffer_limits(high=0)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
