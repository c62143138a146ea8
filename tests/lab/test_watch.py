# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync export`: its text, and what Prometheus makes of metrics, alerts and dashboard."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cli import main as cli
from lab.core.errors import LabError
from lab.observe import preemptions
from lab.operate import metrics, watch
from tests.lab.prometheus import Server, free_port, process, prometheus, tool
from tests.lab.test_doctor import Fake

RANGE = "[6s]"
"""In place of minutes: for how long a rate is taken."""


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def counts(fake: Fake, ms: int) -> None:
    """What a pvsync kernel has counted after so many milliseconds."""
    told = {f"preempt_{kind}": ms for kind in preemptions.KINDS} | {
        "preempt_unmarked": 2 * ms, "extend_avoided": ms, "extend_expired": 2 * ms,
        "extend_ns": ms * 10_000, "tlb_calls": ms}
    fake.put("debug/kvm/7-11/pvsync/counters", "".join(f"{k} {v}\n" for k, v in told.items()))
    for name in ("halt_poll_success_ns", "halt_poll_fail_ns"):
        fake.put(f"debug/kvm/7-11/{name}", f"{ms * 1000}\n")


def values(text: str, name: str) -> dict[str, float]:
    """By its labels, as they are written."""
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2])
            for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))}


# The text

def test_a_stock_host(fake: Fake) -> None:
    fake.state(2000, 400, 800)
    text = watch.export(fake.host, None, 100.0)
    labels = '{domain="a-rather-long-name",vcpu="%d"}'
    assert values(text, "pvsync_vcpu_wait_seconds_total") == {
        labels % 0: 1.0, labels % 1: 1.0}
    assert values(text, "pvsync_info") == {
        '{version="6.1.0-28-amd64",mark="none",extend="none",yield="none"}': 1}
    assert values(text, "pvsync_yields_total") == {
        '{domain="a-rather-long-name",outcome="taken"}': 100,
        '{domain="a-rather-long-name",outcome="refused"}': 300}
    assert values(text, "pvsync_preemptions_total") == {
        '{domain="a-rather-long-name",reason="unknown"}': 800}
    assert "pvsync_grants_total" not in text
    known = {metric.name for metric in metrics.METRICS}
    assert {line.split()[2] for line in text.splitlines() if line[0] == "#"} <= known


def test_costop_goes_on_from_one_export_to_the_next(fake: Fake, tmp_path: Path) -> None:
    def after(ms: int, now: float) -> float:
        fake.state(ms, 0, 0)
        (value,) = values(watch.export(fake.host, tmp_path, now),
                          "pvsync_costop_seconds_total").values()
        return value

    assert after(0, 100.0) == 0
    assert after(10_000, 110.0) == pytest.approx(0.25 * 10 * 2)
    assert after(20_000, 120.0) == pytest.approx(10)
    assert after(1000, 130.0) == pytest.approx(10), "the VM has started again"
    assert after(9000, 9000.0) == pytest.approx(10), "too long ago"
    assert after(9100, 8000.0) == pytest.approx(10), "the clock went back"


def test_two_vms_of_one_name(fake: Fake) -> None:
    for pid in (20, 30):
        fake.put(f"proc/{pid}/cmdline", "qemu\0-name\0a\"b\\c\0")
        fake.put(f"proc/{pid}/comm", "qemu\n")
        fake.put(f"debug/kvm/{pid}-11/exits", "5\n")
    text = watch.export(fake.host, None, 1.0)
    assert set(values(text, "pvsync_domain_vcpus")) == {
        '{domain="a-rather-long-name"}', r'{domain="a\"b\\c (20)"}', r'{domain="a\"b\\c (30)"}'}
    told = metrics.parse(text)
    assert metrics.parse(metrics.text(told)) == told and len(told) > 5


def test_a_file_that_cannot_be_written(fake: Fake, tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    watch.export(fake.host, tmp_path, 1.0)
    before = (tmp_path / watch.NAME).read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LabError, match=r"cannot be written \(No space left on device\)"):
        watch.export(fake.host, tmp_path, 2.0)
    assert (tmp_path / watch.NAME).read_text() == before
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == [watch.NAME]


def test_what_others_have_put_in_its_place(fake: Fake, tmp_path: Path) -> None:
    """Root reads and writes in a folder of the node exporter's user: only its own file counts."""
    file, precious = tmp_path / watch.NAME, tmp_path / "precious"
    watch.export(fake.host, tmp_path, 1.0)
    told = file.read_text().replace("pvsync_costop_seconds_total{", "pvsync_was{")
    lies = told + 'pvsync_costop_seconds_total{domain="a-rather-long-name"} 1e9\n'

    def written(mode: int) -> None:
        file.write_text(lies)
        file.chmod(mode)

    def larger() -> None:
        written(0o644)
        os.truncate(file, watch.MOST + 1)
    precious.write_text(lies)
    cases: list[tuple[Callable[[], None], bool]] = [
        (lambda: written(0o644), True), (lambda: written(0o666), False),
        (lambda: os.mkfifo(file), False), (larger, False),
        (lambda: file.symlink_to(precious), False)]
    for put, counts in cases:
        file.unlink()
        put()
        text = watch.export(fake.host, tmp_path, 2.0)
        assert file.read_text() == text and not file.is_symlink()
        assert values(text, "pvsync_costop_seconds_total") == {
            '{domain="a-rather-long-name"}': 1e9 if counts else 0}
    assert precious.read_text() == lies
    file.unlink()
    file.mkdir()
    with pytest.raises(LabError, match=rf"{watch.NAME} cannot be written \(Is a directory\)"):
        watch.export(fake.host, tmp_path, 2.0)


def test_the_command(fake: Fake, monkeypatch: pytest.MonkeyPatch,
                     capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [
            "pvsync", "export", *words, "--debugfs", str(fake.host.debugfs), "--proc",
            str(fake.host.proc), "--sys", str(fake.host.sys)])
        return (cli._guarded(), *capsys.readouterr())

    assert "pvsync_host_cpus 2\n" in run()[1]
    assert run("--textfile", str(tmp_path)) == (0, "", "")
    assert "pvsync_host_cpus 2\n" in (tmp_path / watch.NAME).read_text()
    assert run("--textfile", str(tmp_path / "none"))[0] == 1
    assert run("--print", "alerts", "--textfile", str(tmp_path))[0] == 2
    assert json.loads(run("--print", "dashboard")[1])["panels"]


def test_every_metric_has_what_its_kind_asks_for() -> None:
    for metric in metrics.METRICS:
        assert metric.name.startswith("pvsync_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert bool(metric.title) == bool(metric.query)
    shown = json.dumps(json.loads(watch.dashboard()))
    assert {m.name for m in metrics.METRICS if m.name in shown} >= {
        m.name for m in metrics.METRICS if m.kind == "counter"}


# Prometheus on a made-up host, of which each value is known


def grow(fake: Fake, folder: Path, over: threading.Event) -> None:
    """Have counters grow with time."""
    began = time.time()
    while not over.wait(0.2):
        now = time.time()
        ms = round(1000 * (now - began))
        fake.state(ms, ms, 2 * ms)
        fake.put("sys/fs/cgroup/qemu.slice/vm/cpu.stat", f"throttled_usec {ms * 100}\n")
        counts(fake, ms)
        watch.export(fake.host, folder, now)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It scrapes a node exporter, which has a folder for texts."""
    root = tmp_path_factory.mktemp("prometheus")
    folder, over, port = root / "textfiles", threading.Event(), free_port()
    folder.mkdir()
    writer = threading.Thread(target=grow, args=(Fake(root), folder, over))
    with process(tool("prometheus-node-exporter"), "--collector.disable-defaults",
                 "--collector.textfile", f"--collector.textfile.directory={folder}",
                 f"--web.listen-address=127.0.0.1:{port}"):
        writer.start()
        try:
            with prometheus(root, f"count_over_time(pvsync_host_cpus{RANGE}) > 8",
                            f"127.0.0.1:{port}") as running:
                yield running
        finally:
            over.set()
            writer.join()


EXPECTED = {
    "vCPUs for each CPU": 1.0, "Held up: waiting for a CPU (as %RDY)": 0.5, "Running": 0.5,
    "Co-stop, an estimate: at most (as %CSTP)": 0.25, "Preemptions": 1000,
    "Unmarked, of the preemptions": 2 / len(preemptions.KINDS), "Loans": 1000,
    "Borrowed": 0.005, "TLB requests": 1000, "Exits": 2000, "Directed yields": 250,
    "Halt polling": 0.001, "Held back by a limit": 0.05}
"""Of each panel the smallest of its values, while the host's clock goes as fast as ours."""
RATIOS = ("vCPUs for each CPU", "Unmarked, of the preemptions")
"""They do not depend on how fast it goes: this machine may be busy."""


def asked(panel: dict[str, Any]) -> str:
    """The query of a panel."""
    return str(panel["targets"][0]["expr"]).replace("[$__rate_interval]", RANGE)


def test_every_query_of_the_dashboard_has_a_sane_value(server: Server) -> None:
    (clock,) = server.ask(f"rate(pvsync_export_timestamp_seconds{RANGE})")
    assert clock > 0.1, "the counters have hardly grown: this machine stands still"
    panels = json.loads(watch.dashboard())["panels"]
    assert {panel["title"] for panel in panels} == set(EXPECTED)
    for panel in panels:
        query = asked(panel)
        told = server.ask(query)
        rate = clock if panel["title"] not in RATIOS else 1.0
        assert told and min(told) / rate == pytest.approx(EXPECTED[panel["title"]], rel=0.1), (
            panel["title"], query, told)


def test_every_alert_is_taken_and_sees_what_it_is_for(server: Server, tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(watch.alerts())
    done = subprocess.run([tool("promtool"), "check", "rules", tmp_path / "alerts.yml"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{len(watch.ALERTS)} rules found" in done.stdout, done
    firing = {alert.name for alert in watch.ALERTS
              if server.ask(alert.expression.replace("[5m]", RANGE))}
    assert firing == {alert.name for alert in watch.ALERTS} - {"PvsyncNotExported"}
    stale = next(alert for alert in watch.ALERTS if alert.name == "PvsyncNotExported")
    assert server.ask(stale.expression.replace(">", "<"))
