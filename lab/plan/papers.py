# SPDX-License-Identifier: GPL-2.0-only
"""The papers that are reproduced: which experiment makes each row, and what the paper says.

`lab/papers/NAME.toml` is one paper. A row is one of its tables or figures, made by an experiment
of the lab; its claims are the numbers that the paper gives for it. Rows that nobody can make here
are in the file, too, with the reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Literal

from lab.core import paths
from lab.core.errors import UsageError
from lab.core.model import Experiment
from lab.core.words import many
from lab.plan import config

PAPERS = paths.LAB / "papers"
Measure = Literal["performance", "flush mean", "flush p90", "flush max", "waiters", "spinning",
                  "avoided", "uneven", "lent", "long waits", "long waiting"]
"""What is compared: the workload's figure, turned so that more is better; times of remote TLB
flushes; of waits past the stall threshold, the per cent in which the lock was free; per cent of
their time that the measured guests spent spinning for locks; per cent of preemptions in
sections put off until the vCPU had left its section; per cent of a VM's CPU time by which that of
the first and the others' were apart after all windows, and that was lent; of waits for locks, the
per cent of 2^16 cycles or more; of their time, the per cent of waits of about a time slice."""
SHARES: tuple[Measure, ...] = ("waiters", "spinning", "avoided", "uneven", "lent", "long waits",
                               "long waiting")
"""Measures that are compared as they are, in per cent, not over another scheme's."""


@dataclass(frozen=True)
class Claim:
    """One number of a paper."""

    scheme: str
    value: float
    """How many times better than `against`, or per cent for one of SHARES."""
    vms: int
    against: str = ""
    measure: Measure = "performance"
    workload: str = ""
    """Of the row's, where it has several."""
    most: float = 0.0
    """The upper end where the paper gives a range from `value` on; 0 without."""
    says: str = ""
    """The paper's own wording, where the number stands for a sentence."""
    against_vms: int = 0
    """VMs of `against`, where they are others. A ratio of performance is over the VM's share then:
    of two VMs over one, it is 1 if each has half of what the one has."""

    @property
    def other_vms(self) -> int:
        """VMs of `against`."""
        return self.against_vms or self.vms

    @property
    def over(self) -> str:
        """What it is compared with, as its page shows it; nothing of a share."""
        return self.against + (f", {many(self.against_vms, 'VM')}" if self.against_vms else "")


@dataclass(frozen=True)
class Size:
    """How large a row's experiment is made; 0 and () leave it as it is otherwise."""

    vms: tuple[int, ...] = ()
    vcpus: int = 0
    pcpus: int = 0
    seeds: int = 0

    def over(self, other: "Size") -> "Size":
        """This one, and the other where it says nothing."""
        return Size(*(getattr(self, one.name) or getattr(other, one.name) for one in fields(self)))


@dataclass(frozen=True)
class Row:
    """A table or figure of a paper, and what makes it here."""

    name: str
    about: str
    experiment: str
    workloads: dict[str, str]
    """Each of the paper's kinds that is played, and what plays it with --quick; "" is nothing."""
    claims: tuple[Claim, ...]
    schemes: tuple[str, ...] = ()
    whole: Size = field(default_factory=Size)
    quick: Size = field(default_factory=Size)
    """As `whole`, but for what it says itself."""
    differs: str = ""
    """How the run differs from the paper's."""
    reason: str = ""
    """Why what was found is otherwise, once that was measured."""
    pin: bool = False
    """Tie vCPU i of each guest to CPU i."""

    @property
    def first(self) -> str:
        """The workload of a claim that names none."""
        return next(iter(self.workloads))

    @property
    def folder(self) -> str:
        """Of its results: its name in small letters, with dashes."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.name.lower()).split())

    def plan(self, quick: bool, seeds: int = 0) -> Experiment:
        """The experiment, with another number of seeds if one is given.

        UsageError when it does not exist or does not fit.
        """
        size = self.quick.over(self.whole) if quick else self.whole
        size = Size(seeds=seeds).over(size)
        names = tuple(filter(None, self.workloads.values())) if quick else tuple(self.workloads)
        return config.experiment(self.experiment, config.Overrides(
            schemes=self.schemes or None, workloads=names, vms=size.vms or None, reps=1,
            vcpus=size.vcpus or None, pcpus=size.pcpus or None, boots=size.seeds or None,
            pin=self.pin or None))

    def played(self, claim: Claim, quick: bool) -> str:
        """The workload that a claim is about, as it is played; "" when it is not."""
        name = claim.workload or self.first
        return self.workloads[name] if quick else name


@dataclass(frozen=True)
class Missing:
    """A row of the paper that is not made."""

    name: str
    why: str


@dataclass(frozen=True)
class Paper:
    """One paper."""

    name: str
    title: str
    source: str
    """Authors, where, when."""
    setting: str
    """The paper's machine and guests."""
    rows: tuple[Row, ...]
    missing: tuple[Missing, ...] = ()


def names() -> list[str]:
    """Of all papers."""
    return sorted(file.stem for file in PAPERS.glob("*.toml"))


def load(name: str) -> Paper:
    """The paper of that name; UsageError when there is none, or its file is wrong."""
    file = PAPERS / f"{name}.toml"
    if name not in names():
        raise UsageError(f"There is no paper '{name}' (known: {', '.join(names())}).")
    paper = config.named(Paper, file)
    for row in paper.rows:
        for quick in (False, True):
            _check(row, row.plan(quick), quick, f"lab/papers/{name}.toml: {row.name}")
    return paper


def pick_rows(paper: Paper, wanted: Iterable[str]) -> list[Row]:
    """Rows by the names of their folders, all if none is named; UsageError for an unknown one."""
    known = {row.folder: row for row in paper.rows}
    picked = [config.pick(name, known, "row", f"lab/papers/{paper.name}.toml") for name in wanted]
    return [row for row in paper.rows if row in picked or not picked]


def _check(row: Row, plan: Experiment, quick: bool, where: str) -> None:
    """UsageError unless every claim has its cells in the experiment, or is of the whole alone."""
    labels = {scheme.label for scheme in plan.schemes}
    for claim in row.claims:
        if claim.workload and claim.workload not in row.workloads:
            raise UsageError(f"{where}: no workload '{claim.workload}'.")
        for scheme in filter(None, (claim.scheme, claim.against)):
            if scheme not in labels:
                raise UsageError(f"{where}: the experiment has no scheme '{scheme}'.")
        for vms in (claim.vms, claim.other_vms):
            if not quick and vms not in plan.vms:
                raise UsageError(f"{where}: the experiment has no cell with {vms} VMs.")
        if (claim.measure in SHARES) == bool(claim.against):
            raise UsageError(f"{where}: {claim.measure} of {claim.scheme}: 'against' is for"
                             " ratios, and they need it.")
        if claim.against and claim.most and not 1 < claim.value <= claim.most:
            raise UsageError(f"{where}: {claim.scheme}: a ratio's range is above 1, and rises.")
        if claim.against_vms and not claim.against:
            raise UsageError(f"{where}: {claim.scheme}: 'against_vms' needs 'against'.")
        if (claim.against, claim.other_vms) == (claim.scheme, claim.vms):
            raise UsageError(f"{where}: {claim.scheme} is compared with itself.")
