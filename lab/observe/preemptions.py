# SPDX-License-Identifier: GPL-2.0-only
"""Why vCPUs lost their CPUs: figures of the host's counters `preempt_*` and `extend_*`.

The counters are what was added in some time; what a kernel does not have, or
what is unknown, is missing or None, and so is every figure of it.
"""

from collections.abc import Mapping

from lab.core.cells import Preemptions
from lab.core.model import Which
from lab.observe.counters import add, ratio

SECTIONS = ("irq", "lock", "reader", "rcu", "mutex")
"""Kinds that are inside a critical section and could leave it; `stuck` could not."""
INSIDE = (*SECTIONS, "stuck")
"""All kinds that are inside a critical section."""
KINDS = (*INSIDE, "waiter", "kernel", "user", "unknown")
"""What vCPUs did that were preempted, each a counter `preempt_KIND`."""
COUNTERS = ("preempt_", "extend_")
"""How the names of the counters begin."""

Counts = Mapping[str, int | None]
"""Counter to what was added."""


def are_counted(count: Counts) -> bool:
    """Whether the kernel has these counters at all."""
    return any(name.startswith(COUNTERS) for name in count)


def kinds(count: Counts) -> dict[str, int | None]:
    """Preemptions of each kind."""
    return {kind: count.get(f"preempt_{kind}") for kind in KINDS}


def unavoidable(count: Counts, inside: tuple[str, ...]) -> int | None:
    """Preemptions of the kinds `inside`, none of which was put off until its section was left."""
    return add(count.get(f"preempt_{kind}") for kind in inside)


def _share_avoided(count: Counts, inside: int | None) -> float | None:
    """Share of the loans that avoided a preemption, of these and of the preemptions `inside`.

    A loan that expired avoided none, whatever kind its vCPU is. With pvsync.extend=kernel it may
    be in its kernel in no section.
    """
    late, expired = count.get("extend_avoided"), count.get("extend_expired")
    lost = None if inside is None or expired is None else max(inside, expired)
    return ratio(late, add((late, lost)))


def avoided(count: Counts) -> float | None:
    """Share of the preemptions in sections that could be left that were put off until they were.

    At least that, 0 to 1. A loan that expired did not avoid one. If its vCPU had come to wait with
    a lock meanwhile, it counts as `stuck` and not as one of SECTIONS. So as many as there are of
    both are added. One that has expired in its section may be counted twice.
    """
    expired, stuck = count.get("extend_expired"), count.get("preempt_stuck")
    waiting = None if expired is None or stuck is None else min(expired, stuck)
    return _share_avoided(count, add((unavoidable(count, SECTIONS), waiting)))


def avoided_with_stuck(count: Counts) -> float | None:
    """The same share of the preemptions in any section, of those that wait themselves too."""
    return _share_avoided(count, unavoidable(count, INSIDE))


def unmarked(count: Counts) -> float | None:
    """Share of the vCPUs that lost their CPU, by a yield too, that are not marked as preempted
    for their guest, 0 to 1."""
    lost = (*kinds(count).values(), count.get("preempt_yielded"))
    return ratio(add((count.get("preempt_unmarked"), count.get("yield_unmarked"))), add(lost))


def figures(count: Counts, seconds: float, cpu_s: float | None = None,
            vms: Which = "all") -> Preemptions:
    """Those of some time: its length, and the CPU time that the VMs got in it."""
    granted, extra_ns = count.get("extend_granted"), count.get("extend_ns")
    return Preemptions(
        vms=vms,
        per_s=ratio(add(kinds(count).values()), seconds),
        kinds={kind: ratio(number, seconds) for kind, number in kinds(count).items()},
        avoided=avoided(count),
        avoided_with_stuck=avoided_with_stuck(count),
        unavoidable_per_s=ratio(unavoidable(count, INSIDE), seconds),
        granted_per_s=ratio(granted, seconds),
        us_per_grant=ratio(extra_ns, None if granted is None else 1e3 * granted),
        borrowed=ratio(extra_ns, None if cpu_s is None else 1e9 * cpu_s),
        unmarked=unmarked(count),
    )
