# SPDX-License-Identifier: GPL-2.0-only
"""kernel/rfc/04-section-extension in a host that checks its locks, and sleep in atomic context.

It needs a kernel that no other test does, so it is for --soak.
"""

import re
from pathlib import Path

import pytest

from tests.kernel import suites
from tests.kernel.test_rfc import LIMIT_S, PREEMPT, PROPOSALS
from tests.kernel.test_selftests import suite

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

HOST = "rfc-04-lockdep"
WORKS = re.compile(r"^ debug_locks: +1$", re.MULTILINE)
"""In /proc/lockdep_stats: it ends with its first fault, which is trouble of its machine, too."""
CASE = re.compile(r"^(\S.*?) +\d+ (?:preemptions|extensions),.*: (good|bad)$", re.MULTILINE)
TIMED = {"always in one", "... for longer", "short sections"}
"""Cases that want looks each 5 microseconds: in this host they come 17 to 19 apart."""
OTHERS = {"real time", "no section", "no feature", "switched off", "liars"}


def test_lockdep_has_nothing_to_report(tmp_path: Path) -> None:
    """While the selftest has vCPUs go on, with each preemption model."""
    tried = PROPOSALS["rfc-04"]
    with suite(HOST, tmp_path, (tried.selftest,), backend="vt",
               proposal=tried.folder) as (machine, programs):
        for preempt in tried.preempt:
            machine.control.write_file(PREEMPT, preempt)
            (found,) = suites.run(machine.control, programs, LIMIT_S)
            print(preempt, found.said)
            cases = dict(CASE.findall(found.said))
            assert set(cases) >= OTHERS, found
            assert {name for name, how in cases.items() if how == "bad"} <= TIMED, found
        assert WORKS.search(machine.control.read_file("/proc/lockdep_stats").decode())
