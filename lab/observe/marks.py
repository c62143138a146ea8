# SPDX-License-Identifier: GPL-2.0-only
"""Whether guests see the marks of preempted vCPUs that their host says it gives.

A guest's kernel looks for them (kernel/overlay/kernel/pvsync/mark_stat.c), and counts. The host
counts which vCPUs it has preempted and marked. `unseen` compares the two: parameters may be in
force, and flags set, while the byte that the guest reads stays what it was.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from lab.observe.counters import pairs
from lab.observe.observed import DEBUGFS, sections, vm_file
from lab.observe.preemptions import KINDS

SWITCH = f"[ ! -e {DEBUGFS}/mark_stat ] || echo 1 >{DEBUGFS}/mark_stat"
"""Guest command that has its kernel look from now on, if it can."""
READ = f"grep ^mark_ {DEBUGFS}/counters 2>/dev/null"
"""Guest command for `tallies`."""
PROMISES = ("exit",)
"""Values of the host's parameter `mark` for which nearly all that lose their CPU are marked.

With `yield` those are that yield, for a shorter time than others wait. How much shorter is not
known, and so not how many of them should be seen."""
EACH_S = 0.010
"""Seconds from one look of a guest at all its vCPUs to the next, at least."""
ENOUGH = 100
"""vCPUs that lost their CPU, were marked, and should have been seen so, from which on it proves
something that none was.

If whether one is seen says nothing of another, none of so many is seen once in e^100 times. vCPUs
of a VM lose and get their CPUs together, and then the one that looks finds the others running: if
but one in ten can be seen, it is once in e^10, or 22,000 runs."""
COUNTED = re.compile(r"^(mark_\w+) (\d+)$", re.ASCII | re.MULTILINE)
SCHEDSTAT = re.compile(r"(\d+) (\d+) (\d+)", re.ASCII)
UPTIME = re.compile(r"uptime (\d+\.\d+)", re.ASCII)


@dataclass(frozen=True)
class Tally:
    """A VM's numbers so far."""

    looks: int
    """Of the guest: for the mark of another vCPU."""
    seen: int
    """Marks that it found."""
    marked: int
    """Of the host: vCPUs that lost their CPU and are marked, as it says."""
    delay_ns: int
    """For how long its vCPUs have waited for a CPU."""
    turns: int
    """How often they have got one."""
    uptime_s: float


def promised(host: Mapping[str, str]) -> str:
    """The value with which a scheme's host marks more than KVM does by itself, or nothing."""
    value = host.get("vm.mark", host.get("mark", ""))
    return value if value in PROMISES else ""


def host_command(folders: Mapping[str, str]) -> str:
    """Host command for `tallies`; `folders` is guest to the debugfs folder of its VM."""
    steps = []
    for guest, folder in folders.items():
        threads = f"{shlex.quote(folder)}/vcpu*/pid"
        steps += [f"echo {shlex.quote(f'==> {guest} <==')}",
                  f"cat {shlex.quote(vm_file(folder))}",
                  f"cat {threads} | while read thread; do cat /proc/$thread/schedstat; done",
                  "echo uptime $(cut -d ' ' -f 1 /proc/uptime)"]
    return f"{{ {'; '.join(steps)}; }} 2>/dev/null" if steps else ":"


def _marked(count: Mapping[str, int]) -> int | None:
    """Of a VM's counters; None when it has not all of them."""
    lost = [count.get(f"preempt_{kind}") for kind in (*KINDS, "yielded")]
    without = [count.get(name) for name in ("preempt_unmarked", "yield_unmarked")]
    if None in lost or None in without:
        return None
    return sum(filter(None, lost)) - sum(filter(None, without))


def tallies(host: str, told: Mapping[str, str]) -> dict[str, Tally]:
    """By guest, from what `host_command` and, in each guest, READ say; only what is whole."""
    found = {}
    for guest, lines in sections(host).items():
        count = {name: int(n) for name, n in COUNTED.findall(told.get(guest, ""))}
        looks, seen = count.get("mark_looks"), count.get("mark_seen")
        marked = _marked(pairs([line for line in lines if not SCHEDSTAT.fullmatch(line)]))
        waits = [tuple(map(int, match.groups())) for match in map(SCHEDSTAT.fullmatch, lines)
                 if match]
        uptime = [float(match[1]) for match in map(UPTIME.fullmatch, lines) if match]
        if looks is None or seen is None or marked is None or not waits or not uptime:
            continue
        found[guest] = Tally(looks, seen, marked, sum(delay for _ran, delay, _turns in waits),
                             sum(turns for _ran, _delay, turns in waits), uptime[0])
    return found


def _to_be_seen(before: Tally, after: Tally, vcpus: int) -> float:
    """How many of the VM's marked vCPUs its guest should have seen between the two.

    A vCPU that lost its CPU waits as long as a mean wait, those of woken ones included. So a look
    at another vCPU finds a mark as often as marked ones wait of all the vCPUs' time. But
    each is counted once, however many looks it lasts; and there are none while the vCPU that looks
    is without a CPU itself, or idle.
    """
    marked, turns = after.marked - before.marked, after.turns - before.turns
    looks, seconds = after.looks - before.looks, after.uptime_s - before.uptime_s
    if min(marked, turns, looks) <= 0 or seconds <= 0 or vcpus < 2:
        return 0
    wait_s = (after.delay_ns - before.delay_ns) / turns / 1e9
    hits = looks * marked * wait_s / (vcpus * seconds)
    looked = min(1.0, looks * EACH_S / ((vcpus - 1) * seconds))
    return min(hits, marked * looked)


def unseen(before: Mapping[str, Tally], after: Mapping[str, Tally], vcpus: int) -> str:
    """Why a run is no proof that its guests were told of preempted vCPUs, or nothing.

    Nothing is demanded of guests that were booted or restored meanwhile, as their numbers went
    back, nor where too few vCPUs lost their CPU.
    """
    both = [(before[name], after[name]) for name in after if name in before]
    whole = [(a, b) for a, b in both if b.looks >= a.looks and b.marked >= a.marked]
    if sum(b.seen - a.seen for a, b in whole):
        return ""
    expected = sum(_to_be_seen(a, b, vcpus) for a, b in whole)
    if expected < ENOUGH:
        return ""
    looks = sum(b.looks - a.looks for a, b in whole)
    return (f"the host says that it marks preempted vCPUs, but its guests saw no mark in {looks}"
            f" looks, where some {expected:.0f} vCPUs with a mark were to be seen")
