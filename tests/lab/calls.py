# SPDX-License-Identifier: GPL-2.0-only
"""Calls of the command line in this process, and a runner that runs nothing."""

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lab.build import images
from lab.build.images import Images
from lab.cli import main as cli
from lab.core.model import Experiment
from tests.lab.synthetic import Synthetic

FILES = replace(
    images.PLACEHOLDERS, kernel="6.12.0-pvsync 0123456789ab", qemu="QEMU emulator version 11.1.3"
)
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process: status, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pvsync", *arguments])
        try:
            status = cli._guarded()
        except SystemExit as leave:
            status = leave.code if isinstance(leave.code, int) else 1
        return (status, *capsys.readouterr())

    return run


@dataclass
class FakeRunner:
    """Stands in for lab.runner: remembers what it was asked, leaves what it was told."""

    made: Synthetic = field(default_factory=lambda: Synthetic(reps=1, boots=1))
    error: BaseException | None = None
    files: Images = FILES
    calls: list[tuple[Experiment, Path, Any]] = field(default_factory=list)

    def run(
        self, experiment: Experiment, directory: Path, options: Any, progress: Any, files: Any
    ) -> None:
        self.calls.append((experiment, directory, options))
        self.made.write(directory)
        if self.error:
            raise self.error


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRunner:
    fake = FakeRunner()
    module = types.ModuleType("lab.run.runner")
    module.run = fake.run  # type: ignore[attr-defined]
    module.dry_run = lambda experiment, **_: [f"would run {experiment.name}"]  # type: ignore[attr-defined]
    module.check = lambda experiment, backend, snapshot, trace: None  # type: ignore[attr-defined]
    module.Options = types.SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lab.run.runner", module)
    monkeypatch.setattr("lab.run.runner", module, raising=False)
    monkeypatch.setattr(images, "prepare", lambda *_, **__: fake.files)
    monkeypatch.chdir(tmp_path)
    return fake


def one_sentence(text: str) -> bool:
    return text.startswith("pvsync: ") and text.count("\n") == 1 and text[-2] in ".?!"
