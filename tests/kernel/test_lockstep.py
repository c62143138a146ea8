# SPDX-License-Identifier: GPL-2.0-only
"""Virtual time of the emulator, by a firmware that is a whole machine's program."""

import subprocess
from collections.abc import Callable

import pytest

from lab.build import emulator
from tests.kernel import firmware
from tests.kernel.firmware import LIMIT, Said, Spent

pytestmark = pytest.mark.virtual

TIMES = 100_000
EMPTY = 2 * TIMES + 3
"""ns of an empty loop: its two instructions, and three beside it, each takes 1."""
QUANTUM = 2000
"""Mean ns of a round unless told."""
Run = Callable[..., Said]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the firmware on CPUs in lockstep, or as `icount` says; what each CPU says."""
    folder = tmp_path_factory.mktemp("firmware")
    made = emulator.prepare()

    def machine(work: str, cpus: int = 1, **options: str) -> Said:
        rom = firmware.build(folder, work, TIMES)
        return firmware.play(made.command(), rom, cpus, **options).said  # type: ignore[arg-type]

    return machine


@pytest.mark.parametrize("cpus", [1, 2, 8, 16])
def test_busy_cpus_take_the_time_of_one(run: Run, cpus: int) -> None:
    """Each alike to the ns, however many; and all of them within a few quanta."""
    said = run("COMPUTE", cpus)
    assert said.spent == [Spent(EMPTY, 0)] * cpus
    assert EMPTY < said.ns < EMPTY + 4 * QUANTUM


def test_plain_icount_shares_the_time(run: Run) -> None:
    """What lockstep is for; and that the patches leave it alone."""
    said = run("COMPUTE", 4, icount="align=off")
    assert len(said.spent) == 4
    assert said.ns > 4 * EMPTY


@pytest.mark.parametrize(("work", "charge", "ns"), [
    ("PAUSES", "", 1), ("PAUSES", ",x-charge-pause=60", 61),
    ("FLUSH", "", 1), ("FLUSH", ",x-charge-flush=500", 501),
    ("PAUSES", ",x-charge-pause=30000", 30001),  # many times a quantum
    ("EXITS", "", 2), ("EXITS", ",x-charge-vmrun=300,x-charge-vmexit=200", 502),
])
def test_charges_are_exact(run: Run, work: str, charge: str, ns: int) -> None:
    """Alone, and beside others that are charged as well."""
    for cpus in (1, 3):
        assert run(work, cpus, charges=charge).spent == [Spent(EMPTY + TIMES * ns, 0)] * cpus


def test_interleaving_depends_on_the_seed_alone(run: Run) -> None:
    first, again, other = (run("SHARE", 3, icount=f"lockstep=on,seed={seed}")
                           for seed in (1, 1, 2))
    assert first == again
    assert first != other
    total = sum(range(3 * TIMES)) % 2**32
    assert all(sum(spent.found for spent in said.spent) % 2**32 == total
               for said in (first, other))


@pytest.mark.parametrize(("seed", "found"), [
    (1, (2105230347, 2028481360, 2211432629)), (2, (2138806227, 2101319814, 2105018295))])
def test_interleaving_is_that_of_another_machine(run: Run, seed: int,
                                                 found: tuple[int, ...]) -> None:
    """Who got which numbers of a counter that all share, on a 2-core guest of an AMD EPYC."""
    said = run("SHARE", 3, icount=f"lockstep=on,seed={seed}")
    assert tuple(spent.found for spent in said.spent) == found


@pytest.mark.parametrize(("icount", "said"), [
    ("lockstep=on,quantum=0", "quantum must be 1 to 1000000000 ns"),
    ("quantum=5", "quantum, seed and stop need lockstep=on"),
    ("seed=5", "quantum, seed and stop need lockstep=on"),
    ("stop=5", "quantum, seed and stop need lockstep=on"),
    ("sleep=on,lockstep=on", "lockstep=on needs sleep=off and a fixed shift"),
    ("rr=record,rrfile=/dev/null,lockstep=on", "lockstep=on and rr are incompatible"),
])
def test_what_does_not_fit_is_refused(icount: str, said: str) -> None:
    done = subprocess.run(
        [*emulator.prepare().command(), "-M", "none", "-display", "none",
         "-accel", "tcg", "-icount", f"shift=0,sleep=off,{icount}"],
        capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode != 0
    assert said in done.stderr


def test_charges_need_lockstep() -> None:
    done = subprocess.run(
        [*emulator.prepare().command(), "-M", "q35", "-nodefaults", "-display", "none",
         "-accel", "tcg", "-cpu", "qemu64,x-charge-pause=60"],
        capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode != 0
    assert "x-charge-* need -icount lockstep=on" in done.stderr
