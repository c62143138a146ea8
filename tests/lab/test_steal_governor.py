# SPDX-License-Identifier: GPL-2.0-only
"""The guest's daemon that uses fewer CPUs while time is stolen: lab/target/steal-governor."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.core import paths
from lab.core.errors import UsageError
from lab.core.model import Scheme
from lab.plan import config, in_force, known

DAEMON = paths.LAB / "target/steal-governor"
GROUP = "sys/fs/cgroup/pvsync"
PATIENCE_S = 20
CPUS = 4


@pytest.mark.parametrize(("used", "stolen", "becomes"), [
    (4, 0, 4), (3, 0, 4), (3, 80_000, 4), (3, 80_001, 3), (3, 200_000, 3), (3, 200_001, 2),
    (1, 200_001, 1), (1, 4_000_000, 1), (4, 80_001, 4), (4, 200_001, 3),
])
def test_policy(used: int, stolen: int, becomes: int) -> None:
    """4 CPUs for a second: 5 % of them are 200 ms, and 2 % 80 ms."""
    script = f'. {DAEMON}; next_use {used} {CPUS} {stolen} 1000000 5 2; echo "$used"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{becomes}\n", "")


def stat(ticks: int) -> str:
    """A /proc/stat of CPUS CPUs, of which so much was stolen in all."""
    lines = [f"cpu  1 2 3 4 5 6 7 {ticks} 9 10"]
    lines += [f"cpu{n} 1 2 3 4 5 6 7 {ticks // CPUS} 9 10" for n in range(CPUS)]
    return "\n".join([*lines, "intr 1 2 3", "ctxt 7"]) + "\n"


class Guest:
    """What the daemon sees of a guest, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stat = root / "proc/stat"
        for folder in (GROUP, "proc", "run/pvsync", "dev"):
            (root / folder).mkdir(parents=True)
        self.steal(0)

    def steal(self, ticks: int) -> None:
        """So much has been stolen of it in all."""
        new = self.root / "proc/new"
        new.write_text(stat(ticks))
        new.rename(self.stat)

    def wait_for_looks(self) -> None:
        """From now on each look at the steal time waits for one of looks_at()."""
        new = self.root / "proc/new"
        os.mkfifo(new)
        new.rename(self.stat)

    def looks_at(self, ticks: int) -> str:
        """The daemon's next look finds so much stolen. Returns the CPUs in use before it."""
        files: list[int] = []

        def looking() -> bool:
            with contextlib.suppress(OSError):  # ENXIO: nobody reads it yet
                files.append(os.open(self.stat, os.O_WRONLY | os.O_NONBLOCK))
            return bool(files)

        assert until(looking), self.log()
        self.wait_for_looks()  # a look after this one finds another pipe
        with os.fdopen(files[0], "w") as pipe:
            before = self.cpus()
            pipe.write(stat(ticks))
        return before

    def start(self, policy: str) -> subprocess.Popen[bytes]:
        """The daemon."""
        return subprocess.Popen(["bash", str(DAEMON), policy], stdin=subprocess.DEVNULL,
                                env=os.environ | {"STEAL_GOVERNOR_ROOT": str(self.root)})

    def text(self, name: str) -> str:
        """Of a file; nothing where there is none."""
        file = self.root / name
        return file.read_text().strip() if file.exists() else ""

    def cpus(self) -> str:
        """Those that the workload may use."""
        return self.text(f"{GROUP}/cpuset.cpus")

    def log(self) -> str:
        """What the daemon said."""
        return self.text("dev/kmsg")


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    """A guest of four CPUs."""
    return Guest(tmp_path)


@pytest.fixture
def governed(guest: Guest) -> Iterator[Guest]:
    """One whose daemon looks every 20 ms."""
    daemon = guest.start("20,5,2")
    try:
        yield guest
    finally:
        daemon.kill()
        daemon.wait()


def until(condition: Callable[[], bool], each: Callable[[], None] = lambda: None) -> bool:
    """Whether it came true; `each` is done meanwhile, every 5 ms."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        each()
        time.sleep(0.005)
    return False


def test_folds_to_one_cpu_and_gives_all_back(guest: Guest) -> None:
    guest.wait_for_looks()
    daemon = guest.start("20,5,2")
    try:
        guest.looks_at(0)
        assert until(lambda: guest.text("run/pvsync/steal_governor").endswith(" 20,5,2"))
        assert guest.cpus() == "0,1,2,3"
        assert guest.text("sys/fs/cgroup/cgroup.subtree_control") == "+cpuset"
        looks = (10_000, 20_000, 30_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000)
        found = [guest.looks_at(ticks) for ticks in looks]
    finally:
        daemon.kill()
        daemon.wait()
    assert found == ["0,1,2,3", "0,1,2", "0,1", "0", "0", "0,1", "0,1,2", "0,1,2,3", "0,1,2,3"]
    assert [line.rpartition("CPUs used ")[2] for line in guest.log().splitlines()] == [
        "4 -> 3", "3 -> 2", "2 -> 1", "1 -> 2", "2 -> 3", "3 -> 4"]


def test_changes_nothing_while_nothing_is_stolen(governed: Guest) -> None:
    assert until(lambda: governed.cpus() == "0,1,2,3")
    time.sleep(0.2)
    assert governed.log() == "" and governed.cpus() == "0,1,2,3"


@pytest.mark.parametrize("policy", ["", "x", "0,5,2", "1000,5", "1000,5,2,1", "1000;reboot,5,2",
                                    "-1,5,2", "1000,05,2", "1000,5,2 ", "1234567,5,2"])
def test_what_is_no_policy(guest: Guest, policy: str) -> None:
    assert guest.start(policy).wait(PATIENCE_S) == 1
    assert "give PERIOD_MS,HIGH,LOW" in guest.log()
    assert guest.text("run/pvsync/steal_governor") == ""
    assert known.wrong_argument(f"lab.steal_governor={policy}")


def test_without_a_cpuset_it_is_not_in_force(guest: Guest) -> None:
    (guest.root / GROUP).rmdir()
    assert guest.start("20,5,2").wait(PATIENCE_S) == 1
    assert guest.text("run/pvsync/steal_governor") == ""
    assert "no cpuset" in guest.log()


def test_in_force() -> None:
    arguments = ("lab.steal_governor=7,1,1", "lab.steal_governor=1000,5,2")
    asked = in_force.wanted(arguments, 1)
    rest = "lock qspinlock\ntlb ipi\nhelp off\necs off\necs_record none\npark stock\n"
    assert in_force.mismatches(asked, rest + "steal_governor 1000,5,2\n") == []
    (missing,) = in_force.mismatches(asked, rest)
    assert str(missing) == "steal_governor, wanted 1000,5,2, found nothing"
    assert in_force.mismatches(in_force.wanted((), 1), rest) == []


def test_schemes_name_no_other_argument_of_the_lab() -> None:
    with pytest.raises(UsageError, match=r"no boot argument lab\.hold for schemes"):
        config.check_scheme(Scheme("m", "", ("lab.hold=1",)), "x")
    for name, scheme in config.schemes().items():
        policy = known.governor(scheme.guest)
        assert (policy is None) == ("steal-governor" not in name)
        assert policy in (None, "1000,5,2") or name.endswith("-100ms")
