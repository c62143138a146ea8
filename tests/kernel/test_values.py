# SPDX-License-Identifier: GPL-2.0-only
"""Host parameters, all VMs' and a VM's own: what is no value is refused, and changes nothing."""

import time
from collections.abc import Iterable

import pytest

from lab.core.model import Backend
from lab.machine.control import Control, Refused
from lab.plan.known import Value
from lab.run import disturb
from lab.run.parameters import parameter_file
from lab.run.session import Session
from tests.kernel.conftest import HERE, Lab, borrowed

GUEST = "pvqspinlock-0"
GLOBAL = "global"
CHOICES = {"candidate": "hvs", "yield": "strong", "mark": "exit", "window": "fixed:4096",
           "pause": "soft", "extend": "ecs"}
NUMBERS = {"aple_start": "2048", "aple_min": "1024", "aple_max": "16384", "aple_step": "512",
           "aple_epoch": "20", "extend_us": "200", "extend_cap": "10"}
"""Each file, and a value that it takes."""
LONG = ("x" * 31, "x" * 32, "x" * 33, "x" * 4095, "9" * 31, "9" * 33, "0" * 5000)
ODD = ("\n", " ", "\0", "-1", "globa", "globals", "Global", "global\n\n", "%s%n", "\x7f", "é")
NO_CHOICE = ("0", "1", "hv", "hvsx", "fixed", "fixed:", "fixed:-1", "fixed:127", "fixed:4194305",
             "fixed:4294967296", "fixed:18446744073709551616", "fixed:4096x", "fixed: 4096",
             "fixed:0x1000", "fixed:fixed:4096")
NO_NUMBER = ("0x200", "1e3", "1.5", "4294967295", "4294967296", "18446744073709551617", "5 5",
             "--5", "kvm", "+")

BAD = ("x", "-1", "%s", "halt")
"""No value of a parameter of all VMs, be it a word, a number or a yes."""

WRONG = {
    "help-own-wrong": ("vm.yield", "yield"),
    "help-global-wrong": ("candidate", "candidate"),
    "window-wrong": ("window", "window (fixed:N)"),
    "window-unknown": ("window", "window"),
    "aple-min-wrong": ("vm.aple_min", "aple_min"),
    "pause-unknown": ("pause", "pause"),
}
"""Schemes with a wrong value, the parameter, and what the host's log calls it."""


def shown(control: Control, name: str) -> str:
    """What the file of the only VM has."""
    status, output = control.run("sh", "-c", f"cat /sys/kernel/debug/kvm/*-*/pvsync/{name}")
    assert status == 0, output
    return output


def check(control: Control, name: str, good: str, wrong: tuple[str, ...]) -> None:
    """Wrong values leave alone what is there: that of all VMs, then the VM's own."""
    for kept in (GLOBAL, good):
        control.call("tune", name=GUEST, parameter=name, value=kept)
        for value in wrong:
            with pytest.raises(Refused, match="Errno 22"):
                control.call("tune", name=GUEST, parameter=name, value=value)
                pytest.fail(f"{name} takes {value[:40]!r}")
            assert shown(control, name) == f"{kept}\n", f"{name} after {value[:40]!r}"
    control.call("tune", name=GUEST, parameter=name, value=GLOBAL + "\n")
    assert shown(control, name) == f"{GLOBAL}\n"


def beyond(values: Iterable[Value]) -> tuple[str, ...]:
    """What is just below the least and just above the most of each number among the values."""
    return tuple(f"{value[0]}{number}" for value in values if isinstance(value, tuple)
                 for number in (value[1] - 1, value[2] + 1))


def check_of_all(control: Control, name: str, wrong: tuple[str, ...]) -> None:
    """Wrong values leave alone what there is for all VMs."""
    path = parameter_file(name)
    before = control.read_file(path)
    for value in wrong:
        with pytest.raises(Refused, match=r"Errno (22|34)"):
            control.write_file(path, value)
            pytest.fail(f"{name} takes {value!r}")
        assert control.read_file(path) == before, f"{name} after {value!r}"


def test_wrong_values_change_nothing(common: Session, played_by: Backend) -> None:
    with borrowed(common) as shared:
        control, began = common.machine.control, time.monotonic()
        for name, good in CHOICES.items():
            check(control, name, good, (*LONG, *ODD, *NO_CHOICE))
        for name, good in NUMBERS.items():
            check(control, name, good, (*LONG, *ODD, *NO_NUMBER, *beyond(disturb.OWN[name])))
        for name, values in disturb.HOST.items():
            check_of_all(control, name, (*BAD, *beyond(values)))
        for name in disturb.OFFERS:
            check_of_all(control, name, (*BAD, "2", "maybe"))
        # Elsewhere the host is a KVM guest itself.
        if played_by in ("tcg", "vt"):
            for module in ("hypercall_torture", "hypercall_fuzz", "ecs_claim"):
                status, said = control.run("modprobe", module)
                assert status and "No such device" in said, said
        # Two places say so, each at most ten times in five seconds.
        most = 20 * ((time.monotonic() - began) / 5 + 2)
        assert 0 < shared.console().count("does not have that value") <= most


@pytest.mark.sampled
def test_schemes_with_wrong_values(lab: Lab) -> None:
    """Each is refused, with the reason, and said in the host's log as often as it was tried."""
    result = lab(str(HERE / "apples.toml"), "--schemes", ",".join(WRONG), "--vms", "1",
                 "--max-repeats", "1")
    assert result.status == 1, result.output
    logs = "".join(result.host_logs())
    for scheme, (parameter, name) in WRONG.items():
        said = f"host parameter {parameter} of scheme {scheme} cannot be set: [Errno 22]"
        assert said in result.output
        tried = (result.directory / "runs.jsonl").read_text().count(said)
        line = f"pvsync: {name} does not have that value, it stays as it is; use "
        assert logs.count(line) == tried > 0, f"{scheme}: {logs}"
