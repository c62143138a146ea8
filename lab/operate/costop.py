# SPDX-License-Identifier: GPL-2.0-only
"""Co-stop of a KVM host's VMs from what its scheduler did: pure functions.

VMware's %CSTP is the time in which a vCPU could run, but its scheduler has it wait until enough
CPUs are free for its siblings, too (VMware's KB 1017926). Linux keeps no vCPU from running for
such a reason. So these two figures are not %CSTP, but of the same trouble:

    ran beside     a vCPU had a CPU while at least one sibling of its VM waited for one
    waited beside  a vCPU waited for a CPU while at least one sibling of its VM had one

The first may be spent on waiting for that sibling, or on useful work: no stock kernel knows.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.observe.counters import ratio


class State(enum.Enum):
    """What a thread does."""

    UNKNOWN = "unknown"
    SLEEPS = "sleeps"
    WAITS = "waits"
    """For a CPU."""
    RUNS = "runs"


@dataclass(frozen=True)
class Switch:
    """A CPU goes from one thread to the next; times are nanoseconds of any one clock."""

    at_ns: int
    cpu: int
    left: int
    """Thread that had the CPU."""
    runnable: bool
    """Whether that one would run on."""
    next: int


@dataclass(frozen=True)
class Wake:
    """A thread wants a CPU from now on."""

    at_ns: int
    cpu: int
    """Where somebody woke it."""
    thread: int


@dataclass(frozen=True)
class Lost:
    """Events of a CPU are missing here: from here on nothing is known of any thread."""

    cpu: int
    events: int


Event = Switch | Wake | Lost


@dataclass
class Times:
    """Of a vCPU, nanoseconds, out of the time in which all vCPUs of its VM were known."""

    ran_ns: int = 0
    waited_ns: int = 0
    ran_beside_ns: int = 0
    waited_beside_ns: int = 0


@dataclass(frozen=True)
class Costop:
    """A VM over some time."""

    vcpus: tuple[Times, ...]
    """In the order in which they were given."""
    known_ns: int
    """In which it was known of each vCPU what it did; all shares are of this."""
    unknown_ns: int
    lost: int
    """Events of the whole host that were lost: with any, the figures are doubtful."""

    @property
    def ran_beside(self) -> float | None:
        """Share of the vCPUs' known time, 0 to 1; None if there was none."""
        return self._share(sum(one.ran_beside_ns for one in self.vcpus))

    @property
    def waited_beside(self) -> float | None:
        """Likewise."""
        return self._share(sum(one.waited_beside_ns for one in self.vcpus))

    @property
    def unknown(self) -> float | None:
        """Share of the time in which it was not known of each vCPU what it did."""
        return ratio(self.unknown_ns, self.known_ns + self.unknown_ns)

    def _share(self, part_ns: int) -> float | None:
        return ratio(part_ns, self.known_ns * len(self.vcpus))


@dataclass
class _Vm:
    states: list[State]
    times: list[Times]
    at_ns: int
    known_ns: int = 0
    unknown_ns: int = 0

    def until(self, at_ns: int) -> None:
        """Account what was so from the last event to this one; time never goes back."""
        passed = at_ns - self.at_ns
        if passed <= 0:
            return
        self.at_ns = at_ns
        if State.UNKNOWN in self.states:
            self.unknown_ns += passed
            return
        self.known_ns += passed
        runs, waits = State.RUNS in self.states, State.WAITS in self.states
        for state, times in zip(self.states, self.times, strict=True):
            if state is State.RUNS:
                times.ran_ns += passed
                times.ran_beside_ns += passed if waits else 0
            elif state is State.WAITS:
                times.waited_ns += passed
                times.waited_beside_ns += passed if runs else 0


@dataclass
class Account:
    """Takes events one by one, and keeps nothing of them but sums."""

    machines: Mapping[int, Sequence[int]]
    """Any number of a VM to the threads of its vCPUs."""
    begin_ns: int
    states: Mapping[int, State]
    """Of threads at the beginning; any other is unknown until its first event."""
    lost: int = 0
    _vms: dict[int, _Vm] = field(init=False)
    _places: dict[int, tuple[_Vm, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._vms = {number: _Vm([self.states.get(tid, State.UNKNOWN) for tid in threads],
                                 [Times() for _ in threads], self.begin_ns)
                     for number, threads in self.machines.items()}
        self._places = {tid: (self._vms[number], place)
                        for number, threads in self.machines.items()
                        for place, tid in enumerate(threads)}

    def take(self, event: Event) -> None:
        """The next event; one that is older than the last of its VM counts as just after it."""
        if isinstance(event, Lost):
            self.lost += event.events
            for vm in self._vms.values():
                vm.states = [State.UNKNOWN] * len(vm.states)
        elif isinstance(event, Wake):
            self._set(event.at_ns, event.thread, State.WAITS, woken=True)
        else:
            self._set(event.at_ns, event.left, State.WAITS if event.runnable else State.SLEEPS)
            self._set(event.at_ns, event.next, State.RUNS)

    def _set(self, at_ns: int, thread: int, state: State, woken: bool = False) -> None:
        if thread not in self._places:
            return
        vm, place = self._places[thread]
        if woken and vm.states[place] is State.RUNS:  # it is only told to stay
            return
        vm.until(at_ns)
        vm.states[place] = state

    def result(self, end_ns: int) -> dict[int, Costop]:
        """Each VM until then."""
        for vm in self._vms.values():
            vm.until(end_ns)
        return {number: Costop(tuple(vm.times), vm.known_ns, vm.unknown_ns, self.lost)
                for number, vm in self._vms.items()}
