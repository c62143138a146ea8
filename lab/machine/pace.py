# SPDX-License-Identifier: GPL-2.0-only
"""How limits of a host's time become limits of this machine's.

In real time the two are the same. In virtual time the host's seconds are those that it
executes: one of a busy host of eight CPUs may take a minute here, one of an idle host
takes nothing, and what else this machine does stretches all of them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.machine.machine import HostSpec

WALL_PER_CPU_S = 30.0
"""Seconds of this machine for a busy second of one CPU: three times what was measured."""


PATIENCE = 10_000.0
"""The same where somebody may stop the host in a debugger: no limit is meant to be reached."""


def wall(spec: "HostSpec") -> float:
    """Seconds that may pass here for one of the host's, at the most."""
    if spec.backend != "vt":
        return 1.0
    return PATIENCE if spec.debug else WALL_PER_CPU_S * spec.pcpus
