# SPDX-License-Identifier: GPL-2.0-only
"""Which runs an experiment is made of, in which order. Pure functions."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lab.core.model import Experiment, GuestRun, RunRecord

MIN_OVERLAP = 0.9
"""A run in which less of the measured time was overlapped is invalid."""


@dataclass(frozen=True)
class PlannedRun:
    """One iteration that has to become valid once."""

    boot: int
    """Which of the experiment's host boots, from 0."""
    rep: int
    scheme: str
    """The scheme's label."""
    workload: str
    vms: int

    @property
    def key(self) -> str:
        """Unique in the experiment, fit for a file name."""
        scheme = self.scheme.replace(":", "~")
        return f"b{self.boot}-r{self.rep}-{self.workload}-v{self.vms}-{scheme}"

    def run_id(self, attempt: int) -> str:
        """Id of one try at it, from 0."""
        return f"{self.key}-a{attempt}"


def planned(record: RunRecord) -> PlannedRun:
    """The planned run that a record is a try at.

    Hosts are numbered apart from that: one that was lost has a number, too.
    """
    number = int(record.id[1:record.id.index("-")])
    return PlannedRun(number, record.rep, record.scheme, record.workload, record.vms)


def key_of(run_id: str) -> str:
    """The planned run's key in the id of a try."""
    return run_id.rpartition("-a")[0]


def plan(experiment: Experiment, seed: int) -> tuple[PlannedRun, ...]:
    """All runs in order.

    Within one repetition the groups (workload, number of VMs) come in random
    order, and so do the schemes in each: those that are compared run one
    after the other, and none always first.
    """
    runs = []
    for boot in range(experiment.boots):
        for rep in range(experiment.reps):
            order = random.Random(f"{seed}/{boot}/{rep}")
            groups = [(w.name, vms) for w in experiment.workloads for vms in experiment.vms]
            order.shuffle(groups)
            for workload, vms in groups:
                labels = [s.label or s.name for s in experiment.schemes]
                order.shuffle(labels)
                runs += [PlannedRun(boot, rep, label, workload, vms) for label in labels]
    return tuple(runs)


def attempts(records: Iterable[RunRecord]) -> Counter[str]:
    """How often each planned run was tried, by key."""
    return Counter(key_of(record.id) for record in records)


def remaining(planned: Iterable[PlannedRun], records: Iterable[RunRecord]) -> list[PlannedRun]:
    """Those that have no valid record yet, in order."""
    done = {key_of(record.id) for record in records if record.valid}
    return [run for run in planned if run.key not in done]


def overlap(guests: Iterable[GuestRun]) -> float:
    """Share of the measured time in which every guest was loaded, 0 to 1.

    Each guest is loaded from its start until all are stopped together, so
    what is not overlapped is the time before the last guest started.
    """
    spans = [(g.began, g.ended) for g in guests]
    begun = [began for began, _ in spans if began is not None]
    if not spans or len(begun) < len(spans):
        return 0.0
    common = max(begun)
    measured = shared = 0.0
    for began, ended in spans:
        if began is None or ended is None or ended <= began:
            return 0.0
        measured += ended - began
        shared += max(0.0, ended - max(began, common))
    return shared / measured
