# SPDX-License-Identifier: GPL-2.0-only
"""Makes the timeline's files beside a trace, from that and the names of its vCPUs."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.build.images import Images
from lab.core import files
from lab.core.errors import UsageError
from lab.core.model import GuestRun
from lab.core.progress import Progress
from lab.machine import qemu_trace, vmcb
from lab.machine.vmcb import Names
from lab.observe import vcpu_trace
from lab.observe.vcpu_trace import Window
from lab.report import perfetto, timeline, timeline_picture, waited
from lab.report.timeline import Timeline
from lab.run import parse, records, replay


def load(folder: Path, title: str, facts: tuple[tuple[str, str], ...],
         symbols: Path | None, guests: Sequence[GuestRun] = ()) -> Timeline | None:
    """What a replay has traced; None without a VMRUN or #VMEXIT.

    `symbols` is the System.map of the guests' kernel, `guests` what the run's record has of each.
    """
    found = vcpu_trace.intervals(vcpu_trace.events(qemu_trace.lines(folder)))
    if not found:
        return None
    names = vmcb.read(folder, list(dict.fromkeys(one.vmcb for one in found)))
    text = symbols.read_text() if symbols and symbols.exists() else None
    full, times = vcpu_trace.whole(found), measured(names, guests)
    inside = vcpu_trace.within(found, around(times.values())) if times else []
    return Timeline(title, facts, names, found, full, vcpu_trace.worst(inside or found),
                    vcpu_trace.Symbols(text) if text is not None else None,
                    times if inside else {})


def measured(names: Names, guests: Sequence[GuestRun]) -> dict[str, Window]:
    """When each VM was measured, in the trace's time; empty where that is not known.

    A VM that the record does not name has the time of all.
    """
    if names.ahead_ns is None:
        return {}
    own = {one.guest: Window(round(one.began * 1e9) + names.ahead_ns,
                             round(one.ended * 1e9) + names.ahead_ns)
           for one in guests if one.began is not None and one.ended is not None}
    return {vm: own.get(vm) or around(own.values())
            for vm in dict.fromkeys(one.vm for one in names.vcpus)} if own else {}


def around(windows: Iterable[Window]) -> Window:
    """From the first one's begin to the last one's end; there is one at least."""
    every = tuple(windows)
    return Window(min(one.begin for one in every), max(one.end for one in every))


def make(folder: Path, line: Timeline, page: bool = True) -> list[Path]:
    """Write the files, without `page` the sums alone; UsageError where that cannot be done."""
    made = {waited.FILE: waited.as_json(line.waits)}
    if page:
        made |= {timeline.PAGE: timeline.html(line), perfetto.FILE: perfetto.as_json(line),
                 timeline_picture.FILE: timeline_picture.picture(line)}
    try:
        for name, text in made.items():
            files.replace(folder / name, text)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    return [folder / name for name in made]


def make_all(directory: Path, images: Images, progress: Progress, page: bool = True) -> list[Path]:
    """Make those of a result directory's runs that were traced; the pages that were made.

    Each run gets its sums, the first valid run of each cell a timeline, too. The traces themselves,
    which are large, are removed: a replay makes them again.
    """
    pages, drawn = list[Path](), set[tuple[str, str, int]]()
    runs = parse.runs(directory).records
    with progress.stage("traces", total=len(runs)) as stage:
        for one in runs:
            folder = directory / records.TRACES / one.id
            cell = (one.scheme, one.workload, one.vms)
            if (folder / qemu_trace.FILE).is_file():
                what = replay.part(directory, one.id)
                line = load(folder, one.id, what.facts, what.symbols(images), one.guests)
                if line is not None:
                    make(folder, line, page and one.valid and cell not in drawn)
                (folder / qemu_trace.FILE).unlink()
            if (folder / timeline.PAGE).is_file():
                drawn.add(cell)
                pages.append(folder / timeline.PAGE)
            stage.advance()
    return pages
