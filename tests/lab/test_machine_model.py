# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace
from pathlib import Path

import pytest

from lab.build.images import PLACEHOLDERS
from lab.core.errors import UsageError
from lab.core.model import Scheme
from lab.machine import pace, tsc
from lab.machine.backend import choose
from lab.machine.machine import HostSpec, host_command
from lab.plan import machine_model
from lab.run import shell
from tests.lab.test_machine import SPEC, value

TEXT = (machine_model.FOLDER / "zen4.toml").read_text()


def virtual(name: str, seed: int = 7) -> HostSpec:
    return replace(SPEC, backend="vt", model=machine_model.load(name), seed=seed, pcpus=8,
                   args=tsc.kernel_arguments("vt"))


@pytest.mark.parametrize("name", machine_model.names())
def test_each_model_is_whole_and_names_its_sources(name: str) -> None:
    model = machine_model.load(name)
    assert model.name == name and model.about
    words = model.cpu().split(",")
    assert {word.partition("=")[0] for word in words if "=" in word} == {
        f"x-charge-{what}" for what in ("pause", "vmrun", "vmexit", "ipi", "flush")}
    assert ("+pause-filter" in words) == model.pause_filter


def test_what_the_emulator_is_told() -> None:
    argv = host_command(virtual("zen4"), Path("/run"), Path("/logs"))
    assert value(argv, "-accel").startswith("tcg,thread=single")
    assert value(argv, "-icount") == (
        "shift=0,sleep=off,align=off,lockstep=on,quantum=2000,seed=7")
    assert "x-charge-vmexit=230" in value(argv, "-cpu") and "+svm" in value(argv, "-cpu")
    assert value(argv, "-seed") == "7" and value(argv, "-rtc").endswith("clock=vm")
    assert "tsc_early_khz=1000000" in value(argv, "-append").split()


def test_another_seed_changes_nothing_else() -> None:
    first, second = (host_command(virtual("zen4", seed), Path("/run"), Path("/logs"))
                     for seed in (1, 2))
    assert [(one, two) for one, two in zip(first, second, strict=True) if one != two] == [
        (value(first, "-icount"), value(second, "-icount")), ("1", "2")]


def test_limits_are_the_hosts() -> None:
    assert pace.wall(SPEC) == 1
    assert pace.wall(virtual("zen4")) == 8 * pace.WALL_PER_CPU_S


def test_virtual_time_needs_nothing_of_the_machine() -> None:
    assert choose("vt", cpuinfo="", trial=lambda: False, nested=lambda: False) == "vt"


@pytest.mark.parametrize(("old", "new", "message"), [
    ("ns = 2000", "ns = 10", "quantum.ns must be from 100 to 1000000"),
    ("ns = 18", "ns = -1", "pause.ns must be from 0 to 1000000"),
    ("log2_ns = 0", "log2_ns = 11", "instruction.log2_ns must be from 0 to 10"),
    ("[ipi]", "[ipis]", "unknown key 'ipis'"),
    ('source = "the other half, which the same measurement does not tell apart"',
     'source = " "', "vmexit names no source"),
    ("about =", "about = =", "Invalid value"),
])
def test_a_damaged_model_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    (tmp_path / "broken.toml").write_text(TEXT.replace(old, new))
    with pytest.raises(UsageError) as error:
        machine_model.load("broken", tmp_path)
    assert message in str(error.value)


def test_numbers_can_be_scaled() -> None:
    plain, scaled = machine_model.load("zen4"), machine_model.load("zen4:exit*2,instruction*2")
    assert scaled.name == "zen4:exit*2,instruction*2"
    assert (scaled.vmrun.ns, scaled.vmexit.ns) == (2 * plain.vmrun.ns, 2 * plain.vmexit.ns)
    assert scaled.instruction.log2_ns == plain.instruction.log2_ns + 1
    assert (scaled.pause, scaled.ipi, scaled.flush) == (plain.pause, plain.ipi, plain.flush)


@pytest.mark.parametrize(("change", "message"), [
    ("exits*2", "'exits*2' is not KEY*FACTOR"),
    ("exit", "'exit' is not KEY*FACTOR"),
    ("exit*0", "is not KEY*FACTOR"),
    ("exit*nan", "is not KEY*FACTOR"),
    ("exit*inf", "is not KEY*FACTOR"),
    ("", "'' is not KEY*FACTOR"),
    ("instruction*3", "powers of two, not 3"),
    ("instruction*0.5", "instruction.log2_ns must be from 0"),
    ("vmexit*1e9", "vmexit.ns must be from 0"),
])
def test_a_scale_that_is_none_is_refused(change: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        machine_model.load(f"zen4:{change}")
    assert message in str(error.value)


def test_unknown_models_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"no machine model 'zen5', did you mean 'zen4'\?"):
        machine_model.load("zen5")


def test_a_console_in_virtual_time_has_a_model(tmp_path: Path) -> None:
    argv = shell.command("host", Scheme("s", ""), "vt", PLACEHOLDERS, vcpus=2, pcpus=4,
                         run=tmp_path)
    assert "lockstep=on" in value(argv, "-icount") and value(argv, "-smp") == "4"
