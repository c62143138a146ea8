# SPDX-License-Identifier: GPL-2.0-only
"""What `pvsync export` wrote on a host of the lab, look after look, from data/exported.prom."""

from pathlib import Path

from lab.operate import metrics
from lab.operate.metrics import Series

FILE = Path(__file__).parent / "data/exported.prom"
LOOKS = 4
AT = ("pvsync_export_timestamp_seconds", ())


def texts(text: str) -> list[str]:
    """Each look's file; a line that is empty is after each."""
    return [f"{one}\n" for one in text.split("\n\n") if one.strip()]


def looks(text: str) -> list[Series]:
    """Each look's series."""
    return [metrics.parse(one) for one in texts(text)]
