# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers that are BPF programs (sched_ext), while a host lends time to guests and yields.

What is to happen is said in kernel/overlay/Documentation/virt/kvm/x86/pvsync/index.rst.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.build import base, images, kernel, userland
from lab.core import paths
from lab.core.model import Scheme
from lab.core.progress import Silent
from lab.plan import config
from lab.run import host, runner
from lab.run.session import Session
from tests.kernel.conftest import HERE, opened
from tests.kernel.test_bpf import PACKAGES, compiled, grown
from tests.kernel.test_rv import RELEASE, counted, in_host

pytestmark = [pytest.mark.soak, pytest.mark.virtual]

SCHEME = Scheme("recommended-strong", "recommended, and strong yields", label="recommended-strong",
                guest=("pvsync.ecs=count", "pvsync.tlb=mixed"),
                host={"extend": "ecs", "mark": "exit", "yield": "strong"})
STATE = "/sys/kernel/sched_ext/state"
SAID = re.compile(r"pvsync: sched_ext runs vCPUs: ")
LOAD = """cd {files} && bpftool struct_ops register {name}.bpf.o &&
cat {state} /sys/kernel/sched_ext/root/ops"""
UNLOAD = "bpftool struct_ops unregister name {name} && cat {state}"
SPIN = f"""cd {host.FILES} && rm -f /run/open && mkfifo /run/open && exec 9<>/run/open || exit
for name in one two; do
	python3 operate_host.py play 2 -name guest=$name <&9 >/dev/null &
	monitors="$monitors $!"
done
for monitor in $monitors; do
	until grep -qs '^spin_events [1-9]' /sys/kernel/debug/kvm/$monitor-*/pvsync/counters; do
		sleep 0.1
	done
done
counted() {{ sed "s/^/$1 /" /sys/kernel/debug/pvsync/counters; }}
counted begin; sleep 0.5; counted end
kill $monitors; wait
"""
"""Two VMs of two vCPUs that spin share the CPUs: what is counted meanwhile."""
SEVERAL = 20
"""Of loans and yields in a run; hundreds are usual."""


@contextmanager
def with_programs(out: Path) -> Iterator[Session]:
    """A host that has bpftool and the programs, and two guests."""
    plan = replace(config.experiment(str(HERE / "rv.toml")), schemes=(SCHEME,))
    tree = base.folder(RELEASE)
    files = images.of_experiment(plan, tree, (), Silent())
    own = userland.host_image(kernel.build(plan.variant, tree=tree), Silent(), PACKAGES)
    spec = runner.host_spec(plan, "vt", replace(files, host_image=own))
    (out / "programs").mkdir()
    files_of_host = (*compiled(out / "programs"), HERE / "operate_host.py", paths.LAB)
    disk = host.pack(files_of_host, out)
    drive = ("-drive", f"id=more,file={disk},format=raw,if=none,readonly=on",
             "-device", "virtio-blk-pci,drive=more")
    spec = replace(spec, extra=(*spec.extra, *drive))
    with opened(plan, spec, out) as session:
        host.mount(session.machine.control, host.device(spec, 0), host.FILES)
        yield session
        assert session.machine.trouble() == ""


@contextmanager
def scheduled_by(session: Session, name: str) -> Iterator[None]:
    """A program schedules all tasks of the host meanwhile."""
    assert in_host(session, LOAD.format(files=host.FILES, name=name, state=STATE)).endswith(
        f"enabled\n{name}\n")
    yield
    assert in_host(session, f"cat {STATE}") == "enabled\n", "it was thrown out"
    assert in_host(session, UNLOAD.format(name=name, state=STATE)).endswith("disabled\n")


def said(session: Session) -> int:
    """How often the host's log has said what does not work under sched_ext."""
    return len(SAID.findall(in_host(session, "dmesg")))


def test_a_bpf_scheduler_comes_and_goes(tmp_path: Path) -> None:
    """Guests run to their end under each. Nothing is lent, yields are the program's; once told."""
    with with_programs(tmp_path) as session:
        def run(name: str) -> dict[str, int]:
            loans = counted(session, SCHEME)
            spun = grown(in_host(session, SPIN), "begin", "end")
            found = {key: value for key, value in loans.items() if key.startswith("extend_")}
            found |= {key: value for key, value in spun.items() if key.startswith("yield_")}
            print(name, found, "said:", said(session), flush=True)
            return found

        before = run("fair")
        assert said(session) == 0
        with scheduled_by(session, "fifo"):
            without = run("fifo")
        assert said(session) == 1
        with scheduled_by(session, "willing"):
            willing = run("willing")
        after = run("fair again")
        assert said(session) == 1
    for found in (before, after):
        assert found["extend_granted"] > SEVERAL and found["yield_attempted"] > SEVERAL, found
        assert found["yield_refused"] < found["yield_attempted"] / 2, found
    for found in (without, willing):
        assert found["extend_granted"] == 0 < found["extend_denied"], found
        assert found["yield_denied"] == 0, found
    assert without["yield_attempted"] > SEVERAL, without
    assert without["yield_refused"] > 0.9 * without["yield_attempted"], without
    # Who has yielded is at the end of the queue, so there are few.
    assert willing["yield_refused"] < willing["yield_attempted"] / 2, willing
