# SPDX-License-Identifier: GPL-2.0-only
"""What guests and hosts have in force, against what schemes ask for."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.core.errors import UsageError
from lab.core.model import Manifest, Scheme
from lab.machine.machine import HostSpec
from lab.plan import config, in_force
from lab.run import parameters, records
from lab.run.runner import Options, _manifest
from tests.lab.calls import FILES
from tests.lab.sessions import experiment, go, spec

__all__ = ["spec"]
STOCK = {"lock": "pvqspinlock", "tau": "off", "halt_spins": "off", "help": "off", "tlb": "kvmtlb",
         "ecs": "off", "ecs_record": "none", "park": "stock", "host_features": "help,tlb,ecs",
         "host_found_by": "cpuid"}


def file(**changes: str) -> str:
    """The guest's file, stock but for these."""
    return "".join(f"{name} {value}\n" for name, value in (STOCK | changes).items())


@pytest.mark.parametrize(("arguments", "vcpus", "changes"), [
    ((), 2, {}),
    ((), 2, {"tlb": "ipi"}),
    ((), 1, {"lock": "qspinlock"}),
    (("nopvspin",), 4, {"lock": "qspinlock"}),
    (("pvsync.lock=qspinlock", "nopvspin"), 2, {"lock": "qspinlock"}),
    (("pvsync.lock=qspinlock",), 2, {}),
    (("pvsync.lock=tas", "pvsync.lock=ticket"), 2, {"lock": "ticket"}),
    (("pvsync.lock=pmt",), 2, {"lock": "pmt", "tau": "2315"}),
    (("pvsync.lock=pmt", "pvsync.tau=0"), 2, {"lock": "pmt", "tau": "0"}),
    (("pvsync.lock=pmt", "pvsync.impatience=1"), 2,
     {"lock": "pmt", "tau": "2315", "impatience": "1"}),
    (("pvsync.lock=pv-pmt", "pvsync.tau=inf", "pvsync.halt_spins=7"), 2,
     {"lock": "pv-pmt", "tau": "inf", "halt_spins": "7"}),
    (("pvsync.lock=pv-ticket",), 2, {"lock": "pv-ticket", "halt_spins": "2048"}),
    (("pvsync.lock=tas", "pvsync.help=auto"), 2, {"lock": "tas", "help": "65536"}),
    (("pvsync.lock=tas", "pvsync.help=1"), 2, {"lock": "tas", "help": "1"}),
    (("pvsync.tlb=mixed",), 2, {"tlb": "mixed"}),
    (("pvsync.ecs=count",), 2, {"ecs": "count", "ecs_record": "taken"}),
    (("pvsync.park=eschdspin",), 2, {"ecs_record": "taken", "park": "eschdspin"}),
    (("pvsync.park=schdspin", "pvsync.ecs=off"), 2, {"park": "schdspin"}),
])
def test_in_force(arguments: tuple[str, ...], vcpus: int, changes: dict[str, str]) -> None:
    asked = in_force.wanted(arguments, vcpus)
    assert in_force.mismatches(asked, file(**changes)) == []


@pytest.mark.parametrize(("arguments", "changes", "words"), [
    (("pvsync.lock=pv-pmt",), {"lock": "pmt", "tau": "2000"}, "lock, wanted pv-pmt, found pmt"),
    ((), {"lock": "tas"}, "lock, wanted pvqspinlock, found tas"),
    (("nopvspin",), {}, "lock, wanted qspinlock, found pvqspinlock"),
    (("pvsync.lock=pmt",), {"lock": "pmt"}, "tau, wanted a number, found off"),
    (("pvsync.lock=pmt", "pvsync.tau=500"), {"lock": "pmt", "tau": "2000"},
     "tau, wanted 500, found 2000"),
    (("pvsync.lock=ticket", "pvsync.tau=500"), {"lock": "ticket"}, "tau, wanted 500, found off"),
    (("pvsync.help=auto",), {}, "help, wanted a number, found off"),
    ((), {"help": "65536"}, "help, wanted off, found 65536"),
    ((), {"tlb": "shoot4u"}, "tlb, wanted ipi or kvmtlb, found shoot4u"),
    (("pvsync.tlb=mixed",), {"tlb": "shoot4u"}, "tlb, wanted mixed, found shoot4u"),
    (("pvsync.ecs=count",), {"ecs": "count", "ecs_record": "refused"},
     "ecs_record, wanted taken, found refused"),
    (("pvsync.lock=pmt", "pvsync.impatience=1"),
     {"lock": "pmt", "tau": "2000", "impatience": "16"}, "impatience, wanted 1, found 16"),
    (("pvsync.halt_spins=9",), {}, "halt_spins, wanted 9, found off"),
    (("pvsync.park=schdspin",), {}, "park, wanted schdspin, found stock"),
])
def test_not_in_force(arguments: tuple[str, ...], changes: dict[str, str], words: str) -> None:
    (wrong,) = in_force.mismatches(in_force.wanted(arguments, 2), file(**changes))
    assert str(wrong) == words
    assert in_force.reason("g-0", [wrong]) == (
        f"guest g-0 does not have in force what its scheme asks for: {words}")


def test_a_file_that_says_nothing() -> None:
    """Is no proof of anything, and neither is one that is damaged."""
    for text in ("", "lock\ntau off off\n\0\n"):
        wrong = in_force.mismatches(in_force.wanted((), 2), text)
        assert {one.parameter for one in wrong} == {
            "lock", "help", "tlb", "ecs", "ecs_record", "park"}
        assert {one.found for one in wrong} == {"nothing"}


def test_expected_otherwise() -> None:
    asked = in_force.wanted(("pvsync.lock=pv-pmt",), 2, {"lock": "pmt", "tlb": "shoot4u|ipi"})
    assert not in_force.mismatches(asked, file(lock="pmt", tau="1", tlb="ipi"))
    wrong = in_force.mismatches(asked, file(lock="pv-pmt", tau="1"))
    assert list(map(str, wrong)) == ["lock, wanted pmt, found pv-pmt",
                                     "tlb, wanted shoot4u or ipi, found kvmtlb"]
    assert in_force.mismatches(asked, file(lock="pmt", tau="1"), ignore=["tlb"]) == []
    with pytest.raises(UsageError, match="expect names 'locks', which no kernel tells"):
        config.check_scheme(Scheme("m", "", expect={"locks": "pmt"}), "x")


def test_kernels_without_pvsync() -> None:
    assert in_force.tells("lab") and in_force.tells("free")
    assert not in_force.tells("stock") and not in_force.tells("off")
    assert in_force.unknown(("nopvspin",)) == []
    (wrong,) = in_force.unknown(("pvsync.lock=pmt", "pvsync.overrule"))
    assert str(wrong) == "lock, wanted pmt, found a kernel without pvsync"


def manifest(*schemes: Scheme) -> Manifest:
    what = replace(experiment(), schemes=schemes)
    return _manifest(what, Options(), "tcg", FILES)


def test_the_manifest_says_what_is_not_known() -> None:
    known, unknown = Scheme("a", "", label="a"), Scheme("b", "", variant="stock", label="b:2")
    assert manifest(known).unproven == () and in_force.warnings(manifest(known)) == ()
    assert manifest(known, unknown).unproven == ("b:2",)
    assert "guests of b:2 had in force is not known" in in_force.warnings(manifest(unknown))[0]


@pytest.mark.parametrize(("wrote", "found", "alike"), [
    ("Y", "Y", True), ("1", "Y", True), ("n", "N", True), ("0", "Y", False), ("", "N", False),
    ("hvs", "hvs", True), ("hvs", "kvm", False), ("010", "10", True), ("200", "", False),
])
def test_parameters_as_they_are_shown(wrote: str, found: str, alike: bool) -> None:
    assert parameters.same(wrote, found) == alike


def lies(pairs: str, **changes: object) -> Scheme:
    """A scheme whose guest says that this is in force."""
    return Scheme("lie", "", (f"fake_force={pairs}", *changes.pop("guest", ())), label="lie",  # type: ignore[misc]
                  **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("scheme", "reason"), [
    (lies("lock:pvqspinlock", guest=("pvsync.lock=pmt", "pvsync.tau=2")),
     "guest lie-0 does not have in force what its scheme asks for:"
     " lock, wanted pmt, found pvqspinlock"),
    (lies("lock:,help:"), "guest lie-0 does not have in force what its scheme asks for:"
     " lock, wanted pvqspinlock, found nothing; help, wanted off, found nothing"),
    (lies("lock:tas", expect={"lock": "tas"}), ""),
    (lies("", variant="stock", guest=("pvsync.ecs=count",)),
     "guest lie-0 does not have in force what its scheme asks for:"
     " ecs, wanted count, found a kernel without pvsync"),
], ids=["another lock", "silent", "on purpose", "stock"])
def test_runs(spec: HostSpec, tmp_path: Path, scheme: Scheme, reason: str) -> None:
    what = replace(experiment(vms=(1,), repeats=0), schemes=(scheme,))
    assert go(what, spec, tmp_path) == (not reason)
    assert {run.reason for run in records.runs(tmp_path)} == {reason}


def test_hosts(spec: HostSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that does not keep what is written to it."""
    monkeypatch.setattr("lab.run.parameters.parameter_file", lambda name: "/dev/null")
    scheme = Scheme("a", "", host={"candidate": "hvs"}, label="a")
    what = replace(experiment(vms=(1,), repeats=0), schemes=(scheme,))
    assert not go(what, spec, tmp_path)
    assert {run.reason for run in records.runs(tmp_path)} == {
        "the host does not have in force what scheme a asks for: candidate, wanted hvs,"
        " found nothing"}


def test_it_is_looked_after_the_run_as_well(spec: HostSpec, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    parameter = tmp_path / "extend"
    parameter.write_text("off\n")
    monkeypatch.setattr("lab.run.parameters.parameter_file", lambda name: str(parameter))
    scheme = Scheme("a", "", host={"extend": "ecs"}, label="a")
    what = replace(experiment(f"echo off >{parameter}; echo Time: 1; sleep 0.3", vms=(1,),
                              repeats=0), schemes=(scheme,))
    assert not go(what, spec, tmp_path / "out")
    (run,) = records.runs(tmp_path / "out")
    assert run.reason.endswith("extend, wanted ecs, found off") and run.guests
