# SPDX-License-Identifier: GPL-2.0-only
"""What domains of libvirt have of pvsync: those whose XML names features have these, others none.

libvirt starts the lab's QEMU that knows pvsync (lab/build/monitor.py). It writes `-accel kvm` by
itself, so a domain gives the features to `-machine`.
"""

import re
from pathlib import Path

import pytest

from lab.build import monitor
from lab.run.host import Job
from tests.kernel.in_host import said_by

pytestmark = [pytest.mark.soak, pytest.mark.virtual, pytest.mark.timeout(3600)]

PACKAGES = "libvirt-clients", "libvirt-daemon-system", "qemu-guest-agent"
"""Those of test_agents.py, so that there is one host."""
HERE = Path(__file__).parent
MEMORY, LIMIT_S = 3072, 3000.0
"""MiB of the host, whose guests have 256; seconds of virtual time for all that is typed."""
NONE = {"host_features": "none", "host_found_by": "none", "ecs_record": "none"}
FEATURES = {
    "plain": NONE,
    "all": {"host_features": "help,ecs,tlb", "host_found_by": "cpuid", "ecs_record": "taken"},
    "one": {"host_features": "ecs", "host_found_by": "cpuid", "ecs_record": "taken"},
    "lost": NONE,
}
"""What is in force in the guest of each domain."""
SCRIPT = """set -e
exec 2>&1
. ./tools_host.sh
printf '#!/bin/sh\\nexec %s -L /usr/share/qemu -L /usr/share/seabios "$@"\\n' \\
	"$PWD/qemu-system-x86_64" >/run/monitor
chmod +x /run/monitor
EMULATOR=/run/monitor
start_libvirt
init='"mount -t proc proc /proc; mount -t sysfs sysfs /sys;
	mount -t debugfs debugfs /sys/kernel/debug;
	cat /sys/kernel/debug/pvsync/in_force;
	echo in force; sleep 3600"'
domain() {	# NAME OPTION VALUE
	DOMAIN="<qemu:commandline>${2:+<qemu:arg value='$2'/><qemu:arg value='$3'/>}</qemu:commandline>"
	start_guest "$1" 2 "pvsync.ecs=count" /bin/bash -c "$init"
	until_done "in_force of $1" grep -q "^in force" "/run/$1.log"
	echo "domain $1"
	cat "/run/$1.log"
}
DEVICES="<controller type='usb' model='none'/>"
domain plain
domain all -machine pvsync-help=on,pvsync-ecs=on,pvsync-tlb=on
domain one -machine pvsync-ecs=on
domain lost -accel kvm,pvsync-ecs=on
"""


@pytest.fixture(scope="module")
def said() -> dict[str, dict[str, str]]:
    """Lines of each domain's console, by their first word.

    The host offers nothing to a VM whose monitor does not say so.
    """
    output = said_by(Job(("bash", "-c", SCRIPT), {"hypercalls": "N"},
                         (HERE / "tools_host.sh", monitor.prepare()), memory=MEMORY,
                         limit_s=LIMIT_S, packages=PACKAGES))
    _, *parts = re.split(r"(?m)^domain (\w+)\r?$", output)
    return {name: dict(re.findall(r"(?m)^(\w+) (\S+)\r*$", text))
            for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("name", FEATURES)
def test_a_domain_has_what_its_xml_names(said: dict[str, dict[str, str]], name: str) -> None:
    """`lost` gives an `-accel` of its own, after libvirt's: QEMU takes the first one."""
    assert {word: said[name].get(word) for word in NONE} == FEATURES[name]
