# SPDX-License-Identifier: GPL-2.0-only
"""Which of the tests that are sampled a commit runs."""

import hashlib
from collections.abc import Iterable

SHARE = 4
"""One in so many, rounded up."""


def chosen(names: Iterable[str], commit: str) -> set[str]:
    """A share of these tests: the same for a commit each time, another one for another commit.

    Over some dozens of commits each test has its turn.
    """
    def turn(name: str) -> bytes:
        return hashlib.sha256(f"{commit} {name}".encode()).digest()

    order = sorted(set(names), key=turn)
    return set(order[:-(-len(order) // SHARE)])
