# SPDX-License-Identifier: GPL-2.0-only
"""The data of sweeps: the file, settings, runs with their content keys, units of work."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property

from lab.core.model import Experiment, Scheme, Workload
from lab.plan import machine_model

Value = int | str
"""Of a parameter, as the file has it."""
KEY_DIGITS = 16


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
    machines: tuple[str, ...] = (machine_model.DEFAULT,)
    guest_mem: int = Experiment.guest_mem
    max_repeats: int = 1
    per_boot: int = 24
    """Most runs of one boot of a host."""
    variant: str = Experiment.variant
    host_variant: str = Experiment.host_variant
    search: Search | None = None
    cluster: dict[str, int | float | bool | str] = field(default_factory=dict)
    """Options of the class that --cluster names."""


@dataclass(frozen=True)
class Setting:
    """A scheme with values of its own."""

    scheme: Scheme
    """As it is played: the values are in it."""
    values: tuple[tuple[str, str], ...] = ()
    """What was given by the sweep: parameter and value."""

    @property
    def label(self) -> str:
        """For tables."""
        return " ".join([self.scheme.name, *(f"{name}={value}" for name, value in self.values)])

    def content(self) -> list[object]:
        """What is played, without names."""
        scheme = self.scheme
        return [scheme.guest, sorted(scheme.host.items()), scheme.cpu, scheme.neighbour,
                scheme.variant]


@dataclass(frozen=True)
class Build:
    """What runs boot, by content: as in a manifest."""

    kernel: str
    images: str
    emulator: str


@dataclass(frozen=True)
class Run:
    """One run, and all that its result follows from."""

    build: Build
    setting: Setting
    machine: str
    vcpus: int
    pcpus: int
    vms: int
    workload: Workload
    seed: int
    guest_mem: int
    variant: str
    host_variant: str

    @cached_property
    def key(self) -> str:
        """Its content's hash; names and descriptions are no part of it.

        Nor are the runs that its unit makes before it, how often a run may be repeated, how
        long guests may boot, and the lab's own commit. Each row names its unit and its commit.
        """
        return digest({
            "build": asdict(self.build), "machine": machine_content(self.machine),
            "vcpus": self.vcpus, "pcpus": self.pcpus, "vms": self.vms, "seed": self.seed,
            "guest_mem": self.guest_mem, "variant": [self.variant, self.host_variant],
            "scheme": self.setting.content(), "workload": workload_content(self.workload),
        })


@dataclass(frozen=True)
class Unit:
    """One boot of a host with its guests, and the runs that they make."""

    runs: tuple[Run, ...]

    @cached_property
    def key(self) -> str:
        """Of its runs' keys: order counts, as it does for what they find."""
        return digest([run.key for run in self.runs])


@cache
def machine_content(name: str) -> tuple[str, str]:
    """The numbers of a machine model."""
    model = machine_model.load(name)
    return model.icount(0), model.cpu()


def workload_content(load: Workload) -> list[object]:
    """What is run, how its figure is read and for how long it may run, without names."""
    return [load.command, load.setup, load.neighbour, load.pattern, load.packages, load.metric,
            load.unit, load.better, load.timeout_s]


def digest(value: object) -> str:
    """Hash of anything that JSON can hold."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
