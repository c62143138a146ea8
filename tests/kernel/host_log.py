# SPDX-License-Identifier: GPL-2.0-only
"""Whether pvsync has filled the host's log, whatever its guests do and however long that takes."""

import re

BURST, BURST_S = 20, 5.0
"""Most lines in so many seconds of the host: pr_warn_ratelimited() has 10 in each 5 s, so 10 of
each of two of these. The few of the lab and of boot are among them."""
LINE = re.compile(r"(?m)^\[ *(\d+\.\d+)\] .*pvsync:")


def check(log: str) -> None:
    """By the times of its lines: a test takes longer on a loaded machine, and has more then."""
    times = [float(one) for one in LINE.findall(log)]
    assert log.count("pvsync:") == len(times), log
    later = times[BURST:]
    assert all(last - first > BURST_S for first, last in zip(times, later, strict=False)), log
