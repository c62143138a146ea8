# SPDX-License-Identifier: GPL-2.0-only
"""What the programs say that are monitors of small machines, on a host of the lab or another."""

import re

CHECKS = 131
"""Lines of vm-memory-check."""
AWAITED = 5
"""Lines of vm-shootdown-check."""


def check_each_way(status: int, said: str) -> None:
    """What vm-memory-check said."""
    print(said)
    wrong = [line for line in said.splitlines() if not line.startswith("ok ")]
    assert (status, wrong) == (0, []), said
    assert len(said.splitlines()) == CHECKS, said


def check_awaited(status: int, said: str, *, busted: bool) -> None:
    """What vm-shootdown-check said, on a host that awaits nobody if it is busted."""
    print(said)
    wrong = [line.partition(":")[0] for line in said.splitlines() if not line.startswith("ok ")]
    assert (status, wrong) == ((1, ["not ok awaited", "not ok kept"]) if busted else (0, [])), said
    assert len(said.splitlines()) == AWAITED, said


def storm_counts(said: str) -> dict[str, int]:
    """The numbers that vm-memory-storm gave, all of which have to be there."""
    number = {name: int(value) for value, name in re.findall(r"(\d+) ([a-z ]+)", said)}
    number |= {name: int(value) for name, value in re.findall(r"(?m)^(\w+): (\d+)$", said)}
    assert number["unexpected"] == 0, said
    for name in ("ended", "killed", "accepted", "refused", "slots", "mappings", "tlb_calls",
                 "spin_events", "preempt_irq", "preempt_kernel", "preempt_unknown",
                 "extend_granted"):
        assert number[name] > 0, f"{name}: {said}"
    return number
