# SPDX-License-Identifier: GPL-2.0-only
"""How much of pvsync the tests of the kernel allow in a host's log."""

import pytest

from tests.kernel import host_log


def log(lines: int, each_s: float) -> str:
    """Lines of pvsync so far apart, with others between them."""
    return "".join(f"[{number * each_s:12.6f}] kvm: entry\r\n[{number * each_s:12.6f}] pvsync:"
                   f" process {number}: refused\r\n" for number in range(lines))


@pytest.mark.parametrize(("burst", "lines", "each_s", "fine"), [
    (host_log.MANY, 20, 0, True), (host_log.MANY, 21, 0, False),
    (host_log.MANY, 200, 0.25, False), (host_log.MANY, 200, 0.2501, True),
    (host_log.FEW, 10, 0, True), (host_log.FEW, 11, 0, False), (host_log.FEW, 1, 0, True)])
def test_so_many_lines_in_so_many_seconds(burst: int, lines: int, each_s: float,
                                         fine: bool) -> None:
    if fine:
        host_log.check(log(lines, each_s), burst)
    else:
        with pytest.raises(AssertionError):
            host_log.check(log(lines, each_s), burst)


def test_a_line_without_a_time_is_wrong() -> None:
    with pytest.raises(AssertionError):
        host_log.check("pvsync: what is this\n", host_log.FEW)
