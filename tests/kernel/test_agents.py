# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync doctor --steal` asks QEMU's own agent in guests of libvirt.

The agent is Debian's qemu-guest-agent. It answers over a virtio serial port, and notes in its
guest's console each byte that it reads. Four VMs share two CPUs: the vCPUs of `web` wait for each
other's locks. `db` computes, and was started without a steal clock. `mute` has an agent's port and
no agent, `old` no port: both have no kernel.

PVSYNC_RECORD=1 writes what is said into docs/sessions-debian.md.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from lab.build import package
from lab.run.host import Job
from tests import recorded
from tests.kernel.in_host import said_by

pytestmark = [pytest.mark.soak, pytest.mark.virtual, pytest.mark.timeout(3600)]

PACKAGES = "libvirt-clients", "libvirt-daemon-system", "qemu-guest-agent"
HERE = Path(__file__).parent
MEMORY, LIMIT_S = 3072, 3000.0
"""MiB of the host, whose guests have 256; seconds of virtual time for all that is typed."""
TITLE = "VMs that share CPUs: what doctor says"
ASK = """virsh qemu-agent-command web '{"execute": "guest-get-cpustats"}'"""
TYPED = (
    "pvsync doctor --once --steal --co-stop 2",
    "pvsync doctor --once --steal --json | python3 -m json.tool"
    """ | grep -E '"(name|held_up|costop|steal|key|cpus)"'""",
)
"""The session."""
UNASKED = "pvsync doctor --once -s 1 | head -n 1"
STOP = ("""virsh -q qemu-agent-command db '{"execute": "guest-exec", "arguments":"""
        """ {"path": "/bin/sh", "arg": ["-c", "kill -STOP $PPID"]}}'""")
SILENT = "pvsync doctor --once --steal -s 1 | sed -n '/^Stolen/,/^$/p'"
SCRIPT = """set -e
exec 2>&1
. ./tools_host.sh
dpkg-deb -x pvsync-tools_*.deb /run/tools
sed -i 's,/usr/lib,/run/tools&,' /run/tools/usr/bin/pvsync
PATH=/run/tools/usr/bin:$PATH
start_libvirt
port="<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
for name in old mute; do
	[ $name = old ] || more=$port
	cat >/run/$name.xml <<-END
		<domain type='kvm'><name>$name</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
		<cpu mode='host-passthrough'/><devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
		$more<memballoon model='none'/></devices></domain>
	END
	until_done $name virsh -q create /run/$name.xml
done
DEVICES="$port<disk type='block' device='disk'><driver name='qemu' type='raw'/><readonly/>
<source dev='/dev/vdd'/><target dev='vdb' bus='virtio'/></disk>"
init='"mount -t erofs -o ro /dev/vdb /mnt; . /mnt/agent_guest.sh"'
start_guest web 2 "pvsync.lock=ticket pvsync.ecs=count load=locks" /bin/bash -c "$init"
DOMAIN="<qemu:commandline><qemu:arg value='-global'/>
<qemu:arg value='host-x86_64-cpu.kvm-steal-time=off'/></qemu:commandline>"
start_guest db 2 "" /bin/bash -c "$init"
for name in web db; do
	until_done "agent of $name" virsh -q qemu-agent-command $name '{"execute": "guest-ping"}'
done
while read -r line; do
	echo "# $line"
	eval "$line" || echo "(exit status $?)"
done <<-'END'
LINES
END
echo "# consoles"
sed 's/^/web: /' /run/web.log
sed 's/^/db: /' /run/db.log
"""
TICK_MS = 10
"""Of /proc/stat. Its sum over all CPUs may be a tick more for each than theirs, rounded down."""
TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of /proc/stat."""
STAT = re.compile(r"^web: cpu +((?:\d+ ){7}\d+)", re.MULTILINE)
READ = re.compile(r"^(\w+): .* read data, .*guest-get-cpustats", re.MULTILINE)


def typed() -> tuple[str, ...]:
    """All lines; the last but one stops an agent, which then does not answer."""
    return ASK, *TYPED, ASK, UNASKED, STOP, SILENT


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Sequence[tuple[str, str]]:
    """What was typed in the host, and what each said."""
    tools = package.build(tmp_path_factory.mktemp("tools"))
    job = Job(("bash", "-c", SCRIPT.replace("LINES", "\n".join(typed()))),
              bring=(HERE / "tools_host.sh", HERE / "agent_guest.sh", tools), memory=MEMORY,
              limit_s=LIMIT_S, packages=PACKAGES)
    return list(recorded.said(said_by(job).replace("\r", "")))


def answers(said: Sequence[tuple[str, str]]) -> list[list[Mapping[str, int | str]]]:
    """The agent's, as they were."""
    return [json.loads(text)["return"] for line, text in said if line == ASK]


def test_the_agent_says_what_its_kernel_does(said: Sequence[tuple[str, str]]) -> None:
    """An object for each CPU, each with all names that are looked for; milliseconds."""
    console = dict(said)["consoles"]
    stats = [[TICK_MS * int(one) for one in line.split()] for line in STAT.findall(console)]
    asked = answers(said)
    assert len(asked) == 2 and len(stats) > 20
    for answer in asked:
        assert [one["cpu"] for one in answer] == [0, 1]
        assert {one["type"] for one in answer} == {"linux"}
        sums = [sum(int(one[name]) for one in answer) for name in TICKS]
        assert any(all(a - len(answer) * TICK_MS <= b <= c
                       for a, b, c in zip(old, sums, new, strict=True))
                   for old, new in pairwise(stats)), (sums, stats)


def test_steal_is_what_the_guest_takes_for_stolen(said: Sequence[tuple[str, str]]) -> None:
    """By the agent's answers before and after; and none where the guest has no such clock."""
    first, last = answers(said)
    grown = {name: sum(int(new[name]) - int(old[name])
                       for old, new in zip(first, last, strict=True)) for name in TICKS}
    share = grown["steal"] / sum(grown.values())
    text = next(text for line, text in said if line == TYPED[0])
    shown = dict(re.findall(r"(?m)^(web|db) +([\d.]+) %$", text))
    assert float(shown["web"]) / 100 == pytest.approx(share, abs=0.15) and share > 0.2
    assert float(shown["db"]) == 0


def test_who_has_no_agent_is_named_with_the_reason(said: Sequence[tuple[str, str]]) -> None:
    text = next(text for line, text in said if line == TYPED[0])
    told = " ".join(text.split())
    assert "mute unknown: Guest agent is not responding: QEMU guest agent is not connected" in told
    assert "old unknown: argument unsupported: QEMU guest agent is not configured" in told
    later = " ".join(dict(said)[SILENT].split())
    assert re.search(r"db unknown: .*(respond|available)", later), later


def test_nobody_is_asked_unasked(said: Sequence[tuple[str, str]]) -> None:
    """The agents have read a question for each time that they were asked; one stopped meanwhile."""
    looks = sum("--steal" in line for line, _ in said)
    read = READ.findall(dict(said)["consoles"])
    assert read.count("web") == len(answers(said)) + 2 * looks
    assert read.count("db") == 2 * (looks - 1)


def test_the_page_has_what_is_said(said: Sequence[tuple[str, str]]) -> None:
    recorded.compare(recorded.DEBIAN, TITLE, said, figures=False)
