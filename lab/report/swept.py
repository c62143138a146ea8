# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of a sweep, and what may be said of it.

A setting's worth is its time over another one's, of the same runs: below 1 is better. It is shown
to differ only if no run of it is missing, and if no placebo is as far from 1. Its interval has to
leave 1 out, made wide enough for all settings of its ranking together.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.core.errors import UsageError
from lab.plan.sweeps import PARTS, Sweep
from lab.report import jsonlines

FILE = "sweep.json"
"""In the directory of a sweep."""
NEAR = 0.03
"""A setting so close to the best is as good as it, for how flat the optimum is."""
Interval = tuple[float, float] | None
"""None of too few seeds."""


@dataclass(frozen=True)
class Ranked:
    """A setting and what it is worth."""

    setting: str
    names: tuple[str, ...]
    values: tuple[str, ...]
    worth: float
    """Infinite without a run."""
    interval: Interval
    """By itself, 95 %."""
    strict: Interval
    """95 % for all settings of the ranking together, so wider."""
    runs: int
    """Pairs that it rests on."""
    missing: int
    """Runs without a figure, its own or the reference's."""
    by_workload: dict[str, float]


@dataclass(frozen=True)
class Marginal:
    """A parameter's value over all settings that have it, on one workload."""

    name: str
    value: str
    workload: str
    median: float
    low: float
    """Lower quartile of the runs' worths."""
    high: float
    """Upper one."""
    runs: int
    ratios: tuple[float, ...] = ()
    """All worths; not kept for pages in Markdown."""


@dataclass(frozen=True)
class Valued:
    """A parameter's value over all settings and workloads."""

    name: str
    value: str
    worth: float
    interval: Interval


@dataclass(frozen=True)
class Cell:
    """A setting's own figures, in their unit."""

    workload: str
    machine: str
    vcpus: int
    pcpus: int
    vms: int
    setting: str
    unit: str
    median: float
    spread: float | None
    """Half the inter-quartile range over the median."""
    runs: int
    best: float
    worst: float


@dataclass(frozen=True)
class Carried:
    """How many VMs a host carries with a setting until a workload's figure passes a limit."""

    workload: str
    machine: str
    vcpus: int
    pcpus: int
    limit: float
    unit: str
    """Of the limit and the figure."""
    setting: str
    vms: float | None
    """Mean of the seeds; None where one lacks a run, or gives no number, as the next two count."""
    interval: Interval
    """Of that mean."""
    beyond: int
    """Seeds that are beyond the limit with the fewest VMs that were played."""
    within: int
    """Seeds that are within it with the most."""
    seeds: int
    """That have a figure for each number of VMs."""
    ratio: float | None
    """VMs over the first scheme's of the same seed, as a geometric mean: above 1 is better."""
    strict: Interval
    """Of the ratio, for all settings of this limit together."""


@dataclass(frozen=True)
class Versus:
    """A varied scheme's settings beside the project's default."""

    scheme: str
    default: str
    """Label of that setting."""
    rows: tuple[Ranked, ...]
    """The best first, the default among them; on held-out workloads after a search."""
    far: float | None
    """`distance` of the placebos, those workloads' too."""


@dataclass(frozen=True)
class Found:
    """A fault that a run of a hunt showed."""

    kind: str
    """One of `findings.KINDS`."""
    place: str
    """Setting and workload."""
    seed: int
    """The sweep's."""
    unit: str
    """Key of the unit that shows it again."""
    reason: str


@dataclass(frozen=True)
class Hunted:
    """What a hunt has shown."""

    seeds: int
    """Of which there are runs."""
    runs: dict[str, int]
    """Of each setting and workload, those that came about."""
    findings: tuple[Found, ...]


@dataclass(frozen=True)
class Facts:
    """How the rows were made."""

    runs: int
    """Of the last kernel, images and emulator."""
    lacking: int
    """Runs of the sweep's file that were not made yet."""
    left_out: int
    """Runs of other ones, or that were made again."""
    failed: dict[str, int]
    """Why runs are not valid, and how many."""
    boots: int
    workers: int
    core_s: float
    """CPU time of the boots, seconds."""
    wall_s: float
    """Time of the workers, seconds."""
    made: str
    """Day of the last run, in UTC."""
    kernel: str
    images: str
    emulator: str
    commits: tuple[str, ...]
    parts: int
    """Files of rows that there were."""


@dataclass(frozen=True)
class Swept:
    """All that is kept."""

    sweep: Sweep
    command: tuple[str, ...]
    facts: Facts
    placebos: tuple[str, ...]
    """Labels of the settings that change nothing."""
    ranking: tuple[Ranked, ...]
    """All settings over the first scheme, the best first."""
    unranked: tuple[str, ...]
    """Settings of which no run can be compared."""
    versus: tuple[Versus, ...]
    marginals: tuple[Marginal, ...]
    values: tuple[Valued, ...]
    flatness: tuple[str, ...]
    """Sentences."""
    cells: tuple[Cell, ...]
    hunted: Hunted | None = None
    """Of a hunt, which ranks nothing."""
    carried: tuple[Carried, ...] = ()
    """Of each limit in the file, for all settings."""

    @property
    def baseline(self) -> str:
        """The first scheme."""
        return self.sweep.schemes[0]

    @property
    def named(self) -> tuple[str, ...]:
        """Settings that are shown wherever they rank: the first scheme, placebos, defaults."""
        return (self.baseline, *self.placebos, *(one.default for one in self.versus))


def distance(ranked: Iterable[Ranked], placebos: Sequence[str]) -> float | None:
    """How far the farthest placebo is from its baseline, as a factor above 1; None without one."""
    return farthest(one.worth for one in ranked if one.setting in placebos and one.runs)


def farthest(ratios: Iterable[float]) -> float | None:
    """The ratio that is farthest from 1, as a factor above 1; None of none."""
    return max((max(one, 1 / one) for one in ratios), default=None)


def differs(one: Ranked, far: float | None) -> bool:
    """Whether a setting is shown to differ from what it is compared with."""
    return not one.missing and is_apart(one.worth, one.strict, far)


def is_apart(ratio: float, strict: Interval, far: float | None) -> bool:
    """Whether a ratio's interval leaves 1 out, and no placebo is as far from 1 as `far`."""
    if not strict or strict[0] <= 1 <= strict[1]:
        return False
    return far is None or abs(math.log(ratio)) > math.log(far)


def read(file: Path) -> Swept:
    """What was kept; UsageError when it is damaged."""
    return jsonlines.read(Swept, file)


def current(file: Path) -> Swept:
    """The same of a sweep's directory; UsageError also when it has got more rows since."""
    found = read(file)
    folder = file.parent / PARTS
    if folder.is_dir() and parts(file.parent) != found.facts.parts:
        raise UsageError(f"{file} is older than the rows beside it: {remake(file.parent)}")
    return found


def parts(directory: Path) -> int:
    """How many finished files of rows are in a sweep's directory."""
    return sum(1 for _ in (directory / PARTS).glob("[!.]*.parquet"))


def remake(directory: Path) -> str:
    """What makes FILE."""
    return f"./pvsync sweep FILE.toml --out {directory} --report writes it"
