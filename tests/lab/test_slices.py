# SPDX-License-Identifier: GPL-2.0-only
"""Slices of vCPUs' threads: what a thread has while its guest's command runs."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import slices

from lab.core import paths
from lab.core.errors import UsageError
from lab.core.model import Scheme
from lab.machine.control import Control, Refused
from lab.machine.machine import HostSpec
from lab.plan import config, known
from lab.run import records
from lab.run.parameters import Parameters
from tests.lab.sessions import experiment, fail, go, spec

__all__ = ["spec"]
TARGET = paths.LAB / "target"
TELL = (f"{sys.executable} -c 'import sys; sys.path.insert(0, \"{TARGET}\"); import slices;"
        " print(slices.get(0))'; echo Time: 1; sleep 0.3")
"""The fake's last vCPU runs it, and its slice is inherited."""


@pytest.fixture
def heeded() -> bool:
    """Whether this machine's kernel knows slices: 6.12 and later."""
    return slices.get(0) > 0


def test_a_scheme_asks_for_slices_and_the_next_one_has_none(
    spec: HostSpec, tmp_path: Path, heeded: bool
) -> None:
    what = experiment(TELL, short="", stock="", vms=(1,), reps=2, repeats=4)
    short, stock = what.schemes
    what = replace(what, schemes=(replace(short, host={"vcpu.slice_us": "1234"}), stock),
                   share=("short", "short"))
    valid = go(what, spec, tmp_path)
    runs = records.runs(tmp_path)
    if not heeded:
        assert not valid and "wanted 1234, found 0" in runs[-1].reason
        return
    assert valid, [run.reason for run in runs]
    told = {run.scheme: [(tmp_path / guest.output).read_text().split()[0] for guest in run.guests]
            for run in runs if run.valid}
    assert told["short"] == ["1234"] and int(told["stock"][0]) > 0 and told["stock"] != ["1234"]


def test_slices_that_are_not_in_force_make_a_run_invalid(
    spec: HostSpec, tmp_path: Path
) -> None:
    what = experiment(vms=(1,), repeats=0)
    what = replace(what, schemes=(replace(what.schemes[0], host={"vcpu.slice_us": "50"}),))
    assert not go(what, spec, tmp_path)  # the scheduler's least is 100
    assert ": vcpu.slice_us, wanted 50, found " in records.runs(tmp_path)[-1].reason


def test_slices_that_cannot_be_set_make_a_run_invalid(
    spec: HostSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "slice", [Refused("QEMU of guest good-0 did not tell its threads")])
    what = experiment(vms=(1,), repeats=0)
    what = replace(what, schemes=(replace(what.schemes[0], host={"vcpu.slice_us": "700"}),))
    assert not go(what, spec, tmp_path)
    assert records.runs(tmp_path)[-1].reason == (
        "host parameter vcpu.slice_us of scheme good cannot be set:"
        " QEMU of guest good-0 did not tell its threads")


def test_a_thread_that_is_gone_is_an_error() -> None:
    for asked in (lambda: slices.get(2**22 - 1), lambda: slices.ask(2**22 - 1, 700)):
        with pytest.raises(OSError, match="No such process"):
            asked()


@pytest.mark.parametrize(("name", "value", "why"), [
    ("vcpu.slice_us", "99", "100"), ("vcpu.slice_us", "short", "100"),
    ("vcpu.slise_us", "700", "slice_us")])
def test_a_wrong_slice_is_refused_before_anything_boots(name: str, value: str, why: str) -> None:
    assert known.wrong_parameter("vcpu.slice_us", "700") == ""
    assert why in known.wrong_parameter(name, value)


def test_each_scheme_of_slices_says_its_own() -> None:
    for name, us in (("slice-500us", "500"), ("slice-1ms", "1000"), ("slice-3ms", "3000")):
        (scheme,) = config.experiment("slices", config.Overrides(schemes=(name,))).schemes
        assert scheme.host == {"vcpu.slice_us": us} and not scheme.guest
    with pytest.raises(UsageError, match="slice-500us"):
        config.experiment("slices", config.Overrides(schemes=("slice-500ms",)))


def test_parameters_are_written_in_one_order() -> None:
    """Of their names, whatever the hash of a name is in this process."""
    written: list[str] = []

    class Host:
        def read_file(self, path: str) -> bytes:
            return b"0\n"

        def write_file(self, path: str, text: str) -> None:
            written.append(path.rpartition("/")[2])
    names = ["yield", "extend", "window", "candidate", "mark", "pause", "extend_us"]
    scheme = Scheme("s", "", host=dict.fromkeys(names, "1"))
    parameters = Parameters()
    for one in (scheme, Scheme("none", "")):
        parameters.apply(cast(Control, Host()), one, [])
    assert written == sorted(names) * 2
