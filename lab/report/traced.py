# SPDX-License-Identifier: GPL-2.0-only
"""Makes the timeline's files of a replay's folder, from its trace and the names of its vCPUs."""

from pathlib import Path

from lab.core import files
from lab.core.errors import UsageError
from lab.machine import qemu_trace, vmcb
from lab.observe import vcpu_trace
from lab.report import perfetto, timeline, timeline_picture
from lab.report.timeline import Timeline


def load(folder: Path, title: str, facts: tuple[tuple[str, str], ...],
         symbols: Path | None) -> Timeline | None:
    """What a replay has traced; None without a VMRUN or #VMEXIT.

    `symbols` is the System.map of the guests' kernel.
    """
    found = vcpu_trace.intervals(vcpu_trace.events(qemu_trace.lines(folder)))
    if not found:
        return None
    names = vmcb.read(folder, list(dict.fromkeys(one.vmcb for one in found)))
    text = symbols.read_text() if symbols and symbols.exists() else None
    return Timeline(title, facts, names, found, vcpu_trace.whole(found), vcpu_trace.worst(found),
                    vcpu_trace.Symbols(text) if text is not None else None)


def make(folder: Path, line: Timeline) -> list[Path]:
    """Write the files; UsageError when the folder cannot be written."""
    made = {timeline.PAGE: timeline.html(line), perfetto.FILE: perfetto.as_json(line),
            timeline_picture.FILE: timeline_picture.picture(line)}
    try:
        for name, text in made.items():
            files.replace(folder / name, text)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    return [folder / name for name in made]
