# SPDX-License-Identifier: GPL-2.0-only
"""What is no value, and what the host does not offer, has no use for, or takes back.

Each mechanism then is off, or does without, and says so once.
"""

import re

import pytest

from tests.kernel import alone
from tests.kernel.conftest import HERE, Lab
from tests.kernel.hypercalls import ENOSYS
from tests.kernel.test_helping import asked
from tests.kernel.test_locks import check_tau
from tests.kernel.test_shootdown import CHANGES, NONE_STALE, check_latency, hypercalls

NO_KVM = "this is no KVM guest"
PV = {
    "pvsync.lock=pv-pmt": "is pmt here: the host does not offer to wake halted vCPUs",
    "pvsync.help=auto": f"has no effect here: {NO_KVM}",
    "pvsync.tlb=shoot4u": f"is ipi here: {NO_KVM}",
    "pvsync.ipi=yield": f"is stock here: {NO_KVM}",
    "pvsync.ecs=count": f"is off here: {NO_KVM}",
    "pvsync.park=eschdspin": f"is stock here: {NO_KVM}",
}
OTHERS = {
    "pvsync.lock=pv-ticket": "is ticket here: the host does not offer to wake halted vCPUs",
    "pvsync.help=65536": f"has no effect here: {NO_KVM}",
    "pvsync.tlb=kvmtlb": "is ipi here: the host does not offer it",
    "pvsync.ecs=free": f"is off here: {NO_KVM}",
}
WRONG = {
    "pvsync.lock": "= is not known, spinlocks stay as they are; use qspinlock, tas, ticket, pmt, "
                   "pv-ticket or pv-pmt",
    "pvsync.lock=nonsense": " is not known, spinlocks stay as they are; use qspinlock, tas, "
                            "ticket, pmt, pv-ticket or pv-pmt",
    "pvsync.tau": "= is not a number of nanoseconds nor inf, the default stays",
    "pvsync.tau=2us": " is not a number of nanoseconds nor inf, the default stays",
    "pvsync.impatience": "= is not a number above 0, the default stays",
    "pvsync.impatience=0": " is not a number above 0, the default stays",
    "pvsync.halt_spins": "= is not a number of iterations, the default stays",
    "pvsync.halt_spins=many": " is not a number of iterations, the default stays",
    "pvsync.help=0": " is not a number of cycles above 0, auto or off; nothing changes",
    "pvsync.help=sometimes": " is not a number of cycles above 0, auto or off; nothing changes",
    "pvsync.tlb=nonsense":
        " is not known, nothing changes; use ipi, kvmtlb, shoot4u or mixed",
    "pvsync.ipi=nonsense": " is not known, nothing changes; use stock or yield",
    "pvsync.ecs=nonsense": " is not known, nothing changes; use off, count or free",
    "pvsync.tlb=mix": " is not known, nothing changes; use ipi, kvmtlb, shoot4u or mixed",
    "pvsync.ecs=counts": " is not known, nothing changes; use off, count or free",
    "pvsync.park=nonsense": " is not known, nothing changes; use stock, schdspin or eschdspin",
}
"""Boot parameters, and how what the log says of each goes on."""
UNREAD = ("pvsync.locks=ticket", "pvsync.loc=pmt", "pvsync.lock_=pmt", "pvsync.tlb", "pvsync.")
"""Keys that are none, in part or without the value that they need."""
READ = ("pvsync.lock=pmt", "pvsync.halt-spins=9", "pvsync.extend_us=500", "pvsync.shell=0",
        "--", "pvsync.init=1")
"""Guests' and hosts', with either sort of dash, user space's, and what is init's."""


def boot(*parameters: str) -> list[str]:
    """What pvsync says in a kernel without a host."""
    return re.findall(r"pvsync: (.*)$", alone.boot(*parameters), re.MULTILINE)


@pytest.mark.parametrize("given", [PV, OTHERS], ids=["pv", "others"])
def test_without_kvm(given: dict[str, str]) -> None:
    told = [line for line in boot(*given) if " here: " in line]
    assert sorted(told) == sorted(f"{one} {why}" for one, why in given.items())


def test_wrong_values() -> None:
    """What was there before stays, and nothing is switched on."""
    told = boot("pvsync.lock=pmt", *WRONG)
    wrong = [line for line in told if line.startswith("pvsync.")]
    assert sorted(wrong) == sorted(f"{one}{why}" for one, why in WRONG.items())
    assert "spinlocks: pmt" in told, told
    check_tau("\n".join(told))
    silent = ("TLB shootdown", "calls to other CPUs", "critical sections", "waiters of mutexes",
              "the host is asked")
    assert not any(line.startswith(silent) for line in told), told


def test_keys_that_nothing_reads() -> None:
    """Each is said once, with those that there are."""
    told = [line for line in boot(*UNREAD, *READ) if line.startswith("pvsync.")]
    assert len(told) == len(UNREAD), told
    for line, one in zip(told, UNREAD, strict=True):
        said, _colon, known = line.partition(", these are:")
        assert said == f"{one} is not known, nothing changes; with a value", told
        assert {"lock", "tau", "help", "tlb", "ecs", "park", "extend", "mark"} <= {*known.split()}


def test_tau_is_in_nanoseconds() -> None:
    check_tau("\n".join(boot("pvsync.lock=pmt", "pvsync.tau=20000")), 20_000)


COMMAND = f"""
{CHANGES}
for i in 1 2; do hackbench -g 2 -l 50 >/dev/null; done
grep help_calls /sys/kernel/debug/pvsync/counters
dmesg | sed -n 's/.*pvsync: /log /p'
sed 's/^/in force /' /sys/kernel/debug/pvsync/in_force
"""
DEDICATED = "the host dedicates CPUs to this guest"
NOT_SPUN = "pvsync.help= has no effect here: long waits do not spin"
SAID = {
    "all-dedicated": (
        f"pvsync.lock=pv-ticket is ticket here: {DEDICATED}",
        f"pvsync.help=auto has no effect here: {DEDICATED}",
        f"pvsync.tlb=shoot4u is ipi here: {DEDICATED}",
        f"pvsync.ipi=yield is stock here: {DEDICATED}",
        f"pvsync.ecs=count is off here: {DEDICATED}",
        f"pvsync.park=eschdspin is stock here: {DEDICATED}",
        "spinlocks: ticket", "TLB shootdown: ipi",
    ),
    "host-old": (
        "pvsync.lock=pv-pmt is pmt here: the host does not offer to wake halted vCPUs",
        "pvsync.tlb=kvmtlb is ipi here: the host does not offer it",
        "spinlocks: pmt", "TLB shootdown: ipi",
    ),
    "tlb-unnoted": (
        "pvsync.tlb=mixed is shoot4u here: the host offers no notes", NOT_SPUN,
        "spinlocks: qspinlock", "TLB shootdown: shoot4u",
    ),
    "help-pv": (NOT_SPUN, "spinlocks: pv-pmt"),
    "lock-overruled": (
        "pvsync.lock=ticket gave way to the spinlocks of another hypervisor", NOT_SPUN,
    ),
    "help-refused": (
        "the host is asked for help after 1 cycles of spinning",
        "the host does not help any more, long waits spin",
    ),
    "tlb-refused": (
        "TLB shootdown: shoot4u",
        "the host does not flush translations any more, kvmtlb does it from now on: answer "
        f"{ENOSYS}",
    ),
}
BY = {
    "all-dedicated": {"ipi"},
    "host-old": {"ipi"},
    "tlb-unnoted": {"shoot4u"},
    "tlb-refused": {"kvmtlb", "ipi"},
}
"""Who flushed while flushes were timed, where pvsync.tlb= was given."""


NOT_OFFERED = {"host_features": "none", "host_found_by": "none"}
OFFERED = {"host_features": "help,ecs,tlb", "host_found_by": "cpuid"}
IN_FORCE = {
    "all-dedicated": {"lock": "ticket", "tau": "off", "impatience": "off", "halt_spins": "off",
                      "help": "off", "tlb": "ipi", "ipi": "stock", "ecs": "off",
                      "ecs_record": "none", "park": "stock", **NOT_OFFERED},
    "host-old": {"lock": "pmt", "halt_spins": "off", "tlb": "ipi", **OFFERED},
    "tlb-unnoted": {"help": "off", "tlb": "shoot4u", **OFFERED},
    "help-pv": {"lock": "pv-pmt", "halt_spins": "2048", "help": "off", **OFFERED},
    "lock-overruled": {"lock": "qspinlock", "tau": "off", "help": "off", **OFFERED},
    "help-refused": {"help": "off", **NOT_OFFERED},
    "tlb-refused": {"tlb": "kvmtlb", "host_features": "help,ecs", "host_found_by": "cpuid"},
}
"""What the guest's file says in the end."""


@pytest.mark.sampled
def test_refused_by_the_host(lab: Lab) -> None:
    """Stock takes over, and the host does nothing for who was refused."""
    result = lab(str(HERE / "refused.toml"), "--cmd", COMMAND)
    assert result.status == 0, result.output
    for scheme, lines in SAID.items():
        output = result.guest_output(scheme)
        said = re.findall(r"^log (.*)$", output, re.MULTILINE)
        for line in lines:
            assert said.count(line) == 1, f"{scheme}, {line}: {output}"
        assert sum(" here: " in line for line in said) == sum(" here: " in line for line in lines)
        assert NONE_STALE.search(output) and asked(output) == 0, f"{scheme}: {output}"
        seen = result.cell(scheme)["observed"]["host"]
        assert seen["spin_help"] == seen["extend_granted"] == seen["preempt_kernel"] == 0, seen
    for scheme, lines_in_force in IN_FORCE.items():
        output = result.guest_output(scheme)
        found = dict(re.findall(r"^in force (\S+) (\S+)$", output, re.MULTILINE))
        assert {*found} == {*IN_FORCE["all-dedicated"]}, output
        assert lines_in_force.items() <= found.items(), f"{scheme}: {found}"
    for scheme, by in BY.items():
        output = result.guest_output(scheme)
        check_latency(by, output)
        assert (hypercalls(output) > 100) == ("shoot4u" in by), f"{scheme}: {output}"
