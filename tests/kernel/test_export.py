# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync export` on the KVM host, whose kernel counts for two VMs.

PVSYNC_RECORD=1 keeps what it wrote in tests/lab/data/exported.prom, which test_watch_real.py gives
to Prometheus.
"""

import os
from pathlib import Path

import pytest

from lab.core import paths
from lab.operate import metrics
from lab.run.host import Job
from tests.kernel.in_host import said_by
from tests.kernel.lending import LEND, claims
from tests.lab import exported

pytestmark = pytest.mark.virtual

SCRIPT = Path(__file__).with_name("operate_host.py")
NONE = {"pvsync_tlb_calls_total", "pvsync_halt_poll_seconds_total", "pvsync_unmarked_total",
        "pvsync_throttled_seconds_total", "pvsync_yields_total"}
"""VMs without a kernel ask for no flushes, do not halt, and have nobody to yield to; the lab's
kernel has no limits of CPU time."""


@pytest.mark.sampled
def test_the_hosts_own_metrics(tmp_path: Path) -> None:
    """The series that are recorded, and what these VMs do grows from look to look."""
    memory = claims(tmp_path)
    text = said_by(Job(("python3", SCRIPT.name, "export", memory.name, str(exported.LOOKS)), LEND,
                       (paths.LAB, SCRIPT, memory), variant="test")).replace("\r", "")
    if "PVSYNC_RECORD" in os.environ:
        exported.FILE.write_text(text)
    looks = exported.looks(text)
    assert len(looks) == exported.LOOKS
    assert looks[-1].keys() == exported.looks(exported.FILE.read_text())[-1].keys()
    first, last = looks[0], looks[-1]
    for metric in metrics.METRICS:
        if metric.kind == "counter":
            grown = [last[key] - first[key] for key in first if key[0] == metric.name]
            assert all(one >= 0 for one in grown), (metric.name, grown)
            assert sum(grown) > 0 or metric.name in NONE, (metric.name, grown)
