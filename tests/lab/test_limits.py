# SPDX-License-Identifier: GPL-2.0-only
"""A test that hangs fails alone, and what it started is ended."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.core import paths, tools
from tests import conftest

HANGS = """
import subprocess, sys, time
from pathlib import Path
from lab.core import tools

def test_hangs():
    child = [sys.executable, "-c", "import time; time.sleep(600)"]
    with tools.follow(child) as process:
        Path("child").write_text(str(process.pid))
        process.wait()

def test_by_run():
    try:
        subprocess.run(["sleep", "600"])
    except BaseException:
        Path("raised").write_text("")
        raise

def test_goes_on():
    pass
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_hang_fails_one_test(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *workers, "-o", "timeout=3",
         "-o", "timeout_method=signal"],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(paths.ROOT)})
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert done.stdout.count("Failed: Timeout") >= 2 and (tmp_path / "raised").exists()
    child = Path("/proc") / (tmp_path / "child").read_text()
    deadline = time.monotonic() + tools.STOP_S
    while child.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not child.exists()


def test_every_folder_of_tests_has_a_limit(request: pytest.FixtureRequest) -> None:
    folders = {file.relative_to(paths.ROOT / "tests").parts[0]
               for file in (paths.ROOT / "tests").glob("*/test_*.py")}
    assert folders == set(conftest.LIMITS)
    if not any(request.config.getoption(name, None) for name in conftest.LONG):
        marker = request.node.get_closest_marker("timeout")
        assert marker is not None and marker.args == (conftest.LIMITS["lab"],)
