# SPDX-License-Identifier: GPL-2.0-only
"""What vCPUs do over time: intervals of a trace, the worst window, names of vCPUs."""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.core.errors import LabError
from lab.machine import vmcb
from lab.machine.vmcb import Block, Vcpu
from lab.observe import vcpu_trace
from lab.observe.vcpu_trace import LOST, Interval, Kind, Symbols, Window
from tests.lab.damage import any_or_damaged

A, B = "0xa000", "0xb000"
INTERRUPT, PAUSE, HALT, HYPERCALL, PAGE = 0x60, 0x77, 0x78, 0x81, 0x400
SPIN = 0xffffffff81000010


def entry(vcpu: str, cpu: int, ns: int) -> str:
    return f"svm_vmrun cpu {cpu} ns {ns} vmcb {vcpu} asid 1 rip 0x1\n"


def leave(vcpu: str, cpu: int, ns: int, code: int) -> str:
    return f"svm_vmexit cpu {cpu} ns {ns} vmcb {vcpu} code {code:#x} info 0x0 rip {SPIN:#x}\n"


def seen(*lines: str) -> list[Interval]:
    return vcpu_trace.intervals(vcpu_trace.events(lines))


def short(found: list[Interval], vcpu: str = A) -> list[tuple[Kind, int, int]]:
    return [(one.kind, one.begin, one.end) for one in found if one.vmcb == vcpu]


@pytest.mark.parametrize(("code", "kind"), [
    (INTERRUPT, Kind.WAITS), (PAUSE, Kind.YIELDED), (HALT, Kind.SLEEPS), (HYPERCALL, Kind.CALLED),
    (PAGE, Kind.HOST)])
def test_why_a_vcpu_is_away(code: int, kind: Kind) -> None:
    """Another vCPU is entered there, or it goes on elsewhere, or it takes long."""
    first = (entry(A, 0, 100), leave(A, 0, 1100, code))
    run = (Kind.SPINS if code == PAUSE else Kind.RUNS, 100, 1100)
    for back, away in (((entry(B, 0, 1200), leave(B, 0, 1300, HALT), entry(A, 0, 2000)), 2000),
                       ((entry(A, 1, 2000),), 2000),
                       ((entry(A, 0, 51_100),), 51_100)):
        assert short(seen(*first, *back))[:2] == [run, (kind, 1100, away)]


@pytest.mark.parametrize("code", [INTERRUPT, PAUSE, HYPERCALL, PAGE])
def test_kvm_was_at_work(code: int) -> None:
    """What runs on another CPU meanwhile does not matter."""
    found = seen(entry(A, 0, 100), leave(A, 0, 1100, code), entry(B, 1, 1200),
                 entry(A, 0, 51_099), leave(A, 0, 60_000, HALT), entry(A, 0, 60_001))
    assert short(found) == [(Kind.SPINS if code == PAUSE else Kind.RUNS, 100, 1100),
                            (Kind.KVM, 1100, 51_099),
                            (Kind.RUNS, 51_099, 60_000), (Kind.SLEEPS, 60_000, 60_001)]
    assert found[1].code == code and found[1].rip == SPIN and found[0].code is None


def test_clocks_of_two_cpus() -> None:
    """It goes on where the clock is behind: no time between, and no negative one."""
    found = seen(entry(A, 0, 100), leave(A, 0, 1100, INTERRUPT), entry(A, 1, 900),
                 leave(A, 1, 2000, HALT), entry(A, 1, 3000))
    assert short(found) == [(Kind.RUNS, 100, 1100), (Kind.RUNS, 1100, 2000),
                            (Kind.SLEEPS, 2000, 3000)]


def test_ends_of_a_trace() -> None:
    """Who runs or sleeps goes on until the last event; who is away may be stopped."""
    found = seen(leave(B, 1, 50, PAUSE), entry(B, 1, 70), entry(A, 0, 100),
                 leave(B, 1, 200, INTERRUPT), leave("0xc", 2, 300, HALT), entry("0xd", 3, 900))
    assert short(found) == [(Kind.RUNS, 100, 900)]
    assert short(found, B) == [(Kind.KVM, 50, 70), (Kind.RUNS, 70, 200)]
    assert short(found, "0xc") == [(Kind.SLEEPS, 300, 900)]


def test_lines_that_are_lost() -> None:
    """Two entries or two exits in a row say nothing of the time between; nor two CPUs."""
    assert short(seen(entry(A, 0, 100), entry(A, 0, 200), leave(A, 0, 300, PAUSE),
                      leave(A, 0, 400, PAUSE), entry(A, 0, 500), leave(A, 1, 600, PAUSE))) == [
        (Kind.SPINS, 200, 300), (Kind.KVM, 400, 500)]
    assert seen("svm_vmrun cpu 0 ns 1 vmcb 0xa000\n", "CPU Reset (CPU 0)\n") == []


def random_trace(seed: int, count: int = 400) -> list[str]:
    """Four vCPUs on two CPUs."""
    chance, at, lines = random.Random(seed), [0, 0], []
    inside: list[str | None] = [None, None]
    free = [f"{0xa000 + number * 0x1000:#x}" for number in range(4)]
    for _ in range(count):
        cpu = at.index(min(at))
        at[cpu] += chance.randrange(1, 200_000)
        one = inside[cpu]
        if one is None:
            inside[cpu] = one = free.pop(chance.randrange(len(free)))
            lines.append(entry(one, cpu, at[cpu]))
        else:
            lines.append(leave(one, cpu, at[cpu],
                               chance.choice((INTERRUPT, PAUSE, HALT, HYPERCALL, PAGE))))
            free.append(one)
            inside[cpu] = None
    return lines


@pytest.mark.parametrize("seed", range(20))
def test_the_worst_window_is_the_worst(seed: int) -> None:
    """None of many others has more, and its own sum is that of its intervals."""
    found = seen(*random_trace(seed))
    full, best = vcpu_trace.whole(found), vcpu_trace.worst(found, 1_000_000)
    assert best.ns == 1_000_000 and full.begin <= best.begin and best.end <= full.end
    assert best.lost_ns == lost(found, best) > 0
    others = [Window(begin, begin + best.ns)
              for begin in range(full.begin, full.end - best.ns, 30_011)]
    assert max(lost(found, one) for one in others) <= best.lost_ns
    assert vcpu_trace.worst(found, full.ns) == full
    assert vcpu_trace.worst([]) == Window(0, 0, 0)


def lost(found: list[Interval], window: Window) -> int:
    return sum(one.ns for one in vcpu_trace.within(found, window) if one.kind in LOST)


def test_parts_of_a_window() -> None:
    found = [Interval(A, Kind.RUNS, 0, 10, 1), Interval(A, Kind.WAITS, 10, 30, 1, INTERRUPT, 5)]
    assert vcpu_trace.within(found, Window(10, 20)) == [
        Interval(A, Kind.WAITS, 10, 20, 1, INTERRUPT, 5)]


@given(any_or_damaged("".join(random_trace(1, 40)).encode()))
def test_any_trace(data: bytes) -> None:
    """Intervals of a vCPU have lengths, and their kinds fit to their exits."""
    found = seen(*data.decode(errors="replace").splitlines(keepends=True))
    inside = (Kind.RUNS, Kind.SPINS)
    assert all(one.ns > 0 and (one.code is None) == (one.kind in inside) for one in found)
    assert vcpu_trace.worst(found).lost_ns <= sum(one.ns for one in found)


@given(st.text())
def test_any_symbols(text: str) -> None:
    assert Symbols(text).function(0x1234) == vcpu_trace.USER
    assert Symbols(text).function(SPIN)


def test_functions() -> None:
    symbols = Symbols("ffffffff81000000 T spin\nffffffff81000040 t other\n"
                      "ffffffff81000008 D data\n0000000000000000 A absolute\n")
    assert [symbols.function(at) for at in (SPIN, SPIN + 0x40, 0x400000, 1 << 63)] == [
        "spin", "other", vcpu_trace.USER, f"{1 << 63:#x}"]


# Names


AREA = 0xffff88800fc00000


def blocks(vms: int, vcpus: int, *, offset: int = -5) -> list[Block]:
    """In an order that is not that of the numbers."""
    made = [vmcb.block(f"{vm}-{number}", (offset - vm) % (1 << 64),
                       AREA + number * 0x10000 if number % 2 else 0x7f00,
                       0 if number % 2 else AREA + number * 0x10000)
            for vm in range(vms) for number in range(vcpus)]
    random.Random(1).shuffle(made)
    return made


def test_names() -> None:
    """VMs by their TSC offset, vCPUs by the places of their areas."""
    found = vmcb.named(blocks(2, 12), {"t-0": [-5] * 12, "t-1": [-6] * 12, "u-0": [-7]}, 12)
    assert found.vcpus == tuple(Vcpu(f"{vm}-{number}", f"t-{vm}", number)
                                for vm in range(2) for number in range(12))
    assert found.how == vmcb.CERTAIN


def test_names_that_are_not_certain() -> None:
    """A stranger's vCPUs, two VMs of one offset, a vCPU that never ran, one without an area."""
    found = vmcb.named(blocks(3, 2), {"t-0": [-5, -5], "t-1": [-6], "t-2": [-6]}, 2)
    assert [one.vm for one in found.vcpus] == ["VM a", "VM a", "VM b", "VM b", "t-0", "t-0"]
    assert vmcb.GROUPED in found.how and "entered" not in found.how
    few = vmcb.named(blocks(1, 2), {"t-0": [-5]}, 3)
    assert vmcb.ORDERED.format("t-0") in few.how and vmcb.GROUPED not in few.how
    lost = [Block("1", -5, None), Block("0", -5, AREA)]
    assert [one.vmcb for one in vmcb.named(lost, {"t-0": [-5]}, 2).vcpus] == ["1", "0"]


def test_names_are_kept(tmp_path: Path) -> None:
    names = vmcb.named(blocks(1, 2), {"t-0": [-5]}, 2)
    assert vmcb.read(tmp_path, ["0-1"]) == vmcb.unnamed(["0-1"])
    vmcb.write(tmp_path, names)
    assert vmcb.read(tmp_path, ["0-1"]) == names
    assert vmcb.read(tmp_path, ["0-1", "7"]) == vmcb.unnamed(["0-1", "7"])
    for text in ("", "{", json.dumps({"vcpus": [1], "how": ""})):
        (tmp_path / vmcb.FILE).write_text(text)
        assert vmcb.read(tmp_path, ["0-1"]) == vmcb.unnamed(["0-1"])


def test_words_of_memory() -> None:
    assert vmcb.word("00000000012c5050: 0xffffffffffffff38\r\n") == (1 << 64) - 200
    with pytest.raises(LabError, match="does not show memory of the host: Cannot access"):
        vmcb.word("Cannot access memory")


def test_a_vcpu_does_one_thing_at_a_time() -> None:
    found = seen(*random_trace(3))
    for vcpu in {one.vmcb for one in found}:
        own = [one for one in found if one.vmcb == vcpu]
        assert all(one.end == after.begin for one, after in pairwise(own))


@pytest.mark.parametrize(("moves", "mean"), [
    ([(A, 0, 0), (B, 0, 100), (A, 0, 400)], 1.0),
    ([(A, 0, 0), (B, 1, 100), (A, 0, 400)], 2.0),
    ([(A, 0, 0), (B, 0, 100), (B, 1, 200), (A, 1, 500), (B, 1, 600)], 1.6),
    ([(A, 0, 0), (A, 1, 100)], 1.0),
    ([(A, 0, 5)], None),
    ([], None)])
def test_on_how_many_cpus_a_vm_is(moves: list[tuple[str, int, int]], mean: float | None) -> None:
    """From when the CPU of each of its vCPUs is known, to when the last interval begins."""
    found = [Interval(vcpu, Kind.RUNS, begin, begin + 1, cpu) for vcpu, cpu, begin in moves]
    assert vcpu_trace.spread(reversed(found)) == pytest.approx(mean)
