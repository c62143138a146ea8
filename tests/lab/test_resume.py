# SPDX-License-Identifier: GPL-2.0-only
"""`--resume`: what goes on in a directory that was begun, and what must not be mixed."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lab.core.errors import UsageError
from lab.core.model import Experiment
from lab.machine.provenance import machine_kind
from lab.plan import config
from lab.run import resuming
from tests.lab.calls import FILES, Call, FakeRunner, call, one_sentence, runner
from tests.lab.synthetic import Synthetic

__all__ = ["call", "runner"]


def begun(tmp_path: Path, experiment: Experiment) -> Path:
    """A directory that was begun with this experiment."""
    made = Synthetic(reps=1, boots=1)
    made.write(tmp_path / "old")
    manifest = replace(
        made.manifest(), experiment=experiment.name, schemes=experiment.schemes,
        workloads=experiment.workloads, vms=experiment.vms, vcpus=experiment.vcpus,
        pcpus=experiment.pcpus, reps=experiment.reps, boots=experiment.boots,
        baseline=experiment.schemes[0].label, images=FILES.images, machine=machine_kind(),
    )
    (tmp_path / "old" / "manifest.json").write_text(json.dumps(asdict(manifest)))
    return tmp_path / "old"


def test_resume(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    directory = begun(tmp_path, config.experiment("demo"))
    resuming.check(directory, config.experiment("demo"), "tcg")
    call("run", "demo", "--resume", str(directory), "--backend", "tcg")
    ((_, where, options),) = runner.calls
    assert where == directory and options.resume


@pytest.mark.parametrize("change", [
    {"kernel": "6.12.0-pvsync other"}, {"qemu": "9.0"}, {"guest_image": Path("image-other/root")},
])
def test_resume_with_another_kernel(
    call: Call, runner: FakeRunner, tmp_path: Path, change: dict[str, Any]
) -> None:
    directory = begun(tmp_path, config.experiment("demo"))
    runner.files = replace(runner.files, **change)
    status, _, err = call("run", "demo", "--backend", "tcg", "--resume", str(directory))
    assert status == 2 and "the two must not be mixed" in err and not runner.calls


@pytest.mark.parametrize(
    ("change", "different"),
    [
        (config.Overrides(vms=(1,)), "vms"),
        (config.Overrides(schemes=("pmt",)), "schemes"),
        (config.Overrides(command="true"), "workloads"),
        (config.Overrides(reps=9, boots=9), "reps"),
        (config.Overrides(vcpus=1, pcpus=1), "vcpus, pcpus"),
        (config.Overrides(observe=True), "observe"),
        (config.Overrides(observe="tlb"), "observe"),
        (config.Overrides(window_ms=100), "window_ms"),
        (config.Overrides(pin=True), "pin"),
        (config.Overrides(guest_mem=128), "guest_mem"),
    ],
)
def test_resume_of_another_experiment(
    tmp_path: Path, change: config.Overrides, different: str
) -> None:
    directory = begun(tmp_path, config.experiment("demo"))
    with pytest.raises(UsageError, match=f"was begun with other {different}: resume it"):
        resuming.check(directory, config.experiment("demo", change), "tcg")


@pytest.mark.parametrize("boots", [1, 2, 9])
def test_resume_with_other_seeds(tmp_path: Path, boots: int) -> None:
    """The directory has runs of the first boot alone."""
    directory = begun(tmp_path, config.experiment("demo"))
    changed = config.experiment("demo", config.Overrides(boots=boots))
    resuming.check(directory, changed, "tcg")
    lines = (directory / "runs.jsonl").read_text().splitlines()
    last = json.dumps(json.loads(lines[-1]) | {"id": "b4-x-a0", "boot": 7})
    (directory / "runs.jsonl").write_text("\n".join([*lines, last, ""]))
    if boots < 5:
        with pytest.raises(UsageError, match="has runs of 5 boots or seeds: ask for no fewer"):
            resuming.check(directory, changed, "tcg")
    else:
        resuming.check(directory, changed, "tcg")


def test_resume_without_the_snapshot(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="was begun with other snapshot: resume it"):
        resuming.check(begun(tmp_path, config.experiment("demo")), config.experiment("demo"),
                       "tcg", snapshot=True)


def test_resume_of_a_foreign_directory(call: Call, runner: FakeRunner, tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    status, _, err = call("run", "demo", "--resume", "foreign")
    assert status == 2 and "no result directory: it has no manifest.json" in err
    (tmp_path / "foreign" / "manifest.json").write_text("<html>")
    status, _, err = call("run", "demo", "--resume", "foreign")
    assert status == 2 and "is no valid JSON" in err and one_sentence(err)
    assert not runner.calls


def test_resume_on_another_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = begun(tmp_path, config.experiment("demo"))
    monkeypatch.setattr("lab.machine.backend.choose", lambda _: "kvm")
    with pytest.raises(UsageError, match="was begun with other backend"):
        resuming.check(directory, config.experiment("demo"))


def test_resume_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = begun(tmp_path, config.experiment("demo"))
    monkeypatch.setattr("lab.machine.provenance.machine_kind", lambda: "Some CPU, 64 CPUs, 8 GiB")
    with pytest.raises(UsageError, match="was begun with other machine"):
        resuming.check(directory, config.experiment("demo"), "tcg")


def test_resume_line() -> None:
    line = resuming.line(["run", "demo", "--out", "x", "--cmd", "a b", "--resume=y"], Path("d"))
    assert line == "./pvsync run demo --cmd 'a b' --resume d"
