# SPDX-License-Identifier: GPL-2.0-only
"""BPF on a pvsync host, with Debian's tools: bpftrace says who held up whom.

The VMs are of operate_host.py: their vCPUs spin, without a kernel. They share two CPUs.
"""

import re
from pathlib import Path

import pytest

from lab.core import paths
from lab.core.model import Backend
from lab.run.host import Job
from tests.kernel.in_host import lines, said_by

pytestmark = pytest.mark.soak

PACKAGES = "bpftool", "bpftrace"
HERE = Path(__file__).parent
SCRIPTS = tuple(sorted(paths.LAB.glob("operate/data/*.bt")))
POLICY = {"candidate": "hvs", "yield": "strong", "mark": "exit", "pause": "soft"}
MEMORY = 3072
LIMIT_S = 1500.0
START = """set -e
mkfifo /run/open; exec 9<>/run/open
for name in one two; do
	python3 operate_host.py play 2 -name guest=$name <&9 &
	echo "monitor $name $!"
done
sleep 5
"""
TRACED = START + """
bpftrace --version
for name in held-up yielded-to; do bpftrace $name.bt -c 'sleep 5'; done
"""
KEYS = re.compile(r"^@(\w+)\[(.+)\]: (\d+)\r?$", re.MULTILINE)
LEAST_US = 100_000
"""For which a VM of two that share the CPUs for 5 s is held up by the other one."""


def said(script: str, played_by: Backend, parameters: dict[str, str]) -> str:
    """What the script prints in a host whose kernel has BPF."""
    return said_by(Job(("bash", "-c", script), parameters,
                       (HERE / "operate_host.py", paths.LAB, *SCRIPTS), variant="bpf",
                       backend=played_by, memory=MEMORY, limit_s=LIMIT_S, packages=PACKAGES))


def test_bpftrace_says_who_held_up_whom(played_by: Backend) -> None:
    """Two VMs of two vCPUs that spin: each keeps CPUs from the other, and yields to its own."""
    output = said(TRACED, played_by, POLICY)
    monitors = lines("monitor", output)
    vms = {str(monitors[name]) for name in ("one", "two")}
    rows = [(name, key.split(", "), int(value)) for name, key, value in KEYS.findall(output)]
    held = [(key, value) for name, key, value in rows if name == "held_us"]
    assert {key[0] for key, _ in held} == vms, output
    for vm in vms:
        mine = [(key, value) for key, value in held if key[0] == vm]
        assert {key[1] for key, _ in mine} == {"0", "1"}, mine
        assert sum(value for key, value in mine if key[3] in vms - {vm}) > LEAST_US, mine
    yields = [key for name, key, _ in rows if name == "yields"]
    assert {key[0] for key in yields} == vms, output
    assert all({key[1], key[2]} == {"0", "1"} for key in yields), yields
