# SPDX-License-Identifier: GPL-2.0-only
"""Workloads that are shell scripts: what they name, a compilation, a web server."""

import os
import re
from pathlib import Path

import pytest

from lab.build import userland
from lab.core import paths
from lab.core.model import Experiment, Workload
from lab.plan import config
from tests.lab.programs.built import figure, shell

OWN = re.compile(rf"/{userland.INSIDE}/bin/([\w-]+)")


def test_commands_and_packages_are_in_the_guests() -> None:
    workloads = config.workloads().values()
    tests = (paths.ROOT / "tests" / "kernel").glob("*.py")
    commands = [*(workload.command for workload in workloads), *(t.read_text() for t in tests)]
    named = {name for command in commands for name in OWN.findall(command)}
    assert named == {file.stem for file in userland.PROGRAMS.glob("*.c")} != set()
    # What applications need is in guests of experiments that run them, not in all guests.
    special = {load.name for name in ("applications", "shoot4u-slowdown")
               for load in config.experiments()[name].workloads}
    packages = {name for workload in workloads if workload.name not in special
                for name in workload.packages}
    assert packages == set(userland.GUEST_PACKAGES)


# parallel-compile

@pytest.fixture
def compile_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """parallel-compile of three sources in a folder of the test, with gcc for tcc."""
    compiler = tmp_path / "bin/tcc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\nexec gcc -O0 "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    text = (config.WORKLOADS / "parallel-compile.toml").read_text()
    for old, new in (("/tmp/parallel-compile", f"{tmp_path}/build"), ("files = 24", "files = 2")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "parallel-compile.toml").write_text(text)
    workload = config.workloads(tmp_path)["parallel-compile"]
    assert shell(workload.setup).returncode == 0
    return workload


def test_compile_is_clean_each_time(compile_here: Workload, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    for _ in range(2):
        done = shell(compile_here.command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    objects = {file.name for file in (folder / "build").iterdir()}
    assert objects == {"main.o", "part0.o", "part1.o", "program"}
    (folder / "build/part0.o").write_text("left over")
    assert shell(compile_here.command).returncode == 0


def test_compile_checks_what_it_built(compile_here: Workload, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    source = folder / "part1.c"
    right = source.read_text()
    source.write_text(right.replace("STEP2_1", "STEP2_2"))
    done = shell(compile_here.command)
    answer = (folder / "answer").read_text().strip()
    assert done.returncode == 1
    assert re.fullmatch(rf"the program says '\d+', not {answer}\n", done.stdout)
    source.write_text(right + "nonsense\n")
    done = shell(compile_here.command)
    assert done.returncode == 1 and "nonsense" in done.stderr
    source.write_text(right)
    assert shell(compile_here.command).returncode == 0


def test_compile_setup_gives_the_same_sources(compile_here: Workload, tmp_path: Path) -> None:
    def sources() -> dict[str, bytes]:
        files = [f for f in (tmp_path / "build").rglob("*") if f.is_file()]
        return {str(file.relative_to(tmp_path)): file.read_bytes() for file in files}

    first = sources()
    assert shell(compile_here.command).returncode == 0
    assert shell(compile_here.setup).returncode == 0
    assert sources() == first


# web-server

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def web_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """web-server in a folder of the test; its programs only note how they were called."""
    (tmp_path / "bin").mkdir()
    for name, script in (("ip", ""), ("apache2", f"echo it is broken >>{tmp_path}/web/errors\n"),
                         ("wrk", f"cat {tmp_path}/said\n")):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/called\n{script}')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    text = (config.WORKLOADS / "web-server.toml").read_text()
    for old, new in (("/tmp/web-server", f"{tmp_path}/web"),
                     ("/sys/fs/cgroup/cgroup.procs", f"{tmp_path}/procs")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "web-server.toml").write_text(text)
    return config.workloads(tmp_path)["web-server"]


def test_web_server_is_set_up(web_here: Workload, tmp_path: Path) -> None:
    (tmp_path / "said").write_text((DATA / "wrk.out").read_text())
    assert shell(web_here.setup).returncode == 0
    called = (tmp_path / "called").read_text().splitlines()
    assert called[:2] == ["ip link set lo up", f"apache2 -f {tmp_path}/web/config -k start"]
    assert len(called) == 3
    assert len((tmp_path / "web/pages/page").read_bytes()) == 300
    assert (tmp_path / "procs").read_text().strip().isdecimal()
    listed = (tmp_path / "web/config").read_text().split()
    assert f"{tmp_path}/web/pages" in listed and "127.0.0.1:80" in listed
    done = shell(web_here.command)
    assert figure("web-server", done.stdout) == 24819.98
    cpus = len(os.sched_getaffinity(0))
    assert (tmp_path / "called").read_text().splitlines()[3] == (
        f"wrk -t {cpus} -c {4 * cpus} -d 4s --timeout 20s http://127.0.0.1:80/page")


def test_web_server_leaves_memory_for_wrk() -> None:
    web = config.workloads()["web-server"]
    seconds = re.findall(r"wrk .* --timeout (\d+)s ", web.setup + web.command)
    assert len(seconds) == 2
    # 8 bytes for each microsecond, and the kernel refuses what is more than a guest has.
    assert all(8 * int(one) * 10**6 < 0.75 * Experiment.guest_mem * 2**20 for one in seconds)


@pytest.mark.parametrize("said", ["wrk-errors.out", "wrk-refused.out"])
def test_web_server_that_does_not_serve(web_here: Workload, tmp_path: Path, said: str) -> None:
    (tmp_path / "said").write_text((DATA / said).read_text())
    done = shell(web_here.setup)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "it is broken"
    assert lines[1:] == (DATA / said).read_text().splitlines()[-4:]
    assert (tmp_path / "called").read_text().count("wrk ") == 30


def test_web_server_without_a_device(web_here: Workload, tmp_path: Path) -> None:
    (tmp_path / "bin/ip").write_text("#!/bin/sh\necho no such device >&2; exit 2\n")
    done = shell(web_here.setup)
    assert (done.returncode, done.stderr) == (2, "no such device\n")
    assert not (tmp_path / "called").exists()
