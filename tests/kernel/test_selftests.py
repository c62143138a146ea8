# SPDX-License-Identifier: GPL-2.0-only
"""KVM selftests of the base and of the ABI, and kvm-unit-tests, with everything on and off.

No verdict may differ but for a reason that is in EXPLAINED. -s shows the table of
docs/results/selftests.md.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.build import selftests
from lab.core.progress import Silent
from lab.machine.machine import Machine
from lab.plan import kconfig
from lab.run import host
from lab.run.parameters import parameter_file
from tests.kernel import kut, suites
from tests.kernel.suites import ABI, MSR, OFF, ON, SHORT, STATS, Verdict

LIMIT_S = 120
"""As the suite's own file `settings` has it."""
WHOLE_S = 20
"""Of a program of the whole suite, on the backend tcg: in virtual time some take an hour."""
AGAIN_S = 60
"""Of one that runs once more."""
HOSTS: dict[str, dict[str, dict[str, str]]] = {
    "stock": {"stock": {}}, "lab": {"off": OFF, "on": ON}}
"""Kernel variants, and in each the columns of the table with their host parameters."""
MEMORY = 3584
"""MiB of a host for all programs: max_guest_memory_test touches 2 GiB at once."""
SLOWER = 4.0
"""Than on silicon, for the limits of kvm-unit-tests."""
EXPLAINED = {
    ABI: "it is skipped where the host has nothing of pvsync",
    STATS: "likewise",
    MSR: "likewise",
    "hyperv_connections": "it waits by counting PAUSEs: late with pause=soft",
}
"""Programs whose verdicts may differ between stock and pvsync, and why."""


@contextmanager
def suite(variant: str, logs: Path, wanted: tuple[str, ...] = (),
          memory: int = host.MEMORY, backend: str = "auto", proposal: str = "",
          qemu: tuple[str, ...] = ()) -> Iterator[tuple[Machine, list[str]]]:
    """A host with these programs of the suite mounted, or all, and what they are.

    `qemu` is more for the command line of its QEMU.
    """
    disk = selftests.image(wanted, proposal=proposal)
    job = host.Job(("true",), disk=disk, variant=variant, memory=memory, backend=backend)
    spec = host.spec(job, host.ready(job, None, Silent()), [disk])
    spec = replace(spec, extra=(*spec.extra, *qemu))
    with host.up(spec, kconfig.variant(variant).slowdown, logs) as machine:
        yield machine, suites.mount(machine.control, host.device(spec, 0))
        assert machine.trouble() == ""


def check_alike(one: Sequence[Verdict], other: Sequence[Verdict]) -> None:
    left = [said for said in suites.differences(one, other)
            if said.partition(":")[0] not in EXPLAINED]
    assert not left, "\n".join(left)


@pytest.mark.sampled
@pytest.mark.virtual
def test_short_set(tmp_path: Path) -> None:
    """Off and on, all pass; and a host that has lost something of the ABI is noticed."""
    with suite("test", tmp_path, SHORT) as (machine, programs):
        control = machine.control
        assert set(SHORT) == set(programs)
        for values in (OFF, ON):
            suites.switch(control, values)
            found = suites.run(control, SHORT, LIMIT_S)
            assert [one.name for one in found if one.how != "pass"] == [], found
        for name, how in (("shootdown", "fail"), ("hypercalls", "skip")):
            control.write_file(parameter_file(name), "N")
            broken = suites.run(control, [ABI, STATS], LIMIT_S)
            assert [one.how for one in broken] == [how, how], broken
            # What a monitor enables does not depend on either.
            assert suites.run(control, [MSR], LIMIT_S)[0].how == "pass"
            control.write_file(parameter_file(name), "Y")


def whole(logs: Path, limit_s: float, chosen: Sequence[str] = ()) -> dict[str, list[Verdict]]:
    """The columns of all programs, or of the chosen ones, each with a host of its own variant."""
    columns: dict[str, list[Verdict]] = {}
    for variant, settings in HOSTS.items():
        with suite(variant, logs / variant, memory=MEMORY, backend="tcg") as (machine, programs):
            assert set(chosen) <= set(programs)
            for name, values in settings.items():
                suites.switch(machine.control, values)
                columns[name] = suites.run(machine.control, chosen or programs, limit_s, name)
    return columns


@pytest.mark.soak
def test_whole_suite(tmp_path: Path) -> None:
    """Stock's verdicts, and pvsync's off and on; machines that are slow make no difference.

    In real time a busy machine makes programs late, and clocks wrong. So a program whose verdicts
    differ runs once more in each host, with few others and more time, and these verdicts count.
    """
    columns = whole(tmp_path / "first", WHOLE_S)
    print(suites.table(columns))
    if doubted := [name for name in suites.differing(columns) if name not in EXPLAINED]:
        again = whole(tmp_path / "again", AGAIN_S, doubted)
        print("once more:", suites.table(again), sep="\n")
        columns = suites.replaced(columns, again)
    check_alike(columns["stock"], columns["off"])
    check_alike(columns["stock"], columns["on"])
    for name, how in (("stock", "skip"), ("off", "pass"), ("on", "pass")):
        assert [one.how for one in columns[name]
                if one.name in selftests.OWN] == [how] * len(selftests.OWN), name


@pytest.mark.soak
@pytest.mark.virtual
def test_kvm_unit_tests(tmp_path: Path) -> None:
    """Of the folder that KUT names: stock's verdicts, and pvsync's off and on."""
    if not (named := os.environ.get(kut.VARIABLE)):
        pytest.skip(f"{kut.VARIABLE}=FOLDER names no kvm-unit-tests")
    files = kut.files(Path(named))
    listed = list(kut.entries((files[0] / kut.LIST).read_text()))
    columns: dict[str, list[Verdict]] = {}
    disk = host.pack(files, tmp_path)
    for variant, settings in HOSTS.items():
        job = host.Job(("true",), variant=variant)
        spec = host.spec(job, host.ready(job, None, Silent()), [disk])
        with host.up(spec, kconfig.variant(variant).slowdown, tmp_path / variant) as machine:
            host.mount(machine.control, host.device(spec, 0), host.FILES)
            for name, values in settings.items():
                suites.switch(machine.control, values)
                columns[name] = kut.run(machine.control, listed, SLOWER)
            assert machine.trouble() == ""
    print(suites.table(columns))
    check_alike(columns["stock"], columns["off"])
    check_alike(columns["stock"], columns["on"])
