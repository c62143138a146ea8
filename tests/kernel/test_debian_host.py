# SPDX-License-Identifier: GPL-2.0-only
"""docs/install.md on a whole Debian 13: its systemd, libvirt, tuned and node exporter run there.

The tests are steps, in this order, on one host; each takes back what it has set. What was typed and
said is in session.txt, in the folder that the first step prints. A Debian with libvirt is made for
it, so it is for --soak.
"""

from collections.abc import Iterator

import pytest

from lab.core.model import Backend
from lab.observe import vms
from tests.kernel import debian_host
from tests.kernel.debian_host import Host

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

STOCK, CHOSEN = {"mark": "kvm", "extend": "off"}, {"mark": "exit", "extend": "ecs"}
UNITS = "pvsync-apply.path pvsync-export.timer pvsync-host.service"
HOOK = "/etc/libvirt/hooks/qemu.d/pvsync"
PROM = "/var/lib/prometheus/node-exporter/pvsync.prom"
SCRAPE = ("python3 -c 'import urllib.request as u;"
          ' print(u.urlopen("http://127.0.0.1:9100/metrics").read().decode())\''
          " | grep -e ^pvsync -e ^node_textfile")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, played_by: Backend,
         pytestconfig: pytest.Config) -> Iterator[Host]:
    """The host, booted, with the package in /run/files."""
    with debian_host.with_tools(tmp_path_factory, played_by, pytestconfig) as made:
        yield made


def installed(host: Host) -> None:
    host.sh("cd /run/files && apt-get install -qqy -o Dpkg::Use-Pty=0 ./pvsync-tools_*.deb")


def of_host(host: Host) -> dict[str, str]:
    """The host's parameters that are looked at, as its kernel has them."""
    said = host.sh("cd /sys/module/pvsync/parameters && cat mark extend").split()
    return dict(zip(STOCK, said, strict=True))


def of_vm(host: Host) -> dict[str, str]:
    """Those of the only VM."""
    said = host.sh("cd /sys/kernel/debug/kvm/*-*/pvsync && cat mark extend").split()
    return dict(zip(STOCK, said, strict=True))


def comes(host: Host, test: str, seconds: int = 90) -> None:
    """Wait until a command succeeds."""
    host.sh(f"for i in $(seq {seconds}); do if {test}; then exit 0; fi; sleep 1; done; exit 1")


def complaints(host: Host) -> str:
    """What the journal has of this boot, worse than a notice, by the units and the commands."""
    said = [host.sh(f"journalctl -b -q -o cat -p warning {of}", None)
            for of in ("-u 'pvsync-*'", "-t pvsync")]
    return "".join(said)


def test_nothing_is_switched_on_by_installing_it(host: Host) -> None:
    assert host.sh("systemctl --failed --no-legend") == "", "the host itself is well"
    installed(host)
    states = host.sh("systemctl list-unit-files --no-legend 'pvsync*' | sort").split("\n")
    assert [line.split()[:2] for line in states] == [
        ["pvsync-apply.path", "disabled"], ["pvsync-apply.service", "static"],
        ["pvsync-export.service", "static"], ["pvsync-export.timer", "disabled"],
        ["pvsync-host.service", "disabled"]]
    assert host.sh("systemctl list-units --no-legend 'pvsync*'") == ""
    assert of_host(host) == STOCK
    assert host.sh("pvsync show").endswith("No VM runs under KVM here; nothing is kept for any.")
    said = host.sh("test -e /usr/share/doc/pvsync-tools/install.md && pvsync doctor --once", None)
    assert said == f"pvsync: {vms.none_runs()}."


def test_the_hosts_parameters_come_at_each_boot_and_go(host: Host) -> None:
    host.sh("mkdir -p /etc/pvsync")
    host.sh("printf 'mark = \"exit\"\\nextend = \"ecs\"\\n' >/etc/pvsync/host.toml")
    host.sh(f"systemctl enable --now -q {UNITS}")
    assert of_host(host) == CHOSEN
    host.reboot()
    assert of_host(host) == CHOSEN
    times = host.sh("systemctl show -P ActiveEnterTimestampMonotonic pvsync-host;"
                    " systemctl show -P ExecMainStartTimestampMonotonic libvirtd").split()
    assert 0 < int(times[0]) < int(times[1]), "no VM starts before"
    assert host.sh("systemctl is-active pvsync-apply.path pvsync-export.timer").split() == [
        "active"] * 2
    host.sh("sed -i /extend/d /etc/pvsync/host.toml; systemctl reload-or-restart pvsync-host")
    assert of_host(host) == {**CHOSEN, "extend": "off"}
    assert "host.toml set exit, was kvm" in host.sh("pvsync show")
    host.sh("systemctl disable --now -q pvsync-host pvsync-apply.path")
    assert of_host(host) == STOCK
    assert complaints(host) == ""


def test_the_node_exporter_has_the_metrics_and_the_journal_is_not_filled(host: Host) -> None:
    comes(host, f"[ -e {PROM} ]")
    host.sh(f"rm {PROM}")
    comes(host, f"[ -e {PROM} ]")
    assert 'pvsync_info{version="6.' in host.sh(f"grep ^pvsync_info {PROM}")
    served = host.sh(SCRAPE)
    assert "\npvsync_host_cpus 2\n" in served
    assert "\nnode_textfile_scrape_error 0\n" in served
    assert host.sh("journalctl -b -q -u pvsync-export.service") == ""
    host.sh(f"chattr +i {PROM} 2>/dev/null || mount -o bind,ro {PROM} {PROM}")
    comes(host, "journalctl -b -q -o cat -u pvsync-export.service | grep 'cannot be written'")
    host.sh(f"chattr -i {PROM} 2>/dev/null; umount {PROM} 2>/dev/null; true")
    comes(host, "systemctl reset-failed pvsync-export.service; sleep 20;"
                " ! systemctl is-failed -q pvsync-export.service")


def test_libvirts_hook_gives_a_vm_its_settings_at_each_start(host: Host) -> None:
    host.sh(f"install -D -m 755 /usr/share/pvsync/libvirt-hook {HOOK}")
    host.sh("systemctl restart libvirtd")
    host.sh("virsh -q define /usr/lib/lab/web.xml")
    host.sh("virsh -q start web")
    assert of_vm(host) == {"mark": "global", "extend": "global"}
    assert host.sh("pvsync set web mark=exit extend=ecs") == "web: extend=ecs mark=exit"
    assert of_vm(host) == CHOSEN
    for again in ("virsh -q destroy web; virsh -q start web", "virsh -q reset web"):
        host.sh(again)
        assert of_vm(host) == CHOSEN
    assert "web: mark=exit extend=ecs" in host.sh("journalctl -b -q -o cat -t pvsync")
    assert of_host(host) == STOCK
    comes(host, f"grep -q 'pvsync_domain_vcpus{{domain=\"web\"}} 2' {PROM}")
    host.sh("virsh -q destroy web")
    host.reboot()
    host.sh("virsh -q start web")
    assert of_vm(host) == CHOSEN
    assert host.sh("pvsync reset web").endswith("taken back")
    assert of_vm(host) == {"mark": "global", "extend": "global"}
    host.sh(f"virsh -q destroy web; rm {HOOK}; systemctl restart libvirtd")
    assert complaints(host) == ""


def test_a_path_unit_does_so_where_there_is_no_hook(host: Host) -> None:
    host.sh("systemctl enable --now -q pvsync-apply.path")
    host.sh("virsh -q start web; pvsync set web mark=exit")
    mark = "/sys/kernel/debug/kvm/*-*/pvsync/mark"
    for _ in range(2):
        comes(host, "! systemctl is-active -q pvsync-apply.service && sleep 3 &&"
                    " ! systemctl is-active -q pvsync-apply.service")
        host.sh("virsh -q destroy web")
        comes(host, "! systemctl is-active -q pvsync-apply.service && sleep 3 &&"
                    " ! systemctl is-active -q pvsync-apply.service")
        host.sh("virsh -q start web")
        comes(host, f"grep -q exit {mark}")
    host.sh("sed -i s/exit/yield/ /etc/pvsync/vms.toml")
    comes(host, f"grep -q yield {mark}")
    host.sh("systemctl disable --now -q pvsync-apply.path; pvsync reset --all; virsh destroy web")
    assert complaints(host) == ""


def test_tuned_sets_them_and_takes_them_back(host: Host) -> None:
    host.sh("tuned-adm profile virtual-host")
    for off in ("tuned-adm profile virtual-host", "tuned-adm off"):
        host.sh("tuned-adm profile virtual-host pvsync-host")
        assert of_host(host) == CHOSEN
        assert "Verification succeeded" in host.sh("tuned-adm verify")
        host.sh("echo kvm >/sys/module/pvsync/parameters/mark")
        assert "Verification failed" in host.sh("tuned-adm verify", None)
        host.sh("systemctl restart tuned && tuned-adm active")
        comes(host, "grep -q exit /sys/module/pvsync/parameters/mark")
        said = host.sh("pvsync apply --host", 1)
        assert "set from /usr/lib/tuned/profiles/pvsync-host/host.toml" in said
        host.sh(off)
        assert of_host(host) == STOCK
    assert complaints(host) == ""


def test_nothing_is_left_of_it(host: Host) -> None:
    """Units that run meanwhile end well; parameters that tuned has set are as before, too."""
    host.sh(f"systemctl enable --now -q {UNITS}; virsh -q start web; pvsync set web mark=exit")
    assert of_host(host)["mark"] == "exit"
    host.sh("systemctl start --no-block pvsync-export.service")
    host.sh("pvsync reset --all")
    host.sh("apt-get remove -qqy pvsync-tools")
    assert of_host(host) == STOCK
    assert of_vm(host)["mark"] == "global"
    assert left(host) == ["/etc/pvsync"]
    installed(host)
    assert host.sh("systemctl is-enabled pvsync-host.service", None) == "disabled"
    host.sh("tuned-adm profile virtual-host pvsync-host")
    assert of_host(host) == CHOSEN
    assert "tuned still has the profile pvsync-host" in host.sh("apt-get purge -qqy pvsync-tools")
    assert of_host(host) == STOCK
    host.sh("tuned-adm profile virtual-host")
    assert left(host) == []
    host.sh("virsh -q destroy web && virsh -q start web && virsh -q destroy web")
    host.reboot()
    assert host.sh("systemctl --failed --no-legend") == "" == complaints(host)


def left(host: Host) -> list[str]:
    """Files and folders of pvsync's name, after it went; no unit of it may be known."""
    assert host.sh("systemctl list-units --all --no-legend 'pvsync*'") == ""
    assert host.sh("systemctl list-unit-files --no-legend 'pvsync*'", None) == ""
    found = host.sh("find / /run -xdev -name '*pvsync*' ! -path '/var/lib/dpkg/*'"
                    " ! -path '/var/log/*' ! -path '/run/udev/*' ! -path '/run/files/*'"
                    " ! -path '*/pvsync-.service.d'")
    return found.split()
