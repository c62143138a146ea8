# SPDX-License-Identifier: GPL-2.0-only
"""Hypercalls made on purpose by the guest module hypercall_torture, and their answers."""

import re
from collections.abc import Iterator

ENOSYS, EINVAL = -1000, -22
HELP, FEATURES, UNKNOWN, SHORT = 0x70760001, 0x70760000, 0x7076FFFF, 0x7076
ECS, GIVE_BACK, TLB = 0x70760003, 0x70760004, 0x70760005
ANSWER = re.compile(
    r"number (\w+), arguments (\w+) (\w+) (\w+) (\w+): (\d+) calls in 250 ms, "
    r"answer (-?\d+), others (\d+)"
)

Call = tuple[int, int, int, int, int]
"""Number and four arguments."""


def call(number: int, *arguments: int) -> Call:
    """A call whose other arguments are 0."""
    padded = (*arguments, 0, 0, 0, 0)
    return (number, padded[0], padded[1], padded[2], padded[3])


def command(wanted: Call, *, cpus: int = 0) -> str:
    """Guest command that makes a call for a quarter of a second, from so many CPUs (0: all)."""
    number, *arguments = wanted
    given = ",".join(map(str, arguments))
    return (
        f"modprobe hypercall_torture seconds=0 ms=250 nr={number} args={given} cpus={cpus}; "
        "rmmod hypercall_torture"
    )


def said(output: str) -> Iterator[tuple[Call, int, int, int]]:
    """Each loop's call, how often it was made, the first answer, and how many others came."""
    for number, a0, a1, a2, a3, calls, answer, others in ANSWER.findall(output):
        key = (int(number, 16), int(a0, 16), int(a1, 16), int(a2, 16), int(a3, 16))
        yield key, int(calls), int(answer), int(others)


def answers(output: str, at_least: int = 100) -> dict[Call, int]:
    """What the calls got; all calls of one kind must have got the same."""
    found: dict[Call, int] = {}
    for key, calls, answer, others in said(output):
        assert calls >= at_least, output
        assert others == 0, output
        assert found.setdefault(key, answer) == answer, output
    return found


def times(output: str, wanted: Call) -> int:
    """How often a call was made, by all guests."""
    return sum(calls for key, calls, _answer, _others in said(output) if key == wanted)
