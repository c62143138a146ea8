# SPDX-License-Identifier: GPL-2.0-only
"""A packaged kernel on a whole Debian 13, as its host's and as its guests'.

The tests are steps on one host. They need a kernel with Debian's configuration, so they are for
--soak.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab.core.model import Backend
from tests.kernel import debian_host, packaged_host
from tests.kernel.debian_host import Host
from tests.kernel.packaged_host import GUESTS
from tests.kernel.test_debian_host import comes, installed

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
FIRST, SECOND = GUESTS
LIMIT_S = 900
"""Seconds for what an emulated guest with Debian's configuration does, boots included."""
ASKED = {"ecs": "count", "tlb": "mixed"}
TURNS = re.compile(r"(?m)^guest: turns/s: ([0-9.]+)")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, played_by: Backend,
         pytestconfig: pytest.Config) -> Iterator[Host]:
    """The host, booted, with the tools installed."""
    with debian_host.with_tools(tmp_path_factory, played_by, pytestconfig,
                                packaged_host.booted) as made:
        installed(made)
        yield made


def told(host: Host, name: str) -> str:
    """What a guest has said so far, lines of the kernel left out."""
    return host.sh(f"grep ^guest: /var/log/{name}.txt", None).replace("\r", "")


def turns(host: Host, name: str) -> int:
    """How many times a guest has said how fast it was."""
    return len(TURNS.findall(told(host, name)))


def started(host: Host, name: str) -> None:
    """Start a guest, and wait until it has done some work."""
    host.sh(f"virsh -q define /usr/lib/lab/{name}.xml && virsh -q start {name}")
    comes(host, f"grep -q '^guest: turns/s' /var/log/{name}.txt", LIMIT_S)


def statistics(host: Host, name: str) -> dict[str, int]:
    """pvsync's of a VM, as libvirt has them, summed over its vCPUs."""
    found: dict[str, int] = {}
    for line in host.sh(f"virsh domstats --vcpu {name}").splitlines():
        if match := re.fullmatch(r"\s*vcpu\.\d+\.(pvsync_\w+?)\.sum=(\d+)", line):
            found[match[1]] = found.get(match[1], 0) + int(match[2])
    return found


def vm(host: Host, name: str) -> dict[str, Any]:
    """What the doctor says of a VM."""
    looked = json.loads(host.sh("pvsync doctor --once -s 5 --json"))
    (one,) = [one for one in looked["vms"] if one["name"] == name]
    return dict(one)


def test_the_kernel_is_a_packaged_one_with_everything_off(host: Host) -> None:
    assert host.sh("uname -r").endswith("-pvsync")
    assert host.sh("lsmod | grep -c ^kvm_amd") == "1", "KVM is a module there"
    assert host.sh("systemctl --failed --no-legend") == ""
    assert "apparmor" in host.sh("cat /sys/kernel/security/lsm")
    said = host.sh("cd /sys/module/pvsync/parameters && cat mark extend candidate yield")
    assert said.split() == ["kvm", "off", "kvm", "hint"]


def test_a_linux_guest_of_the_same_kernel_uses_the_host(host: Host) -> None:
    started(host, FIRST)
    said = told(host, FIRST)
    in_force = dict(line.split()[1:3] for line in said.splitlines()
                    if len(line.split()) == 3 and "turns" not in line)
    assert in_force["release"] == host.sh("uname -r")
    assert {name: in_force[name] for name in ASKED} == ASKED
    assert in_force["ecs_record"] == "taken" and "tlb" in in_force["host_features"]
    assert statistics(host, FIRST)["pvsync_tlb_calls"] > 0, "its flushes come to the host"


def test_two_guests_share_the_cpus_and_one_is_lent_time(host: Host) -> None:
    started(host, SECOND)
    assert vm(host, FIRST)["held_up"] > 0
    assert statistics(host, FIRST)["pvsync_extend_granted"] == 0
    assert host.sh(f"pvsync set {FIRST} mark=exit extend=ecs") == f"{FIRST}: extend=ecs mark=exit"
    comes(host, f"virsh domstats --vcpu {FIRST} | grep -q 'extend_granted.sum=[1-9]'", LIMIT_S)
    assert statistics(host, SECOND)["pvsync_extend_granted"] == 0, "it was not asked for there"


def test_try_says_what_it_changes_and_takes_it_back(host: Host) -> None:
    host.sh(f"pvsync reset {FIRST}")
    said = host.sh(f"pvsync try {FIRST} recommended --for 30s", timeout=LIMIT_S)
    assert "held up" in said
    kept = host.sh("cd /sys/kernel/debug/kvm && cat */pvsync/mark */pvsync/extend")
    assert set(kept.split()) == {"global"}


def test_the_guests_go_on_and_nothing_was_said(host: Host) -> None:
    have = {name: turns(host, name) for name in GUESTS}
    for name in GUESTS:
        comes(host, f"[ $(grep -c '^guest: turns/s' /var/log/{name}.txt) -gt {have[name]} ]",
              LIMIT_S)
        trouble = host.sh(f"grep -c -e BUG: -e WARNING: -e 'Call Trace' /var/log/{name}.txt", None)
        assert trouble == "0", name
    assert host.sh("journalctl -b -q -k -o cat | grep -e BUG: -e WARNING: -e 'Call Trace'",
                   None) == ""


def test_nothing_is_left_of_it(host: Host) -> None:
    host.sh(f"virsh -q destroy {FIRST}; virsh -q destroy {SECOND}; pvsync reset --all")
    host.sh("apt-get purge -qqy pvsync-tools")
    assert host.sh("ls -d /sys/kernel/debug/kvm/*/pvsync 2>/dev/null", None) == ""
    assert host.sh("cat /sys/module/pvsync/parameters/mark") == "kvm"
