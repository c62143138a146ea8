# SPDX-License-Identifier: GPL-2.0-only
"""Runs in virtual time that the emulator traces, and the names of the vCPUs in the traces.

A trace takes no virtual time. The questions which VM has which vCPUs, and what the host's clock
says, do. The lab asks them when the runs of a boot are over, which are as without a trace so.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.core.errors import LabError
from lab.core.model import RunRecord
from lab.machine import qemu_trace, tsc, vmcb
from lab.machine.vmcb import Block
from lab.plan.schedule import PlannedRun
from lab.run.session import Session

Traced = Mapping[Path, Sequence[Block]]
"""By the folder of a trace what is known of its vCPUs."""


def run(session: Session, planned: PlannedRun, attempt: int, folder: Path,
        events: str = qemu_trace.EVENTS) -> tuple[RunRecord, list[Block]]:
    """Make a run with these events noted in the folder; raises as Session.run, and LabError."""
    folder.mkdir(parents=True, exist_ok=True)
    qemu_trace.begin(session.machine, folder, events)
    record = session.run(planned, attempt)
    qemu_trace.end(session.machine, events)
    blocks = vmcb.blocks(session.machine, qemu_trace.vcpus(qemu_trace.lines(folder)))
    if blocks:
        vmcb.write(folder, vmcb.named(blocks, {}, session.experiment.vcpus))
    return record, blocks


def name(session: Session, traced: Traced) -> None:
    """Keep the names of the vCPUs in traces beside them, as far as they can be had.

    Where the host does not tell, VMs go by letters, and when they were measured is not known.
    """
    count = session.experiment.vcpus
    with contextlib.suppress(LabError):
        ahead_ns = tsc.ahead_ns(session.machine.control)
        shown = {guest: vmcb.offsets(session.machine.control, live.folder, count)
                 for guest, live in session.fleet.live.items() if live.folder}
        for folder, blocks in traced.items():
            if blocks:
                vmcb.write(folder, vmcb.named(blocks, shown, count, ahead_ns))
