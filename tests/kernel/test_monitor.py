# SPDX-License-Identifier: GPL-2.0-only
"""A monitor that knows pvsync: what a VM has of it, and its record across a migration.

The guest shares its record once. So what the host tells it later is no thanks to the guest.
"""

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lab.build import monitor, qemu
from lab.machine import guest
from lab.run.host import Job
from tests.kernel import firmware
from tests.kernel.in_host import said_by
from tests.kernel.two_monitors import LINES, LOST, MOVES, NOWHERE

pytestmark = pytest.mark.virtual

HERE = Path(__file__).parent
LIMIT_S = 1500.0
LINUX = """mount -t proc proc /proc; mount -t sysfs sysfs /sys
mount -t debugfs debugfs /sys/kernel/debug
while :; do (:); done &
while :; do
	read up idle </proc/uptime
	echo at $up $(grep -h -e ecs_record -e given_back /sys/kernel/debug/pvsync/*)
	sleep 0.2
done"""
"""A guest's only program, one that goes into critical sections all the time."""
COUNTED = re.compile(r"at (\S+) ecs_given_back (\d+) ecs_record (\w+)\r?")
SOON_S = 5.0
"""Of the guest's time: by itself it shares its records again after 10."""
REFUSAL = ("The guest shares records with its host, which needs -accel kvm,pvsync-ecs=on here,"
           " too")
NOT_RESTORED = ("vCPU 0: the record that the guest shares is not restored, as KVM refuses"
                f" {NOWHERE:#x} for its address; the guest shares it again by itself")
WITHOUT = "kvm: this host does not have pvsync-ecs: set it to off, or run the VM on a host that has"


def in_host(folder: Path, command: str, variant: str,
            parameters: dict[str, str] | None = None) -> str:
    """What a shell's command says in a host that has the monitor and the guest."""
    rom = folder / "shares.bin"
    firmware.assemble(HERE / "shares.S", rom)
    program = monitor.prepare()
    script = f"export MONITOR='./{program.name}' GUEST=./{rom.name}\n{command}"
    return said_by(Job(("sh", "-c", script), parameters or {},
                       (program, rom, HERE / "two_monitors.py"),
                       variant=variant, limit_s=LIMIT_S))


@pytest.fixture(scope="module")
def moves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of each of `MOVES`."""
    said = in_host(tmp_path_factory.mktemp("monitor"),
                   'exec python3 two_monitors.py firmware "$MONITOR" "$GUEST"', "test")
    found: dict[str, dict[str, Any]] = json.loads(said)
    return found


def test_all_moves_are_made(moves: dict[str, dict[str, Any]]) -> None:
    """A guest that shares a record is told by its host before it moves."""
    assert set(moves) == set(MOVES)
    for name, move in moves.items():
        shares = Counter({"T=": LINES}) if not name.startswith("off") else Counter(["N"])
        assert Counter(move["before"]) == shares, (name, move)


def test_the_record_is_in_force_after_a_migration(moves: dict[str, dict[str, Any]]) -> None:
    move = moves["on to on"]
    assert (move["status"], move["exit"], move["said"]) == ("completed", None, "")
    assert Counter(move["after"]) == {"T=": LINES}


@pytest.mark.parametrize("name", ["on to others", "on to nothing"])
def test_a_monitor_without_refuses_and_the_guest_goes_on_where_it_was(
        moves: dict[str, dict[str, Any]], name: str) -> None:
    move = moves[name]
    assert (move["status"], move["exit"]) == ("failed", 1)
    assert move["said"].count(REFUSAL) == 1
    assert Counter(move["after"]) == {"T=": LINES}


def test_a_guest_without_a_record_goes_anywhere(moves: dict[str, dict[str, Any]]) -> None:
    move = moves["off to nothing"]
    assert (move["status"], move["exit"], move["said"]) == ("completed", None, "")


def test_a_monitor_that_is_not_told_loses_the_record(moves: dict[str, dict[str, Any]]) -> None:
    """As an unmodified QEMU does; it is seen that the guest is told nothing then."""
    move = moves["nothing to nothing"]
    assert (move["status"], move["exit"], move["said"]) == ("completed", None, "")
    assert set(move["after"]) == {"S!"}


def test_a_record_without_memory_is_not_restored_and_the_guest_goes_on(
        moves: dict[str, dict[str, Any]]) -> None:
    """The monitor says so once, and has KVM share nothing."""
    move = moves[LOST]
    assert (move["status"], move["exit"]) == ("completed", None)
    assert move["said"].splitlines() == [f"{qemu.PROGRAM}: warning: {NOT_RESTORED}"]
    assert set(move["after"]) == {"S!"}


@pytest.mark.soak
def test_a_host_without_refuses_to_start_it(tmp_path: Path) -> None:
    """It starts a VM that has nothing of pvsync, said or not."""
    start = ('timeout 5 "$MONITOR" -nodefaults -display none -M microvm,isa-serial=on -m 16M'
             ' -bios "$GUEST" -serial stdio -accel "kvm$features" 2>&1; echo "$features $?"')
    said = in_host(tmp_path, f"for features in ,pvsync-ecs=on ,pvsync-ecs=off ''; do {start}; done",
                   "stock")
    own = [line for line in said.splitlines() if not line.startswith(qemu.PROGRAM)]
    assert own == [",pvsync-ecs=on 1", "N", ",pvsync-ecs=off 124", "N", " 124"], said
    assert said.count(WITHOUT) == 1


@pytest.mark.soak
def test_linux_goes_on_with_its_records(tmp_path: Path) -> None:
    """It gives back what it has borrowed, and it borrows by its records alone."""
    append = " ".join((*guest.BOOT_ARGS, "pvsync.ecs=count", "init=/bin/sh", "--", "-c",
                       f'"{LINUX}"'))
    said = in_host(tmp_path, "cat /dev/vdc >/run/kernel && exec python3 two_monitors.py linux"
                   f' "$MONITOR" /run/kernel /dev/vdb {shlex.quote(append)}', "test",
                   {"extend": "ecs", "hypercalls": "N"})
    moved = {side: [(float(seen[1]), int(seen[2]), seen[3]) for line in lines
                    if (seen := COUNTED.fullmatch(line))]
             for side, lines in json.loads(said).items()}
    (_, first, _), (left, last, _) = moved["before"][0], moved["before"][-1]
    soon = [number for at, number, _ in moved["after"] if at < left + SOON_S]
    assert first < last < soon[0] < soon[-1], said
    assert {record for lines in moved.values() for *_, record in lines} == {"taken"}
