# SPDX-License-Identifier: GPL-2.0-only
"""What a cell of the table is made of: its values, and what the kernels counted in its runs."""

from dataclasses import dataclass, field

from lab.core.model import Better, Which


def overcommit(vms: int, vcpus: int, pcpus: int) -> float:
    """CPUs wanted per CPU there, at least 1: how much longer fair sharing takes."""
    return max(1.0, vms * vcpus / pcpus)


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
class Spent:
    """What the vCPUs of a VM did in a run that was traced: nanoseconds of all of them together."""

    vm: str
    vcpus: int
    window_ns: int
    """Length of the time that was looked at."""
    causes: dict[str, int]
    """By cause, see `wait_causes.Cause`: together the window of each vCPU."""
    places: dict[str, dict[str, int]]
    """By cause those places in the guest's kernel that most of it is of."""


@dataclass(frozen=True)
class Waits:
    """What the vCPUs of a cell waited for, in those of its runs that were traced."""

    vms: Which
    runs: int
    causes: dict[str, float]
    """Per cent of the vCPUs' time, by cause."""


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
    busy: float | None = None
    """CPUs that a VM takes in the measured part: the mean of the VMs, the median of the runs."""
    waits: tuple[Waits, ...] = ()
    """Of all VMs; then, if they differ, of the first and of the others. Empty without a trace."""
    disturbed: dict[str, int] = field(default_factory=dict)
    """What was done to the guests of the valid runs meanwhile, and how often."""

    @property
    def relative_load(self) -> float:
        """The overcommit over that of one such VM."""
        return (overcommit(self.vms, self.vcpus, self.pcpus)
                / overcommit(1, self.vcpus, self.pcpus))
