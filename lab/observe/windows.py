# SPDX-License-Identifier: GPL-2.0-only
"""CPU time of the VMs of a run in short windows: whether their shares stay even.

The host notes during the run what each VM has got so far; the text has a line
of heads and one for each time:

    seconds GUEST:usage_usec GUEST:extend_granted GUEST:usage_usec ...
    12.345 1000000 17 999000 -

Times are the host's clock, as those of the records; "-" is unknown.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.core import stats
from lab.core.cells import Windows
from lab.core.model import RunRecord

USED, GRANTED = "usage_usec", "extend_granted"
"""What is noted of each VM: its group's CPU time, the VM's counter."""
FILE = "host.windows.txt"
"""The text's file in the run's folder."""
NUMBER = re.compile(r"\d{1,20}", re.ASCII)
SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True)
class Samples:
    """What was noted while all guests were measured, in the order of time."""

    times: tuple[float, ...]
    """Seconds of the host's clock."""
    used: tuple[tuple[int, ...], ...]
    """CPU time of each VM so far, microseconds, at each time."""
    granted: tuple[int, ...] | None
    """Preemptions put off so far, of all VMs; None when unknown."""


def as_text(guests: Sequence[str], samples: Iterable[Sequence[float | int | None]]) -> str:
    """The text of samples: each a time, then USED and GRANTED of each guest."""
    heads = [f"{guest}:{what}" for guest in guests for what in (USED, GRANTED)]
    lines = [" ".join(("seconds", *heads))]
    for time, *values in samples:
        shown = ["-" if value is None else str(value) for value in values]
        lines.append(" ".join((f"{time:.6f}", *shown)))
    return "\n".join(lines) + "\n"


def parse(text: str, run: RunRecord) -> Samples | None:
    """The samples of a run of several VMs between its last start and its first end.

    None with one VM, with fewer than two samples, and when anything in the text
    is not as documented: a line that is lost would pass for a long window.
    """
    names = [guest.guest for guest in run.guests]
    heads = ["seconds", *(f"{name}:{what}" for name in names for what in (USED, GRANTED))]
    lines = [line.split(" ") for line in text.split("\n")[:-1]]
    rows = [_row(line) if len(line) == len(heads) else None for line in lines[1:]]
    known = [row for row in rows if row is not None]
    if len(names) < 2 or lines[:1] != [heads] or len(known) < len(rows):
        return None
    began = max((guest.began for guest in run.guests if guest.began is not None), default=0.0)
    ended = min((guest.ended for guest in run.guests if guest.ended is not None), default=0.0)
    return _samples([row for row in known if began <= row[0] <= ended])


def _row(line: Sequence[str]) -> tuple[float, list[int | None]] | None:
    time, *values = line
    good = all(value == "-" or NUMBER.fullmatch(value) for value in values)
    if not good or not SECONDS.fullmatch(time):
        return None
    return float(time), [None if value == "-" else int(value) for value in values]


def _samples(rows: Sequence[tuple[float, list[int | None]]]) -> Samples | None:
    times = tuple(time for time, _ in rows)
    used = _rising([values[0::2] for _, values in rows])
    if len(rows) < 2 or used is None or any(new <= old for old, new in pairwise(times)):
        return None
    granted = _rising([values[1::2] for _, values in rows])
    return Samples(times, used, None if granted is None else tuple(map(sum, granted)))


def _rising(rows: Sequence[Sequence[int | None]]) -> tuple[tuple[int, ...], ...] | None:
    """The same, when all of it is known and none went backwards."""
    known = tuple(tuple(value for value in row if value is not None) for row in rows)
    if any(len(one) < len(row) for one, row in zip(known, rows, strict=True)):
        return None
    fell = any(new < old for pair in pairwise(known) for old, new in zip(*pair, strict=True))
    return None if fell else known


# Figures


def differences(seen: Samples) -> list[float]:
    """For each window the first VM's CPU time minus the mean of the others', seconds."""
    found = []
    for old, new in pairwise(seen.used):
        first, *others = (b - a for a, b in zip(old, new, strict=True))
        found.append((first - sum(others) / len(others)) / 1e6)
    return found


def moments(seen: Samples) -> list[float]:
    """Where the windows end, seconds from the beginning of the first."""
    return [time - seen.times[0] for time in seen.times[1:]]


def end(seen: Samples) -> float | None:
    """Difference over all windows, over the mean CPU time of the VMs; None without any."""
    got = sum(seen.used[-1]) - sum(seen.used[0])
    return sum(differences(seen)) * 1e6 / (got / len(seen.used[0])) if got else None


def figures(runs: Iterable[Samples | None]) -> Windows | None:
    """What a report says of them; None when no run has any CPU time."""
    known = [(run, ended) for run in runs if run is not None and (ended := end(run)) is not None]
    if not known:
        return None
    apart = [differences(run) for run, _ in known]
    granted = [(run.granted[-1] - run.granted[0]) / (len(run.times) - 1)
               for run, _ in known if run.granted is not None]
    return Windows(
        number=_median([len(one) for one in apart]),
        seconds=_median([run.times[-1] - run.times[0] for run, _ in known]),
        mean_ms=_median([1e3 * sum(map(abs, one)) / len(one) for one in apart]),
        most_ms=_median([1e3 * max(map(abs, one)) for one in apart]),
        end_ms=_median([1e3 * sum(one) for one in apart]),
        end=_median([one for _, one in known]),
        worst=max((one for _, one in known), key=abs),
        granted=stats.median(granted),
    )


def _median(values: Sequence[float]) -> float:
    found = stats.median(values)
    assert found is not None
    return found
