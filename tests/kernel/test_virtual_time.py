# SPDX-License-Identifier: GPL-2.0-only
"""Hosts in virtual time: a run depends on its seed alone, and their faults are seen."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.core import paths
from tests.kernel.conftest import HERE, Lab, Result, longer

pytestmark = pytest.mark.virtual

VIRTUAL = "--backend", "vt", "--seeds", "1"
BURN = "while True: pass"
KEPT = "boots/*/*console.log", "boots/*/*.dmesg.txt", "raw/*/*.out"
"""What guests and hosts have said, by path in a result directory."""
END = b"sysrq: Power Off"
"""The last order that a host gets has no answer that the lab would wait for."""


@contextmanager
def busy() -> Iterator[None]:
    """This machine has more to do than it has CPUs."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(3)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def said(result: Result) -> dict[str, bytes]:
    """What was said in a run until its host was ended, by who said it; a line at least."""
    files: list[Path] = [file for kind in KEPT for file in result.directory.glob(kind)]
    texts = {str(file.relative_to(result.directory)): file.read_bytes() for file in files}
    return {name: text[:text.rfind(b"\n", 0, text.find(END))] if END in text else text
            for name, text in texts.items()}


@pytest.fixture(scope="module")
def first(lab: Lab) -> Result:
    return lab(str(HERE / "virtual.toml"), *VIRTUAL, "--seed", "3")


def test_the_same_seed_gives_the_same_bytes(lab: Lab, first: Result) -> None:
    """Consoles with their times, outputs, figures; also while this machine is busy."""
    with busy():
        second = lab(str(HERE / "virtual.toml"), *VIRTUAL, "--seed", "3")
    assert first.status == second.status == 0
    one, two = said(first), said(second)
    assert len(one) > 6 and one.keys() == two.keys()
    different = [name for name in one if one[name] != two[name]]
    assert not different, f"{first.directory} {second.directory}: {different}"
    summaries = [(result.directory / "summary.json").read_bytes() for result in (first, second)]
    assert summaries[0] == summaries[1]


def test_another_seed_is_another_interleaving(lab: Lab, first: Result) -> None:
    """Also of hosts that go on from one boot that was saved, whose runs can be played again."""
    other = lab(str(HERE / "virtual.toml"), "--backend", "vt", "--seeds", "2", "--seed", "4",
                "--snapshot")
    assert other.status == 0
    by_seed = [values for result in (first, other)
               for values in zip(*(cell["values"] for cell in result.summary["cells"]),
                                 strict=True)]
    assert len(by_seed) == len(set(by_seed)) == 3
    assert other.summary["machine"] == "zen4" and other.summary["backend"] == "vt"
    runs = other.runs()
    assert len({run["snapshot"] for run in runs}) == 1
    assert len({run["seed"] for run in runs}) == 2
    again = subprocess.run([paths.ROOT / "pvsync", "replay", other.directory, runs[-1]["id"]],
                           capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "The same bytes" in again.stdout, again


def test_the_broken_lock_is_caught(lab: Lab) -> None:
    result = lab("busted", *longer("locktorture", 2, 60), *VIRTUAL)
    assert result.status == 1, result.output
    assert result.cell("ticket")["values"] and not result.cell("busted")["values"]


@pytest.mark.soak
def test_a_hunt_names_a_seed_that_finds_it_again(lab: Lab) -> None:
    """By the broken lock, whose guest does not get far; the good one beside it is valid."""
    hunt = lab("races", "--schemes", "guest-all,busted", "--workload", "races-locks",
               "--vms", "1", "--vcpus", "2", "--pcpus", "2", *VIRTUAL)
    assert hunt.status == 1, hunt.output
    assert {found["scheme"] for found in hunt.summary["findings"]} == {"busted"}
    found = hunt.summary["findings"][0]
    (run,) = (one for one in map(json.loads, (hunt.directory / "runs.jsonl").open())
              if one["id"] == found["run"])
    assert found["seed"] == run["seed"] and f"seed {found['seed']}, {run['id']}" in hunt.output
    again = subprocess.run([paths.ROOT / "pvsync", "replay", hunt.directory, run["id"]],
                           capture_output=True, text=True, check=False)
    assert f"The run was invalid: {run['reason'].rstrip('.')}." in again.stdout, again
    assert "Now it is" not in again.stdout


def test_what_a_guest_did_that_did_not_end(lab: Lab) -> None:
    """Each thread with its state, and where the kernel keeps it; nothing is left of the load."""
    hung = lab(str(HERE / "virtual.toml"), *VIRTUAL, "--schemes", "pvqspinlock", "--vms", "1",
               "--cmd", "sleep 60 & exec sleep 61", "--timeout", "2", "--max-repeats", "0")
    assert hung.status == 1
    assert "is invalid: guest pvqspinlock-0 did not end its run within 2 s" in hung.output
    text = next(hung.directory.glob("raw/*/pvqspinlock-0.tasks")).read_text()
    threads = re.findall(r"^task \d+ of \d+: sleep\n(?:[^t].*\n)*", text, re.M)
    assert len(threads) == 2, text
    for thread in threads:
        assert "State:\tS (sleeping)" in thread and "wchan: hrtimer_nanosleep" in thread, thread
    assert "virtio0" in text, "its interrupts"
