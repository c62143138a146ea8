# SPDX-License-Identifier: GPL-2.0-only
"""BPF on a pvsync host, with Debian's tools: who held up whom, and programs that are policies.

The VMs are of operate_host.py: their vCPUs spin, without a kernel, or have the firmware claims.S.
They share two CPUs.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import pytest

from lab.core import paths, tools
from lab.core.model import Backend
from lab.run.host import Job
from tests.kernel.in_host import lines, said_by
from tests.kernel.lending import LEND, claims

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
	monitors="$monitors $!"
done
for pid in $monitors; do
	until grep -qs '^spin_events [1-9]' /sys/kernel/debug/kvm/$pid-*/pvsync/counters; do
		sleep 0.5
	done
done
"""
"""Both VMs are played and spin: how long that takes depends on this machine."""
TRACED = START + """
bpftrace --version
for name in held-up yielded-to; do bpftrace $name.bt -c 'sleep 5'; done
"""
KEYS = re.compile(r"^@(\w+)\[(.+)\]: (\d+)\r?$", re.MULTILINE)
VCPUS = 4
"""Of each VM that has a BPF program for a policy."""
LEAST_US = 10_000
"""For which a VM of two that share the CPUs for 5 s is held up by the other one: a few slices.

It is more where the scheduler does not keep the two vCPUs of a VM on the same CPU."""


def said(script: str, played_by: Backend, parameters: dict[str, str],
         more: Iterable[Path] = ()) -> str:
    """What the script prints in a host whose kernel has BPF."""
    return said_by(Job(("bash", "-c", script), parameters,
                       (HERE / "operate_host.py", paths.LAB, *SCRIPTS, *more), variant="bpf",
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


BPF = """
counted() { sleep 2; sed "s/^/$1 /" /sys/kernel/debug/pvsync/counters; }
load() { bpftool struct_ops register $1.bpf.o; }
unload() { bpftool struct_ops unregister name $1; }
"""
PROGRAMS = (*sorted(paths.KERNEL.glob("bpf/*.bpf.c")), *sorted(HERE.glob("bpf/*.bpf.c")))
TRACE = "/sys/kernel/debug/tracing"
POLICIES = BPF + """
mkdir -p /run/bpf
traced() {
	echo >TRACE/trace
	echo 1 >TRACE/events/pvsync/pvsync_yield/enable
	counted $1
	echo 0 >TRACE/events/pvsync/pvsync_yield/enable
	sed -n "s/.* vcpu=\\([0-9]*\\) target=\\([0-9]*\\) chosen=1 .*/yield $1 \\1 \\2/p" TRACE/trace |
		sort -u
}
counted start
counted none
load hvs
counted hvs-loaded
traced hvs
load turns 2>&1 && exit 1
unload hvs
counted hvs-gone
counted former
load turns
counted turns-loaded
counted turns
unload turns
load first
traced first
unload first
load outside
counted outside-loaded
counted outside
unload outside
for name in writes endless; do load $name 2>&1 && exit 1; done
counted bad-loaded
counted bad
bpftool struct_ops list
""".replace("TRACE", TRACE)
COUNTED = re.compile(r"^([a-z-]+) (\w+) (\d+)\r?$", re.MULTILINE)
SEVERAL = 50
"""Choices of 2 s, of which there are thousands."""


def compiled(folder: Path) -> list[Path]:
    """The programs for BPF, built by this machine's clang."""
    for file in PROGRAMS:
        tools.run(["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-Werror",
                   f"-I{paths.KERNEL / 'bpf'}", "-c", file,
                   "-o", folder / file.with_suffix(".o").name])
    return sorted(folder.glob("*.bpf.o"))


def grown(output: str, first: str, last: str) -> dict[str, int]:
    """What was added to each counter between two looks at all of them."""
    seen: dict[str, dict[str, int]] = {}
    for look, name, value in COUNTED.findall(output):
        seen.setdefault(look, {})[name] = int(value)
    return {name: value - seen[first][name] for name, value in seen[last].items()}


def yields_by(program: str, output: str) -> set[tuple[str, str]]:
    """Who yielded to whom while a program was traced, and the program had chosen."""
    return set(re.findall(rf"^yield {program} (\d+) (\d+)\r?$", output, re.MULTILINE))


def test_programs_choose_while_they_are_loaded(played_by: Backend, tmp_path: Path) -> None:
    """They come and go while vCPUs spin, and whom they choose gets the yields.

    What chooses wrongly is left to stock KVM.
    """
    output = said(START.replace("play 2", f"play {VCPUS}") + POLICIES, played_by,
                  {**POLICY, "candidate": "bpf"}, compiled(tmp_path))
    for first, last in (("start", "none"), ("hvs-gone", "former"), ("bad-loaded", "bad")):
        without = grown(output, first, last)
        assert without["pick_stock"] > SEVERAL, (first, without)
        # Counters are read one after the other, and vCPUs spin meanwhile.
        assert 0.8 < without["pick_stock"] / without["spin_events"] < 1.2, (first, without)
        assert not without["pick_bpf"] and not without["pick_refused"], (first, without)
    for name in ("hvs", "turns"):
        by_it = grown(output, f"{name}-loaded", name)
        assert by_it["pick_bpf"] > SEVERAL and by_it["yield_attempted"] > SEVERAL, (name, by_it)
        assert not by_it["pick_stock"] and not by_it["pick_refused"], (name, by_it)
    outside = grown(output, "outside-loaded", "outside")
    assert outside["pick_refused"] > SEVERAL and not outside["pick_bpf"], outside
    assert outside["spin_events"] > SEVERAL and outside["yield_attempted"] > 0, outside
    yields = yields_by("hvs", output)
    assert len({who for who, _ in yields}) == len({whom for _, whom in yields}) == VCPUS, yields
    assert not any(who == whom for who, whom in yields), yields
    assert yields_by("first", output) == {("0", "1"), ("1", "0"), ("2", "0"), ("3", "0")}, output
    assert "only read is supported" in output and "infinite loop" in output, output
    assert "Device or resource busy" in output, output
    assert not re.search(r"pvsync_yield_ops\r?$", output), output


COST = BPF + """
counted() { sed "s/^/$1 /" /sys/kernel/debug/pvsync/counters; }
choose() { echo $1 >/sys/module/pvsync/parameters/candidate; }
measured() { sleep 0.2; counted $1-begin; sleep 1; counted $1-end; }
for turn in a b c; do
	choose kvm; measured kvm-$turn
	choose hvs; measured c-$turn
	choose hvs; measured placebo-$turn
	load hvs; choose bpf; measured bpf-$turn
	choose kvm; unload hvs
	load turns; choose bpf; measured turns-$turn
	choose kvm; unload turns
done
"""
WAYS = "kvm", "c", "placebo", "bpf", "turns"


def test_what_a_choice_costs(played_by: Backend, tmp_path: Path) -> None:
    """HVS as a program takes no more than three times as long as HVS in C.

    Virtual time shows instructions.
    """
    output = said(START.replace("play 2", f"play {VCPUS}") + COST, played_by, POLICY,
                  compiled(tmp_path))
    each: dict[str, list[float]] = {}
    for way in WAYS:
        for turn in "abc":
            more = grown(output, f"{way}-{turn}-begin", f"{way}-{turn}-end")
            assert more["spin_events"] > SEVERAL, (way, turn, more)
            assert bool(more["pick_bpf"]) == (way in {"bpf", "turns"}), (way, turn, more)
            each.setdefault(way, []).append(more["spin_ns"] / more["spin_events"])
        print(f"{way}: ns of a choice in three turns:", *(f"{one:.0f}" for one in each[way]))
    assert median(each["bpf"]) < 3 * median(each["c"]), each


CLAIMS = BPF + """set -e
mkfifo /run/open; exec 9<>/run/open
for name in one two; do
	cp claims.bin /run/$name
	python3 operate_host.py claim /run/$name VCPUS <&9 &
done
until od -A n -t u4 -j LOANS -N $((4 * VCPUS)) -v -w4 /run/two | grep -q '[1-9]'; do
	sleep 0.2
done
""".replace("VCPUS", str(VCPUS)).replace("LOANS", "0xa000")
"""Both VMs have claims.S for a firmware, and the last one borrows."""
VETOES = CLAIMS + """
said() {
	sed "s/^/$1 /" /sys/kernel/debug/pvsync/counters
	for name in one two; do
		echo guest $1 $(od -A n -t u4 -j LOANS -N $((4 * VCPUS)) /run/$name)
	done
}
during() { sleep 0.1; said $1-begin; sleep 1; said $1; }
during before
load odd
during odd
load calm 2>&1 && exit 1
unload odd
during gone
load calm
during calm
unload calm; load odd
during odd-again
unload odd
load lends 2>&1 && exit 1
during after
bpftool struct_ops list
""".replace("VCPUS", str(VCPUS)).replace("LOANS", "0xa000")
GUESTS = re.compile(r"^guest ([a-z-]+) ([\d ]+)\r?$", re.MULTILINE)
"""In claims.S: how often each vCPU was told that it runs on borrowed time."""
LENT = 10
"""Loans of a vCPU in a second, at least; there are 50 to 70."""
CALM_LOANS = 2 * 4
"""Of a VM in a second with calm.bpf.c, at most: it touches two seconds of that program.

In each of them a millisecond is lent, and one more to whoever borrows meanwhile on the other CPU.
"""


def loans(output: str, phase: str) -> list[list[int]]:
    """What each guest has counted in a phase, vCPU by vCPU."""
    seen: dict[str, list[list[int]]] = {}
    for look, numbers in GUESTS.findall(output):
        seen.setdefault(look, []).append([int(number) for number in numbers.split()])
    return [[now - then for then, now in zip(*both, strict=True)]
            for both in zip(seen[f"{phase}-begin"], seen[phase], strict=True)]


def test_programs_refuse_loans(played_by: Backend, tmp_path: Path) -> None:
    """They come and go while vCPUs want loans for ever; by what the guests are told.

    VMs of one that refuses odd vCPUs go on lending to the even ones.
    """
    output = said(VETOES, played_by, LEND, (*compiled(tmp_path), claims(tmp_path)))
    for phase in ("before", "gone", "after"):
        assert min(map(min, loans(output, phase))) > LENT, (phase, loans(output, phase))
        assert not grown(output, f"{phase}-begin", phase)["extend_vetoed"], phase
    for phase in ("odd", "odd-again"):
        for guest in loans(output, phase):
            assert min(guest[0::2]) > LENT and not any(guest[1::2]), (phase, guest)
        assert grown(output, f"{phase}-begin", phase)["extend_vetoed"] > LENT, phase
    for guest in loans(output, "calm"):
        assert sum(guest) <= CALM_LOANS, guest
    assert output.count("Device or resource busy") == 1, output
    assert output.count("only read is supported") == 1, output
    assert not re.search(r"pvsync_extend_ops\r?$", output), output


TIMED = """set -e
bpftrace -q -B line -e '
	BEGIN { printf("ready\\n"); }
	fentry:pvsync_bpf_take { @phase++; }
	fentry:pvsync_bpf_refuses { @begin[cpu] = nsecs; }
	fexit:pvsync_bpf_refuses /@begin[cpu]/ {
		@calls[(uint64)@phase, nsecs - @begin[cpu]] = count();
	}' >/run/timed &
bpftrace=$!
until grep -q ready /run/timed; do kill -0 $bpftrace; sleep 0.1; done
"""
"""Each load and each unload begins a phase."""
VETO_COST = TIMED + CLAIMS + """
for turn in a b c; do
	sleep 0.3
	load odd; sleep 0.3; unload odd
	sleep 0.3
	load calm; sleep 0.3; unload calm
done
kill -INT $bpftrace
wait $bpftrace || true
cat /run/timed
"""
VETO_WAYS = "none", "odd", "placebo", "calm"
"""In the order of the phases of a turn."""
TURNS = 3
CALLS = re.compile(r"^@calls\[(\d+), (\d+)\]: (\d+)\r?$", re.MULTILINE)
"""Of one length, ns, in one phase."""
EXTEND_US = 1000
"""For which a loan may last."""
SMALL_SHARE = 0.01
"""Of that, at most, for asking a program."""


def calls(output: str, phase: int) -> list[int]:
    """How long each call of a phase took, ns."""
    return [int(ns) for one, ns, times in CALLS.findall(output) if int(one) == phase
            for _ in range(int(times))]


def test_what_a_veto_costs(played_by: Backend, tmp_path: Path) -> None:
    """The host's question whether a program refuses a loan: with programs, and with none.

    What times the calls takes the same in each. Virtual time shows instructions.
    """
    output = said(VETO_COST, played_by, {**LEND, "extend_us": str(EXTEND_US)},
                  (*compiled(tmp_path), claims(tmp_path)))
    each: dict[str, list[float]] = {}
    for number, way in enumerate(VETO_WAYS):
        turns = [calls(output, number + turn * len(VETO_WAYS)) for turn in range(TURNS)]
        assert min(map(len, turns)) > SEVERAL, (way, turns)
        each[way] = [median(turn) for turn in turns]
        print(f"{way}: calls in three turns:", *map(len, turns), "and their median, ns:",
              *(f"{one:.0f}" for one in each[way]))
    asked = {way: median(each[way]) - median(each["none"]) for way in VETO_WAYS}
    assert asked["odd"] > abs(asked["placebo"]) and asked["calm"] > asked["odd"], each
    assert asked["calm"] < SMALL_SHARE * EXTEND_US * 1000, each
