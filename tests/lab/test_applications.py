# SPDX-License-Identifier: GPL-2.0-only
"""How figures of applications are read: of what they print, and by the shells around them."""

import subprocess
from pathlib import Path

import pytest

from lab.plan import config
from tests.lab.programs.built import figure


@pytest.mark.parametrize(("workload", "output", "value"), [
    ("pgbench-write", "number of failed transactions: 0 (0.000%)\nlatency average = 1.809 ms\n"
     "tps = 2210.793022 (without initial connection time)\n", 2210.793022),
    ("memcached", "Run time: 2.0s Ops: 62235 TPS: 31115 Net_rate: 34.5M/s\n", 31115),
    ("x264", "encoded 40 frames, 45.12 fps, 5409.94 kb/s\n", 45.12)])
def test_figures_of_applications(workload: str, output: str, value: float) -> None:
    assert figure(workload, output) == value
    assert figure(workload, output.replace("tps", "failed").replace("Run", "x")
                  .replace("40 frames", "39 frames")) is None


def shell_of(workload: str, lines: str, program: str, folder: Path) -> str:
    """What the last program of a workload's pipe prints when it reads these lines."""
    command = config.workloads()[workload].command
    (folder / "script").write_text(command[command.index(program):])
    done = subprocess.run(["sh", str(folder / "script")], input=lines, text=True,
                          capture_output=True, check=True)
    return done.stdout


def test_percentiles_are_nearest_ranks(tmp_path: Path) -> None:
    lines = "".join(f"0 {number} {number * 1000} 0 1 1 1\n" for number in range(1, 201))
    said = shell_of("pgbench-paced", lines, "awk", tmp_path)
    assert figure("pgbench-paced", said) == 198, "198 of 200 are no later"
    assert figure("pgbench-paced", shell_of("pgbench-paced", "", "awk", tmp_path)) is None


@pytest.mark.parametrize(("unit", "ms"), [("us", 0.0025), ("ms", 2.5), ("s", 2500)])
def test_units_of_latencies(unit: str, ms: float, tmp_path: Path) -> None:
    lines = f"  Latency Distribution\n     99%    2.50{unit}\n  100 requests in 2.00s, 1MB read\n"
    assert figure("nginx-latency", shell_of("nginx-latency", lines, "awk", tmp_path)) == ms
    for bad in (lines.replace("100 requests", "0 requests"), lines + "Non-2xx or 3xx: 1\n"):
        assert figure("nginx-latency", shell_of("nginx-latency", bad, "awk", tmp_path)) is None


def test_rates_count_both_directions(tmp_path: Path) -> None:
    lines = '"test","rps"\n"SET","100.00"\n"GET","300.00"\n'
    assert figure("redis", shell_of("redis", lines, "awk", tmp_path)) == 150
    assert figure("redis", shell_of("redis", lines.splitlines()[1], "awk", tmp_path)) is None
