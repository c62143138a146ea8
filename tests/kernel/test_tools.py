# SPDX-License-Identifier: GPL-2.0-only
"""Debian's own tools on a pvsync host: what libvirt and perf say of its guests.

tools_host.sh starts guests there by libvirt. They share two CPUs.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from lab.core.model import Backend
from lab.observe.counters import descriptions
from lab.run.host import Job
from tests.kernel.in_host import lines, said_by

pytestmark = pytest.mark.soak

PACKAGES = "libvirt-clients", "libvirt-daemon-system", "linux-perf"
HERE = Path(__file__).parent
MEMORY = 3072
"""MiB of the host, whose guests have 256."""
POLICY = {"candidate": "hvs", "yield": "strong", "mark": "exit"}
LIMIT_S = 1500.0
"""A script took 4 minutes beside much other work."""
START = """set -e
. ./tools_host.sh
start_libvirt
start_guest web 4 "pvsync.ecs=count pvsync.lock=ticket pvsync.help=auto" kernel-loop -m mmap -S 3600
"""
STATISTICS = START + """
virsh --version=long | head -1; qemu-system-x86_64 --version | head -1
sleep 10
virsh suspend web
virsh domstats --vcpu web
cd /sys/kernel/debug/kvm/*-*/
sed 's/^/sum /' pvsync/counters
grep . pvsync_* | sed 's/^/file /; s/:/ /'
"""
FIRST = "spin_events"
"""Counter of vCPUs in the list of all."""
OF_BPF = {"extend_vetoed", "pick_stock", "pick_refused", "pick_bpf"}
"""Those that a kernel without BPF policies lacks."""
MANY = 20
"""Waits for spinlocks of 160 processes that send each other messages; hundreds were seen."""
OF_VCPU = re.compile(r"^ *vcpu\.(\d+)\.pvsync_(\w+)\.sum=(\d+)\r?$", re.MULTILINE)
"""How libvirt shows a vCPU's own."""


def said(script: str, played_by: Backend, parameters: dict[str, str], *args: str) -> str:
    """What the script prints in a host that has PACKAGES and was booted with these arguments."""
    return said_by(Job(("bash", "-c", script), parameters, (HERE / "tools_host.sh",),
                       variant="test", backend=played_by, memory=MEMORY, limit_s=LIMIT_S,
                       args=args, packages=PACKAGES))


def test_libvirt_shows_each_vcpus_counters(played_by: Backend) -> None:
    """All of them, and of a VM that is suspended the same as both forms of debugfs."""
    output = said(STATISTICS, played_by, POLICY)
    shown = [(int(vcpu), name, int(value)) for vcpu, name, value in OF_VCPU.findall(output)]
    sums, files = lines("sum", output), lines("file", output)
    total: Counter[str] = Counter()
    for _vcpu, name, value in shown:
        total[name] += value
    assert {vcpu for vcpu, _, _ in shown} == {0, 1, 2, 3} and len(shown) == 4 * len(sums)
    assert dict(total) == sums == {name.removeprefix("pvsync_"): value
                                   for name, value in files.items()}
    known = [name for name in descriptions() if name not in OF_BPF]
    assert list(sums) == known[-len(sums):] and known[-len(sums)] == FIRST
    for name in ("spin_events", "preempt_lock", "preempt_user", "preempt_stuck", "yield_attempted"):
        assert sums[name] > 0, name
    assert len({value for _, name, value in shown if name == "preempt_user"}) > 1, shown


CONTENDED = """set -e
cat /sys/kernel/debug/pvsync/in_force
perf --version
perf lock record -q -o /run/perf.data -- perf bench sched messaging -g 4 -l 100
perf lock contention -i /run/perf.data
"""


@pytest.mark.parametrize("lock", ["ticket", "pmt"])
def test_perf_shows_waits_for_our_spinlocks(played_by: Backend, lock: str) -> None:
    """Of the host's own kernel. By default perf leaves out what comes before the one who waits."""
    output = said(CONTENDED, played_by, {}, f"pvsync.lock={lock}")
    assert re.search(rf"^lock {lock}\r?$", output, re.MULTILINE), output
    rows = re.findall(r"^ +(\d+) .* spinlock +(\w+)\+0x", output, re.MULTILINE)
    assert sum(int(times) for times, _ in rows) > MANY, output
    assert not [name for _, name in rows if re.search("pvsync|slowpath", name)], rows
