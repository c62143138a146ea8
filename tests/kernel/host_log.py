# SPDX-License-Identifier: GPL-2.0-only
"""Whether pvsync has filled the host's log, whatever its guests do and however long that takes."""

import re

BURST_S = 5.0
"""Seconds of the host in which pr_warn_ratelimited() has 10 lines at most."""
FEW, MANY = 10, 20
"""Lines in so long a time, of an ordinary test, and of one that is refused all the time: 10 of
each of two intervals. The few of the lab and of boot are among them."""
LINE = re.compile(r"(?m)^\[ *(\d+\.\d+)\] .*pvsync:")


def check(log: str, burst: int) -> None:
    """By the times of its lines: a test takes longer on a loaded machine, and has more then."""
    times = [float(one) for one in LINE.findall(log)]
    assert log.count("pvsync:") == len(times), log
    later = times[burst:]
    assert all(last - first > BURST_S for first, last in zip(times, later, strict=False)), log
