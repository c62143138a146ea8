# SPDX-License-Identifier: GPL-2.0-only
"""Instructions of uncontended operations: without pvsync, with it but off, and with it on.

The functions are those of the kernel's own object files, run in user space by
uncontended.c, which says how. -s shows the table of docs/results/off.md.
"""

import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.build import kernel

HERE = Path(__file__).parent
LINKED = (
    "kernel/locking/spinlock.o",
    "kernel/locking/qspinlock.o",
    "kernel/locking/mutex.o",
    "kernel/locking/rwsem.o",
    "lib/lockref.o",
    "kernel/rcu/tree.o",
    "kernel/softirq.o",
    "arch/x86/mm/tlb.o",
)
COUNTED = ("kernel/smp.o", "kernel/sched/core.o")
"""Too much state is behind their functions to run them; their no-ops are counted."""
OWN = "kernel/pvsync/pv_lock.o"
RELEASE = "__raw_callee_save___pvsync_pv_unlock"
"""pv-pmt's, a local name in OWN."""
FLAGS = ("-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-parameter", "-Wno-address-of-packed-member",
         "-mno-red-zone",  # code that pushes without the compiler's knowing
         "-no-pie", f"-Wl,-T,{HERE}/uncontended.lds,-z,noexecstack",
         "-Wl,--unresolved-symbols=ignore-all")  # a call of any of them faults, and is told


class Cost(NamedTuple):
    """Of one call."""

    instructions: int
    noops: int


class Added(NamedTuple):
    """What may come on top of the base's."""

    noops: int
    """With pvsync off: exactly so many."""
    others: int
    """With pvsync off: at most so many. They are the compiler's: registers that it saves or
    moves because of a branch that is not there."""
    counting: int
    """With pvsync.ecs=count: at most so many of both."""


ADDED = {
    "_raw_spin_lock": Added(2, 0, 3),
    "_raw_spin_trylock": Added(2, 0, 3),
    "_raw_spin_lock_irqsave": Added(2, 0, 3),
    "_raw_spin_lock_bh": Added(2, 0, 3),
    "_raw_spin_unlock": Added(1, 0, 3),
    "_raw_spin_unlock_irqrestore": Added(1, 0, 3),
    "_raw_spin_unlock_bh": Added(1, 0, 3),
    "_raw_read_lock": Added(1, 0, 2),
    "_raw_read_unlock": Added(1, 0, 3),
    "_raw_write_lock": Added(1, 0, 2),
    "_raw_write_unlock": Added(1, 0, 3),
    "lockref_get": Added(0, 0, 0),
    "lockref_put_return": Added(0, 0, 0),
    "mutex_lock": Added(1, 0, 2),
    "mutex_trylock": Added(1, 0, 3),
    "mutex_unlock": Added(1, 0, 3),
    "down_read": Added(1, 1, 6),
    "down_read_trylock": Added(1, 0, 5),
    "up_read": Added(1, 0, 3),
    "down_write": Added(1, 1, 6),
    "down_write_trylock": Added(1, 1, 6),
    "up_write": Added(1, 0, 3),
    "__rcu_read_lock": Added(1, 0, 3),
    "__rcu_read_unlock": Added(1, 2, 6),
    "irq_enter_rcu": Added(1, 0, 4),
    "irq_exit_rcu": Added(1, 0, 4),
    "flush_tlb_kernel_range": Added(1, 6, 7),
    "flush_tlb_all": Added(1, 0, 1),
}
SITES = {
    "kernel/smp.o": {"pvsync_ecs_count_key": 2, "pvsync_ecs_free_key": 2, "pvsync_ipi_key": 1},
    "kernel/sched/core.o": {"pvsync_ecs_count_key": 1, "pvsync_ecs_free_key": 1,
                            "pvsync_extend_key": 1, "pvsync_park_stat_key": 1,
                            "pvsync_wake_key": 1},
}
"""In the functions that send calls to other CPUs, switch and choose tasks, and wake them."""
PV_RELEASE = 17
"""Instructions that pv-pmt's release has more than the base's with waiters that sleep."""


def link(folder: Path, binary: Path, *more: Path) -> None:
    """The program with the objects of one kernel."""
    objects = [folder / name for name in LINKED]
    subprocess.run(["gcc", *FLAGS, "-o", binary, HERE / "uncontended.c", *objects, *more],
                   check=True)


def counts(binary: Path, *words: str) -> dict[str, Cost]:
    """What the program says; functions that it runs twice are the same each time."""
    done = subprocess.run([binary, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Cost] = {}
    for line in done.stdout.splitlines():
        name, instructions, noops = line.split()
        cost = Cost(int(instructions), int(noops))
        assert found.setdefault(name, cost) == cost, name
    assert set(found) == set(ADDED)
    return found


def sites(path: Path) -> Counter[str]:
    """Static keys of pvsync in a file, and how many branches each has."""
    done = subprocess.run(["readelf", "--relocs", "--wide", path], capture_output=True, text=True,
                          check=True)
    table = done.stdout.partition(".rela__jump_table'")[2].partition("\nRelocation section")[0]
    return Counter(word for word in table.split() if word.startswith("pvsync_"))


@pytest.fixture(scope="module")
def folders() -> dict[str, Path]:
    """Build folders of the base and of pvsync."""
    return {"stock": kernel.objects("stock", (*LINKED, *COUNTED)),
            "test": kernel.objects("test", (*LINKED, *COUNTED, OWN))}


@pytest.fixture(scope="module")
def binaries(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The program with the code of either."""
    folder = tmp_path_factory.mktemp("uncontended")
    subprocess.run(["objcopy", f"--globalize-symbol={RELEASE}", folders["test"] / OWN,
                    folder / "own.o"], check=True)
    link(folders["stock"], folder / "stock")
    link(folders["test"], folder / "test", folder / "own.o")
    return {"stock": folder / "stock", "test": folder / "test"}


@pytest.fixture(scope="module")
def native(binaries: dict[str, Path]) -> tuple[dict[str, Cost], ...]:
    """The base's, off, and counting; releases are one store."""
    found = (counts(binaries["stock"], "native"), counts(binaries["test"], "native"),
             counts(binaries["test"], "native", "count"))
    for name in ADDED:
        base, off, counting = (one[name] for one in found)
        print(f"| `{name}` | {base.instructions} | {off.instructions} |"
              f" {off.noops - base.noops} | {counting.instructions} |")
    return found


@pytest.mark.parametrize("name", ADDED)
def test_built_in_but_off(native: tuple[dict[str, Cost], ...], name: str) -> None:
    base, off = native[0][name], native[1][name]
    noops = off.noops - base.noops
    others = off.instructions - base.instructions - noops
    assert noops == ADDED[name].noops
    assert others <= ADDED[name].others


@pytest.mark.parametrize("name", ADDED)
def test_counting(native: tuple[dict[str, Cost], ...], name: str) -> None:
    """With pvsync.ecs=count. Where it counts, what it costs is seen."""
    base, off, counting = (found[name].instructions for found in native)
    assert counting - base <= ADDED[name].counting
    counted = "lockref" not in name and "tlb" not in name
    assert (counting > off) == counted


@pytest.mark.parametrize("name", ["_raw_spin_unlock", "_raw_spin_unlock_irqrestore"])
def test_release_where_waiters_may_sleep(
    binaries: dict[str, Path], native: tuple[dict[str, Cost], ...], name: str
) -> None:
    """A guest's, by the function that pv_ops has: stock, off, and pv-pmt."""
    base, off = (counts(binaries[which])[name] for which in ("stock", "test"))
    own = counts(binaries["test"], "pv-pmt")[name]
    print(f"| `{name}`, paravirtual | {base.instructions} | {off.instructions} |"
          f" {off.noops - base.noops} | pv-pmt: {own.instructions} |")
    assert base.instructions > native[0][name].instructions
    assert off == (base.instructions + 1, base.noops + 1)
    assert own.instructions - base.instructions <= PV_RELEASE


def test_counts_are_the_same_each_time(binaries: dict[str, Path]) -> None:
    assert len({str(counts(binaries["test"], "native")) for _ in range(3)}) == 1


@pytest.mark.parametrize("name", COUNTED)
def test_noops_of_what_is_not_run(folders: dict[str, Path], name: str) -> None:
    assert sites(folders["test"] / name) == SITES[name]
    assert not sites(folders["stock"] / name)


def test_what_leaves_the_path_is_told(binaries: dict[str, Path]) -> None:
    """The base has nothing that could be switched on, and nobody's release ends nowhere."""
    for words, said in ((("count",), "nothing to switch on"), (("pv-pmt",), "off the path"),
                        (("cout",), "cout")):
        done = subprocess.run([binaries["stock"], *words], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 1 and said in done.stderr
