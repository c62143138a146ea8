# SPDX-License-Identifier: GPL-2.0-only
"""The tools on a whole Debian 13 with its own kernel: no pvsync, AppArmor on, then locked down.

The tests are steps on one host, as those of test_debian_host.py.
"""

import json
from collections.abc import Iterator

import pytest

from lab.core.model import Backend
from tests.kernel import debian_host
from tests.kernel.debian_host import Host
from tests.kernel.test_debian_host import HOOK, UNITS, comes, installed

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
LOOK = "pvsync doctor --once -s 2"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, played_by: Backend,
         pytestconfig: pytest.Config) -> Iterator[Host]:
    """The host, booted, with the package installed, and the VM `web` that runs.

    The first command takes the longest: Python keeps what it has compiled.
    """
    with debian_host.with_tools(tmp_path_factory, played_by, pytestconfig,
                                debian_host.stock) as made:
        installed(made)
        made.sh("pvsync show; mkdir -p /etc/pvsync")
        made.sh("printf '[web]\\nmark = \"exit\"\\n' >/etc/pvsync/vms.toml")
        made.sh(f"install -D -m 755 /usr/share/pvsync/libvirt-hook {HOOK}")
        made.sh("systemctl restart libvirtd")
        made.sh("virsh -q define /usr/lib/lab/web.xml && virsh -q start web")
        yield made


def test_apparmor_lets_the_hook_work(host: Host) -> None:
    """libvirtd is confined, and what the hook calls is not refused anything."""
    assert host.sh("cat /proc/$(pidof libvirtd)/attr/current") == "libvirtd (enforce)"
    said = host.sh("journalctl -b -q -o cat -t pvsync")
    assert said.startswith("pvsync: web: this host's kernel, 6.") and "has no pvsync" in said
    assert host.sh("journalctl -b -q -o cat -k | grep 'apparmor=.DENIED' | grep -i pvsync", 1) == ""


def test_a_stock_kernel_is_diagnosed_and_watched(host: Host) -> None:
    look = json.loads(host.sh(f"{LOOK} --json"))
    (vm,) = look["vms"]
    assert (vm["name"], vm["vcpus"], look["pvsync"], look["lockdown"]) == ("web", 2, False, "")
    assert None not in (vm["held_up"], vm["busy"], vm["costop"], vm["exits_per_s"]), vm
    traced = json.loads(host.sh(f"{LOOK} --co-stop 2 --json"))["vms"][0]["costop_traced"]
    assert traced["lost"] == 0
    assert host.sh("ls /sys/kernel/tracing/instances") == ""
    assert 'pvsync_domain_vcpus{domain="web"} 2' in host.sh("pvsync export")
    assert "This host's kernel has no pvsync" in host.sh("pvsync top --once -s 1")


def test_what_needs_pvsync_says_so_and_changes_nothing(host: Host) -> None:
    host.sh("printf 'mark = \"exit\"\\n' >/etc/pvsync/host.toml")
    for command in ("pvsync set web mark=exit", "pvsync try web mark=exit --for 1min",
                    "pvsync apply", "pvsync apply --host"):
        assert "has no pvsync" in host.sh(command, 1), command
    assert host.sh("pvsync show | head -n 1") == "This kernel has no pvsync: nothing can be set."
    host.sh(f"systemctl enable --now -q {UNITS}")
    assert host.sh("systemctl is-active pvsync-host", None) == "inactive"
    assert "/sys/module/pvsync" in host.sh("systemctl status pvsync-host", None)
    comes(host, "[ -e /var/lib/prometheus/node-exporter/pvsync.prom ]")
    assert host.sh("systemctl list-units --failed --no-legend 'pvsync*'") == ""


def test_a_vm_that_ends_meanwhile(host: Host) -> None:
    said = host.sh(f"(sleep 20; virsh -q destroy web) & {LOOK} -s 40; wait; virsh -q start web")
    assert said.startswith("0 VMs") and "Nothing found" in said


def test_without_root_and_without_debugfs(host: Host) -> None:
    nobody = "setpriv --reuid 65534 --clear-groups pvsync"
    for command in ("doctor --once", "top --once", "export", "show"):
        assert host.sh(f"{nobody} {command}", 1).endswith("run pvsync as root."), command
    host.sh("umount /sys/kernel/debug")
    try:
        for command in ("doctor --once", "top --once", "export", "set web mark=exit"):
            assert host.sh(f"pvsync {command}", 1) == (
                "pvsync: debugfs is not mounted: run `mount -t debugfs debugfs"
                " /sys/kernel/debug`."), command
    finally:
        host.sh("mount -t debugfs debugfs /sys/kernel/debug")


def test_a_kernel_that_is_locked_down_meanwhile(host: Host) -> None:
    """As Secure Boot has it from the start. It stays so until the next boot."""
    host.sh("echo integrity >/sys/kernel/security/lockdown")
    assert "is locked down (Secure Boot)" in host.sh(LOOK)
    look = json.loads(host.sh(f"{LOOK} --co-stop 2 --json"))
    (vm,) = look["vms"]
    assert look["lockdown"] == "integrity" and "costop_traced" in vm
    assert None not in (vm["held_up"], vm["busy"], vm["costop"]), vm
    assert vm["exits_per_s"] is None and vm["yields_per_s"] is None
    assert "pvsync_vcpu_wait_seconds_total" in host.sh("pvsync export")
    assert "pvsync_exits_total" not in host.sh("pvsync export")
    assert " web " in host.sh("virsh -q list") and "web" in host.sh("pvsync top --once -s 1")
    assert "vcpu.0.exits.sum=" in host.sh("virsh domstats --vcpu web")
