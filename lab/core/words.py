# SPDX-License-Identifier: GPL-2.0-only
"""Numbers in sentences."""


def many(number: int, word: str) -> str:
    """A number and what is counted, such as "1 VM" and "1,024 VMs"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
