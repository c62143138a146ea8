# SPDX-License-Identifier: GPL-2.0-only
"""The files of lab/sweeps as data: what is varied, what is played, and which are the defaults."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lab.core.model import Experiment
from lab.plan import machine_model

Value = int | str
"""Of a parameter, as the file has it."""
PARTS = "parts"
"""Folder of a sweep's rows, in its directory."""


@dataclass(frozen=True)
class Span:
    """Where a search looks for a parameter's value: whole numbers, or one of several words."""

    low: int = 0
    high: int = 0
    log: bool = False
    """Whether twice as much is as far everywhere."""
    step: int = 1
    words: tuple[Value, ...] = ()
    """Instead of numbers."""
    prefix: str = ""
    """Stands before the number, as `fixed:` does."""


@dataclass(frozen=True)
class Search:
    """How a search goes. It looks at the file's `workloads` and is judged by `held_out`."""

    trials: int
    held_out: tuple[str, ...]
    """Workloads that no trial saw; they decide between the best and what there was."""
    host: dict[str, Span] = field(default_factory=dict)
    guest: dict[str, Span] = field(default_factory=dict)
    width: int = 8
    """Trials at a time."""
    keep: float = 0.5
    """Share of a wave that goes on after each rung; a rung is one more seed."""
    finalists: int = 3
    """So many of the best are judged."""
    held_seeds: int = 3
    """Seeds of the judgement, other ones than the trials'."""
    sampler_seed: int = 1


@dataclass(frozen=True)
class Hunt:
    """Makes a sweep a hunt for faults: it compares nothing, and its page lists what failed."""

    seeds_a_boot: int = 25
    """So many seeds go on from one boot of a host, which is saved."""


@dataclass(frozen=True)
class Sweep:
    """A file of lab/sweeps."""

    name: str
    about: str
    schemes: tuple[str, ...]
    """The first is what others are compared with."""
    workloads: tuple[str, ...]
    vms: tuple[int, ...]
    vcpus: tuple[int, ...]
    pcpus: tuple[int, ...]
    seeds: int
    """Interleavings: the seeds 1 to so many."""
    vary: tuple[str, ...] = ()
    """Schemes that get the values of `guest` and `host`; others stay as they are."""
    guest: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    """Boot arguments, and the values that each takes."""
    host: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    """Host parameters, likewise."""
    default: dict[str, Value] = field(default_factory=dict)
    """Of these, the values that the project has by default."""
    as_is: bool = False
    """Whether the schemes in `vary` are also played as they are, which is then the default."""
    limit: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Of workloads, figures that a service must not pass, in the figure's unit."""
    machines: tuple[str, ...] = (machine_model.DEFAULT,)
    guest_mem: int = Experiment.guest_mem
    max_repeats: int = 1
    per_boot: int = 24
    """Most runs of one boot of a host."""
    variant: str = Experiment.variant
    host_variant: str = Experiment.host_variant
    search: Search | None = None
    hunt: Hunt | None = None
    cluster: dict[str, Any] = field(default_factory=dict)
    """Options of the class that --cluster names, lists and tables among them, as it wants them."""

    def defaults(self) -> dict[str, str]:
        """Of each varied scheme the setting of the project's defaults; none where none is named."""
        if self.search or self.as_is:
            return {name: label(name, ()) for name in self.vary}
        values = [(name, self.default[name]) for name in (*self.guest, *self.host)
                  if name in self.default]
        return {name: label(name, values) for name in self.vary} if values else {}


def label(scheme: str, values: Iterable[tuple[str, Value]]) -> str:
    """What a scheme with these values is called in tables."""
    return " ".join([scheme, *(f"{name}={value}" for name, value in values)])
