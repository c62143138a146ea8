# SPDX-License-Identifier: GPL-2.0-only
"""Checks of the kernel that need it built, most of them running in guests.

One kernel serves them all, the `test` variant, so that a fresh machine
builds once. `--soak SECONDS` runs the long forms.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import backend, config, images, paths, runner
from lab.progress import Silent
from lab.session import Session

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Result:
    """What `./pvsync run` left."""

    status: int
    directory: Path
    output: str
    """Standard output and error."""
    summary: dict[str, Any]
    """summary.json."""

    def guest_output(self, scheme: str) -> str:
        """Output of the valid runs of one scheme, all guests."""
        found = []
        for line in (self.directory / "runs.jsonl").read_text().splitlines():
            run = json.loads(line)
            if run["scheme"] == scheme and run["valid"]:
                found += [(self.directory / guest["output"]).read_text() for guest in run["guests"]]
        return "".join(found)

    def cell(self, scheme: str, vms: int = 1) -> dict[str, Any]:
        """One cell of the summary."""
        (cell,) = (c for c in self.summary["cells"] if (c["scheme"], c["vms"]) == (scheme, vms))
        return dict(cell)


def meminfo(text: str, *names: str) -> int:
    """Bytes of memory that are called so in a text that has /proc/meminfo, all together."""
    found = dict(re.findall(r"^(\w+): +(\d+) kB$", text, re.M))
    return sum(1024 * int(found[name]) for name in names)


Lab = Callable[..., Result]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Runs `./pvsync run` with the arguments given, into a directory of its own."""

    def run(*arguments: str) -> Result:
        directory = tmp_path_factory.mktemp("results") / time.strftime("%H%M%S")
        command = [str(paths.ROOT / "pvsync"), "run", *arguments, "--out", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        print(output)
        summary = directory / "summary.json"
        assert summary.exists(), output
        return Result(done.returncode, directory, output, json.loads(summary.read_text()))

    return run


Host = Callable[[str, str], AbstractContextManager[Session]]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Boots a host with one stock guest; takes an experiment and a kernel variant."""

    @contextmanager
    def boot(name: str, variant: str) -> Iterator[Session]:
        plan = config.experiment(str(HERE / name), config.Overrides(
            schemes=("pvqspinlock",), vms=(1,), variant=variant))
        files = images.prepare(variant, None, (), Silent())
        spec = runner.host_spec(plan, backend.choose("auto"), files)
        session = Session(plan, spec, 0, tmp_path, lambda record: None, print)
        try:
            session.open()
            session.boot_all()
            yield session
        finally:
            session.abort()

    return boot


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", type=int, metavar="SECONDS", help="length of the long checks")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: runs with --soak only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long checks with --soak, the others without: nothing is skipped silently."""
    soak = config.getoption("--soak") is not None
    left_out = [item for item in items if bool(item.get_closest_marker("soak")) != soak]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
