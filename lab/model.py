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
    VM's own, for the guests of this scheme alone."""
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


@dataclass(frozen=True)
class Latency:
    """How long flushes took, nanoseconds."""

    mean_ns: float
    p50_ns: float
    """Percentiles are exact to one bucket of the kernel's histogram: 12.5 %."""
    p90_ns: float
    p99_ns: float
    max_ns: int


@dataclass(frozen=True)
class FlushTimes:
    """Remote TLB flushes of one mechanism in the valid runs of a cell."""

    mechanism: str
    calls: int
    wall: Latency
    """As the caller saw them."""
    ran: Latency
    """Without the time that the host took from the caller meanwhile."""
    buckets: tuple[tuple[int, int, int], ...]
    """Lower bound in nanoseconds, flushes by `wall`, flushes by `ran`; see
    `flushes.upper` for the upper bound."""


@dataclass(frozen=True)
class Preemptions:
    """How vCPUs lost their CPUs, and what the host did about it: medians of the runs.

    None where it is unknown, or where nothing was counted that it could be of.
    """

    vms: Which
    per_s: float | None
    """Of all kinds together, for each second."""
    kinds: dict[str, float | None]
    """Kind to how many for each second, see `preemptions.KINDS`."""
    avoided: float | None
    """Of those inside a critical section, the share that was put off until the vCPU had
    left it, 0 to 1; of the kind `stuck`, which waits, only those whose loan has expired."""
    avoided_with_stuck: float | None
    """The same, those of that kind counted as not put off."""
    unavoidable_per_s: float | None
    """Inside a section, `stuck` or not, and not put off until it was left: for each second."""
    granted_per_s: float | None
    """Times that one was put off, for each second."""
    us_per_grant: float | None
    """Microseconds that the vCPU ran on then, on average."""
    borrowed: float | None
    """Share of the VMs' CPU time that was borrowed so, 0 to 1."""
    unmarked: float | None
    """Of the vCPUs that lost their CPU, those that yielded it included, the share that
    their guest is not told of, 0 to 1."""


@dataclass(frozen=True)
class Windows:
    """CPU time of the first VM against the mean of the others, in short windows.

    Of the time in which every guest was measured. Differences are the first's time
    minus the others'; all but `worst` are medians of the runs.
    """

    number: float
    seconds: float
    """Length of all of them."""
    mean_ms: float
    """Size of the difference in a window, on average."""
    most_ms: float
    """The largest."""
    end_ms: float
    """Difference over all windows."""
    end: float
    """The same, over the mean CPU time of the VMs: 0.01 is 1 %."""
    worst: float
    """`end` of the run in which it was farthest from 0."""
    granted: float | None
    """Preemptions put off in a window, of all VMs, on average."""


@dataclass(frozen=True)
class CpuWaits:
    """How long vCPUs waited for a CPU, after a preemption or a wake-up: all runs together."""

    per_s: float | None
    """Waits for each second, of all VMs."""
    mean_ms: float | None
    """None without a wait, as the next."""
    p99_ms: float | None
    """99 of 100 waits were no longer: where the bin ends, a power of two of microseconds."""
    longest_ms: float
    """Of all VMs and runs."""
    vms_longest_ms: tuple[float, ...]
    """Of each VM, the first one first."""


@dataclass(frozen=True)
class WindowCost:
    """Epochs whose spins reached about one window, of all VMs and valid runs of a cell."""

    window: int
    """Cycles, the nearest multiple of `epochs.STEP`."""
    epochs: int
    median: float
    """Of their inefficiencies, 0 to 1."""
    quartiles: tuple[float, float]
    """The first and the third."""


@dataclass(frozen=True)
class Observed:
    """What the kernels counted in the valid runs of a cell.

    A sum is None when a part of it is unknown.
    """

    spinning: float | None
    """Share of the guests' time in which they spun for locks, 0 to 1: the median of the runs."""
    counters: dict[str, int | None]
    """The guests': what the runs added, over guests and runs."""
    waits: tuple[tuple[int, int, int], ...]
    """Bin of the guests' histogram, waits in it, the cycles they took: as `counters`."""
    host: dict[str, int | None]
    """The host's counters: what the runs added."""
    share_deviation: float | None
    """Distance of a VM's CPU time from the VMs' mean, at most, over it: the median of the runs."""
    flushes: tuple[FlushTimes, ...] | None = None
    """Of the guests whose figure counts, over all runs: all together first, then, when there
    are several, each mechanism. None when not timed, or unknown in one guest of one run."""
    preemptions: tuple[Preemptions, ...] | None = None
    """Of all VMs; then, if they differ, of the first and of the others. None when the host
    does not count them."""
    windows: Windows | None = None
    """None without windows, or with one VM."""
    cpu_waits: CpuWaits | None = None
    """None when the host does not tell, or not of each VM in each run."""
    window_costs: tuple[WindowCost, ...] = ()
    """By window; empty when no epoch ended in a run, or the host does not tell."""


@dataclass(frozen=True)
class Cell:
    """One row of summary.json; see docs/experiments.md for the format."""

    scheme: str
    workload: str
    vms: int
    vcpus: int
    pcpus: int
    metric: str
    unit: str
    better: Better
    values: tuple[float, ...]
    """One per valid run: the mean over the guests of that run."""
    median: float | None
    mean: float | None
    ideal: float | None
    vs_baseline: float | None
    """Median over the baseline's median, minus 1 (0.25 is 25 % more)."""
    significant: bool
    invalid_runs: int
    spread: float | None
    """Half the inter-quartile range over the median."""
    fairness: float | None
    """Largest over smallest of the per-VM medians."""
    p_value: float | None = None
    """Of the difference from the baseline, after correction; None if untested."""
    min: float | None = None
    max: float | None = None
    bimodal: bool = False
    """Whether the values have two modes, see `modes`."""
    placebo_spread: float | None = None
    """How far the farthest placebo of its workload and number of VMs is from the baseline."""
    observed: Observed | None = None
    """None when the experiment did not observe, and without valid runs."""
    disturbed: dict[str, int] = field(default_factory=dict)
    """What was done to the guests of the valid runs meanwhile, and how often."""
