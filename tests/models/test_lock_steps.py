# SPDX-License-Identifier: GPL-2.0-only
"""Every run of the ticket locks, as they are compiled, on x86-TSO; and of broken ones.

`tests/locks/explore.c` says what is modelled and what is checked.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.locks.check import load_mutants, make
from tests.models.spin import same_trail
from tests.mutants import OVERLAY, Mutant, mutate, prepare

# 3 CPUs by 2 rounds, ticket-3 and pmt-stop-owners by 3. States are told apart by what their CPUs
# access next, so that their number does not depend on the compiler.
BOUNDS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "ticket": ("ticket", (), 20_184),
    "ticket-add": ("ticket-add", (), 5_031),
    "ticket-try": ("ticket", ("--try",), 52_244),
    "ticket-3": ("ticket", ("--rounds", "3"), 139_825),
    "ticket-wrap": ("ticket", ("--wrap",), 5_724),
    "pmt-0": ("pmt", ("--tau", "0"), 92_886),
    "pmt-1": ("pmt", ("--tau", "1"), 143_988),
    "pmt-2": ("pmt", ("--tau", "2"), 143_988),
    "pmt-impatient": ("pmt", ("--tau", "2", "--impatience", "2"), 143_988),
    "pmt-add": ("pmt-add", ("--tau", "1"), 87_411),
    "pmt-try": ("pmt", ("--tau", "1", "--try"), 270_365),
    "pmt-wrap": ("pmt", ("--tau", "1", "--wrap"), 43_726),
    "ticket-overtaking": ("ticket", ("--overtaking",), 22_608),
    "pmt-overtaking": ("pmt", ("--tau", "1", "--overtaking"), 244_983),
    "ticket-stop": ("ticket", ("--stop-waiters", "--stop-owners", "2"), 237_337),
    "pmt-timed": ("pmt", ("--tau", "2", "--timed"), 24_846),
    "pmt-timed-impatient": ("pmt", ("--tau", "4", "--impatience", "2", "--timed"), 24_846),
    "pmt-stop-waiters": ("pmt-add", ("--tau", "2", "--stop-waiters"), 633_527),
    "pmt-stop-owner": ("pmt", ("--tau", "2", "--stop-owners", "1"), 102_126),
    "pmt-stop-owners": ("pmt", ("--tau", "2", "--stop-owners", "2", "--rounds", "3"), 1_487_580),
}
# The most in any wait. Of 3 CPUs by 2 rounds there are 4 rounds of others, all that there can be;
# of 3 CPUs by 3 rounds there are 6.
OVERTAKING = {
    "ticket-overtaking": "owners since a ticket 2; later ones, if 0.. of them timed out: 0",
    "pmt-overtaking": "owners since a ticket 4; later ones, if 0.. of them timed out: 0 2 3 3",
    "ticket-stop": "takes by others 2, by later tickets 0",
    "pmt-timed": "takes by others 2, by later tickets 0",
    "pmt-timed-impatient": "takes by others 2, by later tickets 0",
    "pmt-stop-waiters": "takes by others 2, by later tickets 2",
    "pmt-stop-owner": "takes by others 3, by later tickets 1",
    "pmt-stop-owners": "takes by others 4, by later tickets 2",
}
# Counts of 2 bits instead of 12: as many waiters as fit, and overtaken all around.
NARROW = [
    ("#define PVSYNC_GRANT\t\t0x00100000U", "#define PVSYNC_GRANT\t\t0x40000000U"),
    ("#define PVSYNC_GRANT_SHIFT\t20", "#define PVSYNC_GRANT_SHIFT\t30"),
    ("#define PVSYNC_COUNT_MASK\t0x00000fffU", "#define PVSYNC_COUNT_MASK\t0x00000003U"),
]
NARROW_STATES = 143_904

TWO_OWNERS = "two owners"
UNSEEN = "an owner does not see the data of the one before"
OVERTAKEN = "a waiter is overtaken by one that has not timed out"
UNACCOUNTED = "a waiter is overtaken more often than timeouts account for"
ARRIVAL = "an arrival takes the lock while others wait"
NOT_ZERO = "the word of the free lock is not 0 in the end"
STUCK = "not everybody can get through from here"
TIMED_OUT = "a waiter times out though everybody runs"
TOO_OFTEN = "others take the lock too often before a waiter that runs"
NOT_EQUAL = "of two waiters that have timed out, not any can be the first"
# By their names in tests/locks/mutants.toml: which lock finds what.
MUTATIONS = [
    ("take without acquire", "pmt-1", UNSEEN),
    ("fast path without acquire", "ticket", UNSEEN),
    ("unlock without release", "ticket", UNSEEN), ("unlock without release", "pmt-1", UNSEEN),
    ("unlock stores 16 bits", "ticket", ARRIVAL),
    ("unlock stores 32 bits", "ticket", ARRIVAL),
    ("trylock ignores waiters", "ticket-try", ARRIVAL),
    ("take ignores the owner", "pmt-1", TWO_OWNERS),
    ("take by a plain store", "pmt-1", TWO_OWNERS),
    ("stale value after a lost race", "pmt-1", STUCK),
    ("join by load and store", "ticket", TWO_OWNERS),
    ("ticket of the next one", "ticket", OVERTAKEN),
    ("ticket without the waiters", "ticket", OVERTAKEN),
    ("position without wrap mask", "ticket-wrap", OVERTAKEN),
    ("last waiter taken for overtaken", "ticket", OVERTAKEN),
    ("never times out", "pmt-1", NOT_EQUAL),
    ("infinite tau times out", "ticket", OVERTAKEN),
    ("second in line does not wait", "ticket", OVERTAKEN),
    ("last waiter leaves its counts behind", "ticket", NOT_ZERO),
    ("second to last resets the counts", "ticket", ARRIVAL),
    ("grant not counted", "ticket", OVERTAKEN),
    ("waiter not counted off", "ticket", NOT_ZERO),
    ("infinite tau times out", "ticket-overtaking", UNACCOUNTED),
    ("second in line does not wait", "pmt-overtaking", UNACCOUNTED),
    ("overtaken counts a grant", "pmt-overtaking", UNACCOUNTED),
    ("no check for being overtaken", "pmt-stop-waiters", TOO_OFTEN),
    ("overtaken by one not noticed", "pmt-stop-waiters", TOO_OFTEN),
    ("timeout not proportional", "pmt-stop-waiters", TOO_OFTEN),
    ("no re-arm", "pmt-stop-waiters", TOO_OFTEN),
    ("timeout one position short", "pmt-stop-owner", TOO_OFTEN),
    ("next one keeps waiting for its timeout", "pmt-timed", TIMED_OUT),
]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with what the locks need of the base kernel."""
    folder = tmp_path_factory.mktemp("explore")
    error = make(["base/kernel/locking/qspinlock.c"], folder, [])
    assert error is None, error
    return folder


def explore(folder: Path, lock: str, options: tuple[str, ...], overlay: Path = OVERLAY) -> str:
    """Build the explorer of a lock and run it; its output."""
    error = make([f"explore-{lock}"], folder, [f"OVERLAY={overlay}", "WERROR="])
    assert error is None, error
    done = subprocess.run([folder / f"explore-{lock}", *options], capture_output=True, text=True,
                          timeout=900, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


def changed(base: Path, folder: Path, mutants: list[Mutant]) -> tuple[Path, Path]:
    """An overlay and a build folder with changes."""
    overlay, build = prepare(folder, base / "base")
    for mutant in mutants:
        assert mutate(mutant, overlay, build) is None
    return overlay, build


def check(name: str, output: str, states: int) -> None:
    """A search without an error, of all that it should have searched."""
    found = re.match(r"states (\d+), by accesses (\d+), ", output)
    assert found, output
    first, *overtaking = output.splitlines()
    print(f"[{name}: {'; '.join((first, *overtaking))}]", end=" ")
    assert int(found[2]) == states
    assert overtaking == [line for bounds, line in OVERTAKING.items() if bounds == name]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_every_run(bounds: str, base: Path) -> None:
    lock, options, states = BOUNDS[bounds]
    check(bounds, explore(base, lock, options), states)


def test_tickets_that_wrap_under_a_sleeper(base: Path, tmp_path: Path) -> None:
    header = "include/linux/pvsync/pmt_lock.h"
    narrow = [Mutant("narrow", header, old, new) for old, new in NARROW]
    overlay, build = changed(base, tmp_path, narrow)
    check("pmt-narrow", explore(build, "pmt", ("--tau", "1"), overlay), NARROW_STATES)


@pytest.mark.sampled
@pytest.mark.parametrize(("mutation", "bounds", "error"), MUTATIONS)
def test_each_mutation_is_found(mutation: str, bounds: str, error: str, base: Path,
                                tmp_path: Path) -> None:
    (mutant,) = (m for m in load_mutants() if m.name == mutation)
    overlay, build = changed(base, tmp_path, [mutant])
    lock, options, _ = BOUNDS[bounds]
    output = explore(build, lock, options, overlay)
    assert output.splitlines()[-1] == f"error: {error}"
    assert same_trail(f"locks/{bounds}-{mutation.replace(' ', '-')}", output)


def test_tau_that_does_not_cover_a_turn(base: Path) -> None:
    output = explore(base, "pmt", ("--tau", "1", "--timed"))
    assert output.splitlines()[-1] == f"error: {TIMED_OUT}"
    assert same_trail("locks/pmt-timed-tau-too-short", output)


def test_tau_that_does_not_cover_impatience(base: Path) -> None:
    """Two times a hand-over of a tick, and a tick in which the lock is held: 3 is too short."""
    output = explore(base, "pmt", ("--tau", "3", "--impatience", "2", "--timed"))
    assert output.splitlines()[-1] == f"error: {TIMED_OUT}"


@pytest.mark.parametrize("lock", ["busted"])
def test_broken_lock_is_found(lock: str, base: Path) -> None:
    output = explore(base, lock, ())
    assert output.splitlines()[-1] == f"error: {TWO_OWNERS}"
    assert same_trail(f"locks/{lock}-two-owners", output)
