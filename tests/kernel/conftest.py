# SPDX-License-Identifier: GPL-2.0-only
"""Checks of the kernel that need it built, most of them running in guests.

One kernel serves them all, the `test` variant, so that a fresh machine
builds once. `--soak SECONDS` runs the long forms.

Tests with the mark `virtual` have machines in virtual time alone: they see no load, so `make test`
runs two of them at a time, beside other stages. All others have this machine to
themselves: most play their hosts in real time.

Tests with the mark `sampled` take minutes, see tests/conftest.py.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.build import images
from lab.core import paths
from lab.core.model import Backend, Experiment
from lab.core.progress import Silent
from lab.machine import backend
from lab.machine.machine import HostSpec
from lab.plan import config
from lab.run import runner
from lab.run.session import Session
from tests.kernel import host_log

HERE = Path(__file__).parent
LIMIT = "180"
"""Seconds for a command that has no other limit; those of the short tests take 5 to 30."""


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
        return "".join(self.output_of(run) for run in self.runs(scheme))

    def runs(self, scheme: str | None = None) -> list[dict[str, Any]]:
        """The valid ones, in order, of one scheme or of all; a run that was lost is repeated."""
        lines = (self.directory / "runs.jsonl").read_text().splitlines()
        return [run for run in map(json.loads, lines)
                if run["valid"] and scheme in (None, run["scheme"])]

    def output_of(self, run: dict[str, Any]) -> str:
        """That of all guests of a run."""
        return "".join((self.directory / guest["output"]).read_text() for guest in run["guests"])

    def host_snapshot(self, run: dict[str, Any], when: str) -> str:
        """What the lab read in the host "before" or "after" a run."""
        return (self.directory / "raw" / str(run["id"]) / f"host.{when}.txt").read_text()

    def cell(self, scheme: str, vms: int | None = None) -> dict[str, Any]:
        """One cell of the summary; the only one of a scheme without a number of VMs."""
        (cell,) = (c for c in self.summary["cells"]
                   if c["scheme"] == scheme and vms in (None, c["vms"]))
        return dict(cell)

    def host_logs(self) -> list[str]:
        """The console of each boot of a host; one that was lost is booted again."""
        logs = [log.read_text(errors="replace")
                for log in self.directory.glob("boots/*/host-console.log")]
        assert logs, "the host has no log"
        return logs

    def check_log(self) -> None:
        """The lab sees to splats; here, that pvsync has not filled the host's log."""
        for log in self.host_logs():
            host_log.check(log, host_log.FEW)


def meminfo(text: str, *names: str) -> int:
    """Bytes of memory that are called so in a text that has /proc/meminfo, all together."""
    found = dict(re.findall(r"^(\w+): +(\d+) kB$", text, re.M))
    return sum(1024 * int(found[name]) for name in names)


KERNEL = "Slab", "PageTables", "SecPageTables", "VmallocUsed", "KernelStack"
"""Memory that a kernel has for itself."""
NOISE = 1 << 20
"""Bytes by which a host's may differ between two looks; 200 KiB were seen."""


def kernel_memory(result: Result, run: dict[str, Any], when: str) -> int:
    """Bytes that the host's kernel has for itself "before" or "after" a run, guests up."""
    return meminfo(result.host_snapshot(run, when), *KERNEL)


def longer(workload: str, seconds: int, limit: int | None = None) -> tuple[str, ...]:
    """Arguments that make this workload's command that long; it fails by its status."""
    command = f"seconds={seconds}\n{config.workloads()[workload].command}"
    return "--cmd", command, "--timeout", str(limit or 3 * seconds + 300)


def each(seconds: int, schemes: Sized | str) -> int:
    """For each of the schemes, or of an experiment's, where all have so many; 10 at least."""
    if isinstance(schemes, str):
        schemes = config.experiment(schemes).schemes
    return max(10, seconds // len(schemes))


Lab = Callable[..., Result]


@pytest.fixture(scope="session")
def played_by(pytestconfig: pytest.Config) -> Backend:
    """What plays the hosts: hardware that nests, else the emulator, in real time unless told."""
    return backend.choose(pytestconfig.getoption("--backend"), emulated="tcg")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, played_by: Backend) -> Lab:
    """Runs `./pvsync run` with the arguments given, into a directory of its own."""

    def run(*arguments: str) -> Result:
        if "--cmd" in arguments and "--timeout" not in arguments:
            arguments += ("--timeout", LIMIT)
        directory = tmp_path_factory.mktemp("results") / time.strftime("%H%M%S")
        command = [str(paths.ROOT / "pvsync"), "run", *arguments, "--no-page", "--out",
                   str(directory), *(() if "--backend" in arguments else ("--backend", played_by))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        print(output)
        summary = directory / "summary.json"
        assert summary.exists(), output
        return Result(done.returncode, directory, output, json.loads(summary.read_text()))

    return run


@pytest.fixture(scope="session")
def length(pytestconfig: pytest.Config) -> int:
    """Seconds that the load of one long check lasts in all."""
    return int(pytestconfig.getoption("--soak"))


Host = Callable[..., AbstractContextManager[Session]]
"""Called with an experiment, a kernel variant, arguments to boot the host's kernel with, more for
QEMU, and what else of the experiment is to be another one, see config.Overrides."""


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory, played_by: Backend) -> Host:
    """Boots a host with one guest, a stock one unless another scheme is asked for."""

    @contextmanager
    def boot(name: str, variant: str, *arguments: str, qemu: tuple[str, ...] = (),
             **changes: Any) -> Iterator[Session]:
        stock = config.Overrides(schemes=("pvqspinlock",), vms=(1,), variant=variant)
        plan = config.experiment(str(HERE / name), replace(stock, **changes))
        files = images.prepare(variant, None, (), Silent())
        spec = runner.host_spec(plan, played_by, files)
        spec = replace(spec, args=(*spec.args, *arguments), extra=(*spec.extra, *qemu))
        with opened(plan, spec, tmp_path_factory.mktemp("host")) as session:
            yield session

    return boot


@contextmanager
def opened(plan: Experiment, spec: HostSpec, out: Path) -> Iterator[Session]:
    """A host with all guests of an experiment, without a record of what it does."""
    session = Session(plan, spec, 0, out, lambda record: None, print)
    try:
        session.open()
        session.boot_all()
        yield session
    finally:
        session.abort()


PARAMETERS = "grep -r . /sys/module/pvsync/parameters /sys/kernel/debug/kvm/*-*/pvsync"
NOT_SET = re.compile(r"/(counters|epochs|cpu_waits|\w*measured\w*)[:/]")
"""What changes by itself."""


def parameters(session: Session) -> list[str]:
    """The values of all host parameters, the VM's own among them."""
    _status, said = session.machine.control.run("sh", "-c", PARAMETERS)
    found = sorted(line for line in said.splitlines() if not NOT_SET.search(line))
    assert any("/parameters/mark:" in line for line in found), said
    return found


@pytest.fixture(scope="session")
def common(host: Host) -> Iterator[Session]:
    """One host for all tests that need no kernel or arguments of their own, with one stock guest.

    Tests that have it come last, so that no other host is up beside it. Each takes it by
    `shared`.
    """
    with host("hostile.toml", "test") as session:
        yield session


@dataclass(frozen=True)
class Shared:
    """The common host during one test, or the tests of one module."""

    session: Session
    read: int
    """Bytes that its console had before."""

    def console(self) -> str:
        """What the host has said since."""
        return self.session.machine.console_text()[self.read:].decode(errors="replace")


@contextmanager
def borrowed(session: Session) -> Iterator[Shared]:
    """The common host; what is changed in it has to be taken back, and nothing may be wrong."""
    before = parameters(session)
    assert session.machine.trouble() == ""
    yield Shared(session, len(session.machine.console_text()))
    session.machine.control.call("switch", run=[])
    assert parameters(session) == before
    assert session.machine.trouble() == ""


@contextmanager
def written(session: Session, path: str, value: str) -> Iterator[None]:
    """A host's file has this value meanwhile."""
    control = session.machine.control
    before = control.read_file(path).decode().strip()
    control.write_file(path, value)
    try:
        yield
    finally:
        control.write_file(path, before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", type=int, metavar="SECONDS", help="length of the long checks")
    parser.addoption("--backend", default="auto", help="what plays the hosts, as of ./pvsync run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: runs with --soak only")
    config.addinivalue_line("markers", "virtual: has machines in virtual time alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long checks with --soak, the others without, sampled ones with both."""
    soak = config.getoption("--soak") is not None

    def runs(item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        return "sampled" in marks or ("soak" in marks) == soak

    config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
    kept = filter(runs, items)
    items[:] = sorted(kept, key=lambda item: "common" in getattr(item, "fixturenames", ()))
