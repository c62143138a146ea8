# SPDX-License-Identifier: GPL-2.0-only
"""The host's side on processors with VMX, which all other tests here run on SVM."""

import multiprocessing
import re
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from lab.build import kernel
from lab.machine import console
from lab.observe import counters
from tests.kernel.monitors import check_each_way, storm_counts
from tests.vmx import machine

MONITORS = ("vm-memory-check", "vm-memory-storm")
MEMORY = """
cd /sys/module/pvsync/parameters
echo ecs >extend && echo ecs >candidate && echo strong >yield || exit 1
vm-memory-check || exit 1
echo storm
vm-memory-storm -S 2 -s 1
"""
"""What tests/kernel/test_memory.py has a host do."""
LOADS = ("tlb-checker", "ebizzy-like")
GUEST = """
nproc
dmesg | grep pvsync:
tlb-checker -S 2 || exit 1
ebizzy-like -S 2 || exit 1
cat /sys/kernel/debug/pvsync/counters
"""
SEARCH = "tlb-checker -v swap -S 40"
"""For flushes that are lost. It ends with the first translation that is left, and frees no memory,
so that nothing else of the guest's is written to by one."""
HOST = """
cd /sys/module/pvsync/parameters
for i in extend=ecs yield=strong mark=exit window=aple candidate=hvs aple_epoch=100 {parameter}; do
    echo ${{i#*=}} >${{i%=*}} || exit 1
done
guest() {{
    name=$1; shift
    timeout -s KILL 90 /usr/bin/qemu-system-x86_64-microvm -L /firmware \
        -nodefaults -no-user-config -display none -no-reboot -enable-kvm -cpu host \
        -M microvm,x-option-roms=on,isa-serial=on,rtc=on -smp 2 -m 96M \
        -kernel /bzImage -initrd /files -append "{quiet} $*" -serial file:/tmp/$name 2>&1 &
}}
dmesg | grep pvsync:
{guests}
wait
for i in /tmp/*; do sed "s/^/${{i#/tmp/}}: /" $i; done
cat /sys/kernel/debug/pvsync/counters
"""
ALONE = "guest a pvsync.tlb=shoot4u"
PAIR = (
    "guest b pvsync.lock=pv-pmt pvsync.tlb=shoot4u pvsync.ecs=count pvsync.park=eschdspin",
    "guest c pvsync.lock=pmt pvsync.help=auto pvsync.tlb=mixed pvsync.ecs=free",
)
"""They share two CPUs, and the vCPUs of neither may ever be in it at the same time. So there is
one that has them for itself, before these or alone."""
SAID = {
    "a": ("TLB shootdown: shoot4u",),
    "b": ("spinlocks: pv-pmt", "TLB shootdown: shoot4u", "critical sections: count",
          "waiters of mutexes and rwsems: eschdspin"),
    "c": ("spinlocks: pmt", "the host is asked for help after", "TLB shootdown: mixed",
          "critical sections: free"),
}
COUNTED = ("spin_filter", "yield_ran", "epochs", "tlb_running", "tlb_preempted", "tlb_full",
           "tlb_pages", "preempt_lock", "preempt_mutex", "preempt_yielded", "extend_granted",
           "extend_returned")
"""What the host has done for two guests: by the processor's own pause-loop exits, by address and
of all addresses (INVVPID), for vCPUs that run and that do not."""
MISTAKEN = {
    "pvsync.lock=pv-pmt": "pvsync.lock=pv-pmt is pmt here: the host does not offer to wake",
    "pvsync.help=auto": "pvsync.help=auto has no effect here: this is no KVM guest",
    "pvsync.tlb=shoot4u": "pvsync.tlb=shoot4u is ipi here: this is no KVM guest",
    "pvsync.ecs=count": "pvsync.ecs=count is off here: this is no KVM guest",
    "pvsync.park=eschdspin": "pvsync.park=eschdspin is stock here: this is no KVM guest",
    "pvsync.candidate=nobody": "pvsync: candidate does not have that value",
    "pvsync.extend_us=9": "pvsync: extend_us does not have that value",
}
"""Boot parameters of the host that are for guests, or have no such value, and what it says."""
WELL = ("said: checked: ", "said: records/s: ", "said: ended: 0")
"""What a guest says whose loads ended as they should."""
PATIENCE = 900
"""Seconds; it takes about 80. Guests that hang are ended after 90 of the machine's own."""


def boot(folder: Path, script: str, programs: tuple[str, ...] = (), guest: str = "",
         arguments: str = "", variant: str = "test") -> str:
    """Run a script on a host, and `guest` in its guests if there are any; the console's text.

    `arguments` are further ones of the host's kernel; its guests have their own.
    """
    image = kernel.build(variant)
    root = folder / "host"
    machine.add_init(root, script, programs)
    if guest:
        machine.add_qemu(root)
        machine.add_init(folder / "guest", guest, LOADS)
        machine.pack(folder / "guest", root / "files")
        (root / "bzImage").hardlink_to(image.bzimage)
    text = machine.run(machine.make_disc(image, root, folder, arguments), folder, PATIENCE)
    print(text)
    return text


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Disc of a script that does not end."""
    machine.add_init(tmp_path / "host", "sleep 999", ())
    return machine.make_disc(kernel.build("test"), tmp_path / "host", tmp_path, "")


def emulators(parent: int | None = None) -> list[psutil.Process]:
    return [one for one in psutil.Process(parent).children() if "bochs" in one.name()]


def test_a_script_that_does_not_end(tmp_path: Path, endless: Path) -> None:
    """The machine is ended in time, however far it has come, and the error says so."""
    with pytest.raises(machine.MachineError, match="not within 10 s: "):
        machine.run(endless, tmp_path, 10)
    assert not emulators()


def test_it_ends_with_the_tests(tmp_path: Path, endless: Path) -> None:
    """Also when they are killed, and when it is past its start."""
    tests = multiprocessing.get_context("spawn").Process(
        target=machine.run, args=(endless, tmp_path, PATIENCE))
    tests.start()
    found = emulators(tests.pid)
    while sum(one.cpu_times().user for one in found) < 2:
        assert tests.is_alive()
        time.sleep(0.1)
        found = emulators(tests.pid)
    tests.kill()
    tests.join()
    assert psutil.wait_procs(found, 10)[0] == found


def lines(text: str) -> str:
    """What the script said."""
    return "\n".join(re.findall(r"(?m)^\[[ \d.]+\] said: (.*)$", text))


def test_memory_goes_away(tmp_path: Path) -> None:
    """Records and the memory they are in, with VMX and its log of written pages."""
    text = boot(tmp_path, MEMORY, MONITORS)
    check, storm, ended = re.split(r"(?m)^storm\n|^ended: ", lines(text))
    check_each_way(0, check)
    assert storm_counts(storm) and ended == "0", storm
    assert not console.scan(text.encode())


def run_guests(folder: Path, guests: Sequence[str], guest: str = GUEST, parameter: str = "",
               arguments: str = "", variant: str = "test") -> str:
    """Boot a host with `parameter` set and these guests, each of which runs `guest`."""
    script = HOST.format(parameter=parameter, guests="\n".join(guests), quiet=machine.QUIET)
    return boot(folder, script, guest=guest, arguments=arguments, variant=variant)


def of_guest(said: str, name: str) -> str:
    """What a guest's console said, of what the script said."""
    return "\n".join(re.findall(rf"(?m)^{name}: (.*)$", said))


def counts(said: str) -> dict[str, int]:
    """The host's counters."""
    return counters.pairs(list(filter(counters.PAIR.fullmatch, said.splitlines())))


def test_every_mechanism(tmp_path: Path) -> None:
    """Guests with two vCPUs each on two CPUs, with all of pvsync in them and in the host."""
    text = run_guests(tmp_path, (ALONE, "wait", *PAIR))
    said = lines(text)
    for name, wanted in SAID.items():
        own = of_guest(said, name)
        for line in (*wanted, *WELL):
            assert line in own, f"{line}: {own}"
        assert re.search(r"said: tlb_hypercalls [1-9]", own), own
    counted = counts(said)
    for name in COUNTED:
        assert counted[name] > 0, f"{name}: {counted}"
    assert counted["tlb_refused"] == 0 == counted["yield_unmarked"], counted
    assert not console.scan(text.encode())


def test_lost_shootdowns_are_noticed(tmp_path: Path) -> None:
    """The checker in a guest finds a translation that is left."""
    said = lines(run_guests(tmp_path, (ALONE,), SEARCH, "assert_shootdown=N busted_shootdown=Y"))
    assert "said: tlb-checker: stale translation (swap" in said and "said: ended: 1" in said, said


def test_shadow_paging(tmp_path: Path) -> None:
    """Without EPT shootdowns are not offered; guests say so and do without, the rest works.

    The host itself is no guest, and has a filter of its own: what it is asked for, it does without.
    """
    text = run_guests(tmp_path, PAIR, parameter="pause=soft",
                      arguments=" ".join(("kvm_intel.ept=0", *MISTAKEN)))
    said = lines(text)
    for line in MISTAKEN.values():
        assert line in said, f"{line}: {said}"
    for name, form in ("b", "shoot4u"), ("c", "mixed"):
        own = of_guest(said, name)
        for line in (f"pvsync.tlb={form} is kvmtlb here: the host does not offer it", *WELL):
            assert line in own, f"{line}: {own}"
        assert "said: tlb_hypercalls 0" in own, own
    counted = counts(said)
    assert counted["tlb_calls"] == 0 < counted["extend_returned"], counted
    assert counted["spin_soft"] == 0 < counted["spin_filter"], counted
    assert not console.scan(text.encode())
