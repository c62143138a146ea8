# SPDX-License-Identifier: GPL-2.0-only
"""Guests that make random hypercalls, write anything to the MSR and scribble over what they share.

The host stays well.
"""

import re
from dataclasses import dataclass

import pytest

from tests.kernel.conftest import HERE, NOISE, Lab, Result, kernel_memory

FUZZ = "modprobe hypercall_fuzz seconds={} calls={} seed={} && rmmod hypercall_fuzz"
MADE = "/run/made"
"""In a guest that has made its calls once."""
SAID = r"{} fuzz: seed (\d+): (\d+) accepted, (\d+) refused, (\d+) not offered, (\d+) unexpected"
WAYS = "hypercall", "MSR"
REFUSED = {f"{0x70760000 + index:#x}": "-1" for index in range(6)}
"""What hypercalls from user mode are answered: KVM_EPERM, whether their number exists or not."""
FAULT = re.compile(
    r"[1-9]\d* unexpected|user hypercall \w+: answer (?!-1\b)\S+"
    r"|: word \d+ of thread \d+ is 0x|: a record says "
    r"|WARNING: CPU|kernel BUG at|BUG: (?!soft lockup|workqueue lockup)|\bOops\b"
    r"|general protection fault|segfault at|list_(?:add|del) corruption|refcount_t:"
)
"""What a guest that got through leaves in outputs and consoles, its own or others'; not what a
machine that stood still leaves there."""
DATA = ("--workload", "data-beside-hostile", "--schemes", "guest-all", "--vms", "3", "--variant",
        "test")


LEAK = 64
"""Bytes that a call at least leaves which leaves something."""


@dataclass(frozen=True)
class Answers:
    """How many calls of one guest, or writes to its MSRs, got which kind of answer."""

    accepted: int
    refused: int
    not_offered: int
    unexpected: int


def command(*seeds: int, seconds: int, calls: int = 1_000_000_000) -> str:
    """Guest command that makes so many random calls on each CPU, with one seed after the other."""
    fuzz = (FUZZ.format(seconds, calls, seed) for seed in seeds)
    return "\n".join(("/usr/lib/pvsync/bin/user-hypercall", *fuzz,
                      "dmesg | grep -a ' fuzz: seed'"))


def answers(result: Result, scheme: str, *seeds: int, way: str = "hypercall") -> list[Answers]:
    """Those of each guest to each seed, all of which both must have used."""
    found = re.findall(SAID.format(way), result.guest_output(scheme))
    assert sorted(int(used) for used, *_ in found) == sorted(2 * seeds), result.output
    return [Answers(*map(int, numbers)) for _, *numbers in found]


def check_user_mode(result: Result, scheme: str) -> None:
    """No hypercall from user mode got through, in any guest."""
    said = re.findall(r"user hypercall (\w+): answer (-?\d+)", result.guest_output(scheme))
    assert len(said) == 2 * len(REFUSED) and dict(said) == REFUSED, said
    assert {answer for _number, answer in said} == {"-1"}, said


def check_well(result: Result) -> None:
    """Runs that a lost machine spoilt are repeated; no run, spoilt or not, saw a fault."""
    assert result.status == 0, result.output
    for pattern in ("raw/*/*.out", "boots/*/*console.log"):
        for file in result.directory.glob(pattern):
            found = FAULT.search(file.read_text(errors="replace"))
            assert found is None, f"{file}: {found}"
    result.check_log()


def check_no_leak(result: Result, scheme: str, calls: int) -> None:
    """The host's kernel has not grown by what every sixteenth call would have left."""
    (run,) = result.runs(scheme)
    grown = kernel_memory(result, run, "after") - kernel_memory(result, run, "before")
    print(f"after {calls} calls the kernel has {grown} bytes more")
    assert grown < NOISE + LEAK * calls // 16, (grown, calls)


@pytest.mark.sampled
def test_random_hypercalls(lab: Lab) -> None:
    result = lab(str(HERE / "hostile.toml"), "--cmd", command(1, 2, seconds=8))
    check_well(result)
    made = 0
    for way in WAYS:
        for one in answers(result, "host-all", 1, 2, way=way):
            assert one.unexpected == 0, f"{way}: {one}"
            assert min(one.accepted, one.refused) > 100, f"{way}: {one}"
            assert (one.not_offered > 100) == (way == "hypercall"), f"{way}: {one}"
            made += one.accepted + one.refused
        for one in answers(result, "host-none", 1, 2, way=way):
            assert one.accepted == one.refused == one.unexpected == 0 < one.not_offered, (
                f"{way}: {one}")
    check_no_leak(result, "host-all", made)
    seen = result.cell("host-all", 2)["observed"]["host"]
    assert seen["tlb_calls"] > 0 and seen["spin_events"] > 0 and seen["extend_granted"] > 0, seen
    for scheme in ("host-all", "host-none"):
        check_user_mode(result, scheme)


def check_data(result: Result) -> None:
    """The first guest read its memory again and again, and the others were hostile meanwhile."""
    check_well(result)
    assert result.cell("guest-all", 3)["values"], result.output
    seen = result.cell("guest-all", 3)["observed"]["host"]
    for counter in ("tlb_refused", "spin_help", "extend_expired"):
        assert seen[counter] > 0, f"{counter}: {seen}"


def test_data_of_a_neighbour(lab: Lab) -> None:
    check_data(lab("hostile", *DATA, "--boots", "1", "--reps", "1"))


@pytest.mark.soak
def test_data_of_a_neighbour_for_long(lab: Lab, length: int) -> None:
    check_data(lab("hostile", *DATA, "--boots", "1", "--reps", str(max(2, length // 30))))


@pytest.mark.soak
def test_a_million_random_hypercalls_with_the_address_sanitizer(lab: Lab) -> None:
    """All vCPUs of two guests, until each guest has made half a million.

    The one that is first goes on in short pieces: it cannot be stopped in the midst of one.
    """
    once = f"[ ! -e {MADE} ] || exec sh -c '{FUZZ.format(10, 125_000, 4)}'; touch {MADE}\n"
    result = lab(str(HERE / "hostile_kasan.toml"), "--cmd",
                 once + command(3, seconds=3000, calls=125_000), "--timeout", "3600")
    assert result.status == 0, result.output
    made = [one for way in WAYS for one in answers(result, "host-all", 3, way=way)]
    assert sum(one.accepted + one.refused + one.not_offered for one in made) >= 1_000_000, made
    assert all(one.unexpected == 0 for one in made), made
    result.check_log()
