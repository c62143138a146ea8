# SPDX-License-Identifier: GPL-2.0-only
"""The data that the steps of the lab hand to each other.

`config` reads the first group from TOML, `runner` writes the second group as
JSON, `report` reads it back. Times are seconds, memory is MiB.
"""

from dataclasses import dataclass, field
from typing import Literal

Better = Literal["lower", "higher"]
Backend = Literal["vt", "tcg", "kvm", "local"]
"""Virtual time, the emulator in real time, nesting on hardware, this machine itself."""
Observe = bool | Literal["locks", "tlb", "ecs"]
"""What guests are made to count: nothing (False), their locks, the times of their
remote TLB flushes, those of the wake-ups of parked waiters, or all of it (True)."""
Disturbance = Literal["parameters", "offers", "kill", "restore"]
"""What is done to guests while they are measured, see `disturb`."""
Which = Literal["all", "first", "others"]
"""Which VMs of a run."""
Paper = Literal["shoot4u"]
"""Whose published figures a report shows beside its own."""


@dataclass(frozen=True)
class Scheme:
    """A named set of parameters that is compared with others.

    `label` differs from `name` only when one scheme is listed twice, to be
    compared with itself: then the second is "name:2".
    """

    name: str
    about: str
    guest: tuple[str, ...] = ()
    """Boot arguments of the guests' kernel."""
    host: dict[str, str] = field(default_factory=dict)
    """Host parameters, name to value, written before a run; "vm.name" is the
    VM's own, for the guests of this scheme alone, and "vcpu.name" is of its vCPUs' threads."""
    cpu: tuple[str, ...] = ()
    """Changes to the guests' CPU, as QEMU's -cpu takes them."""
    neighbour: tuple[str, ...] | None = None
    """Boot arguments of all guests but the first, unless they have the same (None)."""
    variant: str = ""
    """Kernel variant of its guests, unless it is the experiment's."""
    boot_s: float = 0
    """Seconds that a boot of its guests may take, unless they have as many as others (0)."""
    expect: dict[str, str] = field(default_factory=dict)
    """What guests have in force that is not what they ask for, see `in_force`: on purpose."""
    refused: tuple[str, ...] = ()
    """Host parameters whose values are wrong on purpose, to see them refused."""
    test_only: bool = False
    """Left out of listings; needs a test build of the kernel."""
    label: str = ""

    def boot_args(self, index: int) -> tuple[str, ...]:
        """Those of its guest number `index`, from 0."""
        return self.guest if index == 0 or self.neighbour is None else self.neighbour


@dataclass(frozen=True)
class Workload:
    """A command that runs in every guest, and the figure it prints."""

    name: str
    about: str
    command: str
    metric: str
    unit: str
    better: Better
    pattern: str
    """Regular expression with one group `value`; the last match in the
    output counts. Empty: the figure is the elapsed time of the command."""
    timeout_s: float
    packages: tuple[str, ...] = ()
    setup: str = ""
    """Run once in every guest before the first measured run."""
    neighbour: str = ""
    """What all guests but the first run instead, again and again; then only
    the first one's figure counts. Empty: all run the command."""
    paper: Paper | None = None
    """Whose experiment it follows, for the table of flush times."""


@dataclass(frozen=True)
class Experiment:
    """What is compared, on what, how often."""

    name: str
    about: str
    schemes: tuple[Scheme, ...]
    workloads: tuple[Workload, ...]
    vms: tuple[int, ...]
    vcpus: int
    pcpus: int
    reps: int
    """Valid runs wanted for a cell in one host boot."""
    boots: int
    """Host boots; a cell gets reps x boots values."""
    guest_mem: int = 256
    max_repeats: int = 3
    """How often one run may be repeated when it was invalid."""
    variant: str = "lab"
    """Kernel variant, see kernel/configs/variants.toml; of guests unless their scheme has one."""
    host_variant: str = ""
    """The host's, unless it is the same."""
    observe: Observe = False
    """Unless False, the kernels' counters are kept around every run, see `observed`."""
    window_ms: int = 0
    """Unless 0, the CPU time of every VM is noted so often during a run, see `windows`."""
    disturb: tuple[Disturbance, ...] = ()
    disturb_ms: int = 5000
    """When a guest is killed or restored at the latest, since its measured part began."""
    pin: bool = False
    """Whether vCPU i of each guest runs on pCPU i alone, counted round."""
    share: tuple[str, ...] = ()
    """Schemes that differ in the host alone, whose runs the guests of the first of them make.
    For tests: what a run leaves in a guest is there in the next one."""

    def owner(self, label: str) -> str:
        """The label of the scheme whose guests make the runs of this one."""
        shared = [s.label or s.name for s in self.schemes if s.name in self.share]
        return shared[0] if label in shared else label

    def guest_variants(self) -> tuple[str, ...]:
        """Kernel variants for guests: the experiment's first, then those of schemes, once each."""
        return tuple(dict.fromkeys((self.variant, *(s.variant for s in self.schemes if s.variant))))


@dataclass(frozen=True)
class GuestRun:
    """What one guest did in one run. Times are the host's monotonic clock."""

    guest: str
    began: float | None
    """The guest's first measured command was reported as started."""
    ended: float | None
    """... was reported as ended."""
    elapsed: float | None
    """Seconds that the command took by the guest's own clock."""
    status: int | None
    """Exit status of the command; None when it never ended."""
    output: str
    """File of the command's output, relative to the result directory."""
    cpu: float | None = None
    """Seconds of the host's CPUs that the guest's VM took from `began` to `ended`; None without
    CPU groups, or when it was restored meanwhile."""


@dataclass(frozen=True)
class RunRecord:
    """One iteration between barriers: every guest ran the command once.

    Each guest goes on running the command, unmeasured, until the last one
    has ended its measured one, so that all measured time is overlapped.
    """

    id: str
    boot: int
    rep: int
    attempt: int
    scheme: str
    """The scheme's label."""
    workload: str
    vms: int
    vcpus: int
    pcpus: int
    valid: bool
    reason: str
    """Why the run is invalid, one sentence; empty when it is valid."""
    guests: tuple[GuestRun, ...]
    overlap: float
    """Share of the measured time in which all guests were loaded, 0 to 1."""
    disturbed: dict[str, int] = field(default_factory=dict)
    """What was done to its guests meanwhile, and how often."""
    stalled: float | None = None
    """Seconds for which one of this machine's CPUs stood still at most, see `stalls`; None when
    that is not known."""
    seed: int | None = None
    """Of the interleaving in virtual time; None in real time."""
    snapshot: int | None = None
    """Seed of the boot that was saved and that the run's host went on from; None when the host
    booted itself."""


@dataclass(frozen=True)
class BootRecord:
    """One boot of the host, or of a guest when `guest` is not empty."""

    boot: int
    guest: str
    scheme: str
    ok: bool
    reason: str
    seconds: float


@dataclass(frozen=True)
class Manifest:
    """What a result directory was made with."""

    experiment: str
    schemes: tuple[Scheme, ...]
    workloads: tuple[Workload, ...]
    kernel: str
    """Release string and content hash of the kernel, and of the others if there are any."""
    base_version: str
    config_hash: str
    qemu: str
    machine: str
    """Processor, cores and memory of the machine that ran it; in virtual time the model's name."""
    backend: Backend
    commit: str
    command: tuple[str, ...]
    created: str
    vms: tuple[int, ...]
    vcpus: int
    pcpus: int
    reps: int
    boots: int
    baseline: str
    """Label of the first scheme."""
    observe: Observe = False
    window_ms: int = 0
    disturb: tuple[Disturbance, ...] = ()
    disturb_ms: int = 5000
    pin: bool = False
    guest_mem: int = Experiment.guest_mem
    unproven: tuple[str, ...] = ()
    """Labels of schemes whose guests' kernel does not tell what it has in force."""
    images: str = ""
    """Names of the host's and the guests' roots, which are hashes of what is in them."""
    snapshot: bool = False
    """All hosts go on from one boot that was saved."""
    variant: str = Experiment.variant
    host_variant: str = Experiment.host_variant
    share: tuple[str, ...] = ()
