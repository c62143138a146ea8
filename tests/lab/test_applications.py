# SPDX-License-Identifier: GPL-2.0-only
"""How figures of applications are read: of what they print, and by the shells around them."""

import subprocess
from pathlib import Path

import pytest

from lab.plan import config
from tests.lab.programs.built import figure, shell


@pytest.mark.parametrize(("workload", "output", "value"), [
    ("pgbench-write", "number of failed transactions: 0 (0.000%)\nlatency average = 1.809 ms\n"
     "tps = 2210.793022 (without initial connection time)\n", 2210.793022),
    ("memcached", "Run time: 2.0s Ops: 62235 TPS: 31115 Net_rate: 34.5M/s\n", 31115),
    ("x264", "encoded 40 frames, 45.12 fps, 5409.94 kb/s\n", 45.12),
    ("mariadb-oltp", "    transactions:                        231    (228.53 per sec.)\n"
     "    queries:                             4620   (4570.63 per sec.)\n", 228.53),
    ("shop", "  333 requests in 1.03s, 247.46KB read\nRequests/sec:    323.60\n", 323.6)])
def test_figures_of_applications(workload: str, output: str, value: float) -> None:
    assert figure(workload, output) == value
    assert figure(workload, output.replace("tps", "failed").replace("Run", "x")
                  .replace("40 frames", "39 frames").replace(" 231 ", " 0 ")
                  .replace("read\n", "read\n  Non-2xx or 3xx responses: 1\n")) is None


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
@pytest.mark.parametrize(("load", "share", "other"), [
    ("nginx-latency", 99, 50), ("web-server-median", 50, 99), ("web-server-median-short", 50, 99)])
def test_units_of_latencies(load: str, share: int, other: int, unit: str, ms: float,
                            tmp_path: Path) -> None:
    lines = (f"  Latency Distribution\n     {other}%    7.00ms\n     {share}%    2.50{unit}\n"
             "  100 requests in 2.00s, 1MB read\n")
    assert figure(load, shell_of(load, lines, "awk", tmp_path)) == ms
    for bad in (lines.replace("100 requests", "0 requests"), lines + "Non-2xx or 3xx: 1\n"):
        assert figure(load, shell_of(load, bad, "awk", tmp_path)) is None


def test_rates_count_both_directions(tmp_path: Path) -> None:
    lines = '"test","rps"\n"SET","100.00"\n"GET","300.00"\n'
    assert figure("redis", shell_of("redis", lines, "awk", tmp_path)) == 150
    assert figure("redis", shell_of("redis", lines.splitlines()[1], "awk", tmp_path)) is None


def test_lateness_counts_what_no_bin_has(tmp_path: Path) -> None:
    lines = "# Histogram\n000010 000090 000008\n000500 000000 000001\n000900 000001 000000\n"
    read = ("cyclictest-load", f"{lines}# Histogram Overflows: 00000 00000\n", "awk", tmp_path)
    assert figure("cyclictest-load", shell_of(*read)) == 500, "99 of 100 are no later"
    late = read[1].replace(": 00000", ": 00004")
    assert figure("cyclictest-load", shell_of("cyclictest-load", late, "awk", tmp_path)) is None
    assert figure("cyclictest-load", shell_of("cyclictest-load", "", "awk", tmp_path)) is None


@pytest.mark.parametrize(("there", "value"), [(40, 80), (39, None), (41, None)])
def test_mails_have_all_arrived(there: int, value: float | None, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("began", "1000.25"), ("senders", "4"), ("there", str(there))):
        monkeypatch.setenv(name, text)
    assert figure("exim4", shell_of("exim4", "1000.750000\n", "awk -v", tmp_path)) == value


def in_folder(workload: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Do a workload's command with this folder for the one that it has in /tmp."""
    command = config.workloads()[workload].command
    assert f"/tmp/{workload}" in command
    return shell(command.replace(f"/tmp/{workload}", str(folder)))


def test_modules_are_all_compiled(tmp_path: Path) -> None:
    (tmp_path / "extensions").mkdir()
    build = "for file; do echo 'int init_module;' | gcc -x c -c - -o $file; done\n"
    for text, status in ((build, 0), (build.replace("init_module", "other"), 1), ("false\n", 1),
                         (f"{build}rm xt_iface.o\n", 1)):
        (tmp_path / "build").write_text(text)
        assert in_folder("gcc-kbuild", tmp_path).returncode == status


def test_picture_is_that_of_one_thread(tmp_path: Path) -> None:
    (tmp_path / "right.v").write_text("picture")
    for text, status in (("picture", 0), ("pictur", 1)):
        (tmp_path / "work").write_text(f"[ $VIPS_CONCURRENCY -gt 0 ] && printf {text} >out.v\n")
        assert in_folder("libvips", tmp_path).returncode == status
