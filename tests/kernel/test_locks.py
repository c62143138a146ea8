# SPDX-License-Identifier: GPL-2.0-only
"""The spinlocks in guests: selection, counters, exclusion; and that the lab can fail."""

import re

import pytest

from tests.kernel import alone
from tests.kernel.conftest import HERE, Lab, Result, each, longer

TORTURE = str(HERE / "torture.toml")
TRACING = "/sys/kernel/debug/tracing"
TRACE_BEGINS = f"echo 0 >{TRACING}/trace; echo 1 >{TRACING}/events/lock/enable"
TRACE_ENDS = f"""
echo 0 >{TRACING}/events/lock/enable
traced=$(grep -c 'contention_begin: .*(flags=SPIN)' {TRACING}/trace)
ended=$(grep -c 'contention_end: ' {TRACING}/trace)
within=$(sed -n '/mark_write: on$/,/mark_write: off$/p' {TRACING}/trace |
    grep -c 'contention_begin: .*(flags=SPIN)')
overrun=$(cat {TRACING}/per_cpu/*/stats | grep -c '^overrun: [1-9]')
echo "traced $traced begun, $within of them counted, $ended ended, $overrun overrun"
"""
"""Guest commands around what waits for locks, the only events of that folder without lockdep."""
TRACED = re.compile(r"^traced (\d+) begun, (\d+) of them counted, (\d+) ended, 0 overrun$",
                    re.MULTILINE)
PROBE = f"""
dmesg | grep -a 'pvsync:'
cd /sys/kernel/debug/pvsync && grep . counters
{TRACE_BEGINS}
echo 1 >stall_spins; echo 1 >lock_stat; echo on >{TRACING}/trace_marker
hackbench -g 1 -l 50 >/dev/null; status=$?
echo off >{TRACING}/trace_marker; echo 0 >lock_stat
[ $status = 0 ] && grep . counters
{TRACE_ENDS}
hackbench -g 1 -l 20 >/dev/null && grep . counters
for bad in 2 x -1; do echo $bad >lock_stat && echo took $bad; done
echo 5 >counters && echo took 5
sed 's/^/bin /' lock_waits
echo 0 >counters && grep . counters
sed 's/^/left /' lock_waits
true
"""
WAITS = re.compile(r"^bin (\d+) (\d+) (\d+)$", re.MULTILINE)
COUNTER = re.compile(r"^(lock_\w+) (\d+)$", re.MULTILINE)
TAU = re.compile(r"tau (\d+) ns is (\d+) spins "
                 r"\(a spin takes (\d+) ps, a critical section (\d+) ps\), impatience (\d+)")
SAID = {
    "pvqspinlock": "spinlocks: qspinlock",
    "qspinlock": "spinlocks: qspinlock",
    "tas": "spinlocks: tas",
    "ticket": "spinlocks: ticket",
    "pmt": "spinlocks: pmt",
    "pv-ticket": "spinlocks: pv-ticket",
    "pv-pmt": "spinlocks: pv-pmt",
}
TAUS = {"0": "tau 0 ns is 0 spins", "inf": "tau is infinite"}
"""Of pmt in kernels without a host."""
SHARING = 8
"""CPUs, at most, of these guests and kernels."""
SECTIONS = 4
"""How often PROBE shows the counters: at first, counted, not counted, cleared."""


def counters(output: str) -> list[dict[str, int]]:
    """The counters as PROBE showed them, in its order."""
    shown = [(name, int(value)) for name, value in COUNTER.findall(output)]
    size = len(shown) // SECTIONS
    assert size and len(shown) == SECTIONS * size, output
    return [dict(shown[start : start + size]) for start in range(0, len(shown), size)]


def check_waits(output: str) -> None:
    """Each bin's cycles fit its bounds, and clearing leaves none."""
    found = [tuple(map(int, line)) for line in WAITS.findall(output)]
    assert found and "left " not in output, output
    for index, waits, cycles in found:
        assert waits
        assert waits * 2**index / 2 <= cycles < waits * 2**index or index == 0, output


def check_tau(output: str, ns: int | None = None) -> None:
    """It is in nanoseconds, and as many spins as fit; without one, 50 sections, at least 2 us."""
    (said,) = TAU.findall(output)
    tau, spins, spin_ps, section_ps, impatience = map(int, said)
    assert tau == (max(2000, 50 * section_ps // 1000) if ns is None else ns), said
    assert spins == 1000 * tau // spin_ps, said
    assert impatience == max(1, min(16, spins // 8)), said


def traced(output: str) -> tuple[int, int]:
    """Waits for spinlocks that a guest's tracepoints told of, and those of them while it counted.

    All but those under way have ended. The ends are those of mutexes and other locks as well.
    """
    (said,) = TRACED.findall(output)
    begun, within, ended = map(int, said)
    assert ended >= begun - SHARING, output
    return begun, within


def check_taus(result: Result) -> None:
    """Each lock that has a use for one has that which it was given."""
    for scheme in ("pmt", "pv-pmt"):
        check_tau(result.guest_output(scheme))
    for scheme in ("pvqspinlock", "tas", "ticket", "pv-ticket"):
        assert not TAU.search(result.guest_output(scheme)), f"{scheme} has a tau"


@pytest.fixture(scope="module")
def tortured(lab: Lab) -> Result:
    """Guests with every lock, probed and then tortured, so that each boots once."""
    flag, torture, *limit = longer("locktorture", 8)
    return lab(TORTURE, flag, f"{PROBE}\n{torture}", *limit)


def check_probe(scheme: str, line: str, output: str) -> None:
    """What PROBE shows: the line in the log, and counters that count when they are asked to."""
    assert line in output, f"{scheme}: {output}"
    assert "took" not in output, f"{scheme} accepted a wrong value"
    first, counted, uncounted, cleared = counters(output)
    assert set(first.values()) == {0}, f"{scheme} counts before it is asked to"
    assert counted["lock_acquisitions"] > 10_000, scheme
    assert uncounted == counted, f"{scheme} goes on counting"
    assert set(cleared.values()) == {0}
    check_waits(output)


@pytest.mark.parametrize("tau", TAUS)
def test_pmt_with_another_tau(tau: str) -> None:
    """Without a host, on 8 CPUs that share those of this machine."""
    _flag, torture, *_limit = longer("locktorture", 8)
    output = alone.run(f"{PROBE}\n{torture}", "pvsync.lock=pmt", f"pvsync.tau={tau}", cpus=8,
                       limit_s=180)
    check_probe(tau, TAUS[tau], output)
    if tau == "0":
        check_tau(output, 0)
    else:
        assert not TAU.search(output), "an infinite tau is a number"
    check_ended(tau, output, 1)


@pytest.mark.sampled("locks")
def test_every_lock_says_and_counts(tortured: Result) -> None:
    assert tortured.status == 0, tortured.output
    for scheme, line in SAID.items():
        check_probe(scheme, line, tortured.guest_output(scheme))
    check_taus(tortured)
    for scheme in ("ticket", "pmt"):
        seen = counters(tortured.guest_output(scheme))[1]
        assert seen["lock_contended"] > 0, f"{scheme}: {seen}"
        assert seen["lock_stalls_holder"] + seen["lock_stalls_waiter"] > 0, f"{scheme}: {seen}"


@pytest.mark.sampled("locks")
@pytest.mark.parametrize("scheme", ["ticket", "pmt", "pv-ticket", "pv-pmt"])
def test_every_wait_is_traced(tortured: Result, scheme: str) -> None:
    """And each wait that is traced while waits are counted is counted.

    Tracing begins before that and ends after it, by as much as a busy machine has it take.
    """
    output = tortured.guest_output(scheme)
    contended = counters(output)[1]["lock_contended"]
    begun, within = traced(output)
    assert within - SHARING <= contended <= begun, (scheme, within, contended, begun)
    assert within > 0.8 * contended, (scheme, within, contended)


@pytest.mark.sampled
def test_broken_lock_is_caught(lab: Lab) -> None:
    # It hangs, and 20 s of torture take no minute. Often it does not even boot: see its boot_s.
    result = lab("busted", "--timeout", "60")
    assert result.status == 1, result.output
    assert not result.summary["valid"]
    assert len(result.cell("ticket")["values"]) == 1, "the good lock must pass beside it"
    assert not result.cell("busted")["values"], "the broken lock passed"
    assert result.cell("busted")["invalid_runs"] == 1


def check_torture(result: Result, kinds: int = 1) -> None:
    """It ended well for each kind of lock, and the last one of them was handed over often."""
    assert result.status == 0, result.output
    for cell in result.summary["cells"]:
        check_ended(cell["scheme"], result.guest_output(cell["scheme"]), kinds)


def check_ended(scheme: str, output: str, kinds: int) -> None:
    """Of one guest."""
    assert output.count("End of test: SUCCESS") == kinds, f"{scheme}: {output}"
    *_, writes = re.findall(r"Writes:  Total: (\d+) ", output)  # some say it twice
    assert int(writes) > 1000, f"{scheme} hardly moved"


@pytest.mark.sampled("locks")
def test_every_lock_excludes_with_8_vcpus(tortured: Result) -> None:
    check_torture(tortured)


def stars(result: Result) -> set[tuple[str, int, bool]]:
    """Workload and VMs of each cell with a star, and whether it has more than the baseline."""
    assert result.status == 0, result.output
    cells = result.summary["cells"]
    assert [cell["scheme"] for cell in cells].count("pmt:2") == 2
    return {(cell["workload"], cell["vms"], cell["vs_baseline"] > 0) for cell in cells
            if cell["significant"]}


@pytest.mark.sampled
def test_scheme_against_itself_shows_no_star(lab: Lab) -> None:
    """By chance 0.9 % of the tables have one: it must not be there again in another."""
    found = stars(lab(str(HERE / "aa.toml")))
    if found:
        found &= stars(lab(str(HERE / "aa.toml")))
    assert not found


@pytest.mark.soak
def test_rwlocks_and_interrupts_with_8_vcpus(lab: Lab, length: int) -> None:
    """Rwlocks hand over slowly with so many vCPUs, and take minutes to end."""
    schemes = (*SAID, "pmt-0", "pmt-inf")
    seconds = max(5, each(length, schemes) // 4)
    check_torture(lab(TORTURE, "--schemes", ",".join(schemes),
                      *longer("locktorture-kinds", seconds, 12 * seconds + 600)), 5)


@pytest.mark.soak
def test_torture_with_8_vcpus(lab: Lab, length: int) -> None:
    check_torture(lab("torture8", *longer("locktorture-long", each(length, "torture8"))))
