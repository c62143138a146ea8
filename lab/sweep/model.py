# SPDX-License-Identifier: GPL-2.0-only
"""The data of sweeps: settings, runs with their content keys, units of work."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache, cached_property

from lab.core.model import Scheme, Workload
from lab.plan import machine_model, sweeps

KEY_DIGITS = 16


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
        return sweeps.label(self.scheme.name, self.values)

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
    of_boot: int = 0
    """So many seeds go on from one saved boot; 0 where each seed boots a host of its own."""

    @property
    def boot_seed(self) -> int:
        """The first seed of those that share its boot."""
        return self.seed - (self.seed - 1) % self.of_boot if self.of_boot else self.seed

    @cached_property
    def key(self) -> str:
        """Its content's hash; names and descriptions are no part of it.

        Nor are the runs that its unit makes before it, how often a run may be repeated, how
        long guests may boot, and the lab's own commit. Each row names its unit and its commit.
        """
        shared = {"of_boot": self.of_boot} if self.of_boot else {}
        return digest(shared | {
            "build": asdict(self.build), "machine": machine_content(self.machine),
            "vcpus": self.vcpus, "pcpus": self.pcpus, "vms": self.vms, "seed": self.seed,
            "guest_mem": self.guest_mem, "variant": [self.variant, self.host_variant],
            "scheme": self.setting.content(), "workload": workload_content(self.workload),
        })


@dataclass(frozen=True)
class Unit:
    """One boot of a host with its guests, and the runs that they make."""

    runs: tuple[Run, ...]

    @property
    def seeds(self) -> list[int]:
        """Of its runs, in order: one, or all that go on from its boot."""
        return sorted({run.seed for run in self.runs})

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
