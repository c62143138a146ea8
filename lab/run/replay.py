# SPDX-License-Identifier: GPL-2.0-only
"""Plays a run of a result directory again: the same host, seed and requests, up to that run.

In virtual time a run depends on its seed and on what came before it in its boot. So the boot is
repeated from its beginning, with the runs that it made until then. What guests, host and lab have
said is compared with what they said then.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from lab.build.images import Images
from lab.core import content
from lab.core.decode import suggest
from lab.core.errors import UsageError
from lab.core.model import Experiment, Manifest, RunRecord
from lab.core.progress import Progress
from lab.core.words import many
from lab.machine.control import HostLost
from lab.machine.machine import Debugger
from lab.plan import schedule
from lab.run import parse, resuming, runner, snapshot, tracing
from lab.run.session import Session

FOLDER = "replays"
"""Of a result directory."""
NOT_COMPARED = ("stalled", "output")
"""Of a record: what this machine did, and a path."""
SHOWN = 120
"""Characters of a line that differs."""


@dataclass(frozen=True)
class Part:
    """A run and all that its boot did before it."""

    manifest: Manifest
    boot: int
    seed: int
    runs: tuple[RunRecord, ...]
    """In order; the last one is what was asked for."""
    snapshot: int | None = None
    """Seed of the boot that was saved, if its host went on from one."""

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What a page of the run says that it was made with."""
        m, last = self.manifest, self.runs[-1]
        return (("run", f"{last.id}, seed {self.seed}"), ("machine model", m.machine),
                ("guests", f"{many(last.vms, 'VM')} of {many(m.vcpus, 'vCPU')} on"
                           f" {many(m.pcpus, 'CPU')}"),
                ("commit", m.commit), ("command", shlex.join(m.command)),
                ("kernel", m.kernel), ("QEMU", m.qemu))

    def symbols(self, files: Images) -> Path:
        """The System.map of its guests' kernel."""
        scheme = next(one for one in self.experiment.schemes
                      if (one.label or one.name) == self.runs[-1].scheme)
        kernels = {one.variant: one.kernel for one in files.others}
        return kernels.get(scheme.variant, files.guest_kernel).parent / "System.map"

    @property
    def experiment(self) -> Experiment:
        """What the runs are of."""
        both = ({field.name for field in fields(Experiment)}
                & {field.name for field in fields(Manifest)})
        values = {name: getattr(self.manifest, name) for name in both}
        return Experiment(name=self.manifest.experiment, about="", **values)


@dataclass(frozen=True)
class Difference:
    """Where something first differs."""

    what: str
    """A file, by its path in the result directory, and its line; or a run's record."""
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.what}: then {self.then[:SHOWN]!r}, now {self.now[:SHOWN]!r}"


@dataclass(frozen=True)
class Outcome:
    """What a replay has come to."""

    part: Part
    now: tuple[RunRecord, ...]
    """The records of its runs."""
    files: int
    bytes: int
    """Compared."""
    difference: Difference | None
    seconds: float
    """Of this machine."""

    @property
    def same(self) -> bool:
        """Whether it was the same run."""
        return self.difference is None

    def lines(self) -> list[str]:
        """What to tell of it."""
        last, runs = self.part.runs[-1], len(self.part.runs)
        said = [f"{last.id}: boot {self.part.boot}, seed {self.part.seed},"
                f" {many(runs, 'run')}, {self.seconds:.0f} s."]
        then, now = (f"invalid: {one.reason.rstrip('.')}" if one.reason else "valid"
                     for one in (last, self.now[-1]))
        said.append(f"The run was {then}." if then == now else
                    f"The run was {then}. Now it is {now}.")
        said.append(f"The same bytes: {many(self.files, 'file')}, {many(self.bytes, 'byte')}."
                    if self.difference is None else f"Different: {self.difference}.")
        return said


def part(directory: Path, run_id: str) -> Part:
    """The run and what came before it; UsageError where it cannot be played again."""
    begun, records = parse.manifest(directory), parse.runs(directory).records
    if begun.backend != "vt":
        raise UsageError(f"{directory} was not made in virtual time: no seed gives its runs again")
    chosen = next((one for one in records if one.id == run_id), None)
    if chosen is None:
        known = [one.id for one in records]
        raise UsageError(f"{directory} has no run '{run_id}'{suggest(run_id, known)}")
    if chosen.seed is None:
        raise UsageError(f"{run_id} was not begun, so that it has no seed: {chosen.reason}")
    same = [one for one in records if one.boot == chosen.boot and one.seed is not None]
    return Part(begun, chosen.boot, chosen.seed, tuple(same[:same.index(chosen) + 1]),
                chosen.snapshot)


def new_folder(directory: Path, run_id: str) -> Path:
    """A folder that is not there yet for what a replay writes."""
    number = 1
    while (folder := directory / FOLDER / f"{run_id}-{number}").exists():
        number += 1
    return folder


def ready(directory: Path, what: Part, tree: Path | None, packages: Sequence[str],
          progress: Progress) -> Images:
    """What it was made with; UsageError where that is not what is here."""
    return resuming.same_files(directory, what.experiment, tree, packages, progress,
                               f"check out commit {what.manifest.commit} to play it again")


def run(directory: Path, what: Part, files: Images, out: Path, progress: Progress, *,
        debug: Debugger | None = None, events: str = "") -> Outcome:
    """Play it; `out` gets what the directory has of it, and the trace."""
    spec = runner.host_spec(what.experiment, "vt", files, what.manifest.machine, what.seed)
    began, now = time.monotonic(), list[RunRecord]()
    with progress.stage("replay", total=len(what.runs)) as stage:
        spec = replace(spec, debug=debug)
        if what.snapshot is not None:
            spec = snapshot.start_from(what.experiment, spec, what.snapshot, stage.text, progress)
        session = Session(what.experiment, spec, what.boot, out, lambda record: None, stage.text)
        try:
            _play(session, what, now, events, stage.advance)
        except HostLost as lost:
            now.append(replace(what.runs[len(now)], valid=False, reason=str(lost), guests=()))
        finally:
            session.abort()
    difference = in_records(what.runs, now)
    pairs = [(directory / name, out / name) for name in content.files_below(out)
             if compared(out / name)]
    for then, new in pairs:
        difference = difference or in_files(then, new, str(new.relative_to(out)))
    return Outcome(what, tuple(now), len(pairs), sum(new.stat().st_size for _, new in pairs),
                   difference, time.monotonic() - began)


def _play(session: Session, what: Part, now: list[RunRecord], events: str,
          advance: Callable[[], None]) -> None:
    session.open()
    session.boot_all()
    for record in what.runs:
        if events and record is what.runs[-1]:
            made, blocks = tracing.run(session, schedule.planned(record), record.attempt,
                                       session.out, events)
            now.append(made)
            tracing.name(session, {session.out: blocks})
        else:
            now.append(session.run(schedule.planned(record), record.attempt))
        advance()


def compared(file: Path) -> bool:
    """Whether a file of a replay's folder holds what was said inside, not what the lab notes."""
    return file.parent.parent.name == "raw" or file.name.endswith("console.log")


def in_records(then: Sequence[RunRecord], now: Sequence[RunRecord]) -> Difference | None:
    """The first difference between records, but for what this machine has to do with."""
    for old, new in zip(then, now, strict=False):
        one, two = _told(old), _told(new)
        for key, value in one.items():
            if two[key] != value:
                return Difference(f"{old.id}, {key}", str(value), str(two[key]))
    if len(now) < len(then):
        return Difference(then[len(now)].id, "made", "not made")
    return None


def _told(record: RunRecord) -> dict[str, object]:
    told = {key: value for key, value in asdict(record).items() if key not in NOT_COMPARED}
    for guest in told.pop("guests"):
        told |= {f"{guest['guest']}.{key}": value for key, value in guest.items()
                 if key not in NOT_COMPARED}
    return told


def in_files(then: Path, now: Path, name: str) -> Difference | None:
    """The first line that differs. A console's old file goes on: its boot did."""
    if not then.exists():
        return Difference(name, "no file", "a file")
    old, new = then.read_bytes(), now.read_bytes()
    if now.name.endswith("console.log"):
        old = old[:len(new)]
    if old == new:
        return None
    at = next((place for place, pair in enumerate(zip(old, new, strict=False))
               if pair[0] != pair[1]), min(len(old), len(new)))
    begin = new.rfind(b"\n", 0, at) + 1
    lines = [one[begin:].split(b"\n", 1)[0].decode(errors="replace") for one in (old, new)]
    number = new[:at].count(b"\n") + 1
    return Difference(f"{name}, line {number}", *lines)
