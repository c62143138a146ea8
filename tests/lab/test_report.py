# SPDX-License-Identifier: GPL-2.0-only
"""The files that `report` makes."""

import hashlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lab.core import paths
from lab.core.errors import UsageError
from lab.core.model import Workload
from lab.observe import counters, figures, preemptions
from lab.report import drawing, plots, report
from lab.report.summary import Summary, load, summarize
from tests.lab.synthetic import HACKBENCH, THROUGHPUT, Counted, Synthetic

WAITS = ("plots/hackbench-waits.svg", "plots/hackbench-waittime.svg")
MADE = ("summary.json", "table.txt", "report.html", "plots/hackbench-figure.svg",
        "plots/hackbench-slowdown.svg", "plots/hackbench-fairness.svg")


def sums(directory: Path) -> dict[str, str]:
    names = [name for name in (*MADE, *WAITS) if (directory / name).exists()]
    assert set(MADE) <= set(names)
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names}


def counted(label: str, vms: int) -> Counted:
    """At 1 VM half of ticket's time is spinning; the host helps pmt, and only pmt."""
    spins = label == "ticket"
    return Counted(
        guest={"lock_acquisitions": 1000, "lock_wait_ns": 800_000_000 if spins else 100_000_000,
               "lock_stolen_ns": 250_000_000 if spins else 60_000_000,
               "lock_halted_ns": 50_000_000 if spins else 0, "lock_kicks": 0,
               "not_in_the_list": vms},
        waits={0: (3, 0), 10: (300, 180_000), 24: (4, 60_000_000)} if spins else {9: (50, 20_000)},
        host={"spin_events": 40 * vms if label == "pmt" else 0, "yield_attempted": 0},
        usec=(1_000_000, 3_000_000, 2_000_000)[:vms],
    )


@pytest.mark.parametrize("pin", [False, True])
def test_page_tells_of_tied_vcpus(tmp_path: Path, pin: bool) -> None:
    report.make(Synthetic(reps=1, boots=1, pin=pin).write(tmp_path))
    assert ("each vCPU tied to a pCPU" in (tmp_path / "report.html").read_text()) is pin


@pytest.mark.parametrize("seen", [None, counted])
def test_same_files_give_the_same_bytes(
    tmp_path: Path, seen: Callable[[str, int], Counted] | None
) -> None:
    Synthetic(reps=2, counted=seen).write(tmp_path)
    report.make(tmp_path)
    first = sums(tmp_path)
    code = ("from lab.report import report; from pathlib import Path; "
            f"report.make(Path({str(tmp_path)!r}))")
    # Another process with another hash seed, time zone and locale.
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C",
                   "PYTHONPATH": str(paths.ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert sums(tmp_path) == first


def test_without_a_page_there_is_none(tmp_path: Path) -> None:
    """Nor an old one, nor old plots; table and summary are the same."""
    made = Synthetic(reps=1, boots=1).write(tmp_path)
    report.make(made)
    before = sums(made)
    report.make(made, page=False)
    left = {path.name for path in made.rglob("*") if path.suffix in {".html", ".svg"}}
    assert not left
    for name in ("summary.json", "table.txt"):
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == before[name]
    code = f"import sys; from lab.report import report; from pathlib import Path; " \
           f"report.make(Path({str(made)!r}), False); sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=paths.ROOT)


def test_other_values_give_other_plots(tmp_path: Path) -> None:
    made = [Synthetic(reps=1, boots=1, seed=seed).write(tmp_path / str(seed)) for seed in (1, 2)]
    for directory in made:
        report.make(directory)
    assert not set(sums(made[0]).values()) & set(sums(made[1]).values())


def test_page_is_self_contained(tmp_path: Path) -> None:
    made = Synthetic(reps=2, invalid={("pmt", 3): "g1: <b>rcu stall"})
    report.make(made.write(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert not re.search(r"""(src|href)=["'](?!#)""", page.replace("xlink:href=\"#", ""))
    assert "url(http" not in page and "@import" not in page
    assert "g1: &lt;b&gt;rcu stall" in page and "Invalid runs" in page
    for fact in ("Some CPU, 2 cores, 8 GiB", "QEMU emulator version 11.1.3", "0123456789ab",
                 "2026-01-02T03:04:05Z", "pvsync.lock=pmt", "hackbench -g 2"):
        assert fact in page


@pytest.mark.parametrize("workload", [HACKBENCH, THROUGHPUT])
def test_every_run_is_a_point_and_axes_have_units(tmp_path: Path, workload: Workload) -> None:
    made = Synthetic(workload=workload, reps=3)
    report.make(made.write(tmp_path))
    name = made.workload.name
    svg = (tmp_path / "plots" / f"{name}-figure.svg").read_text()
    root = ET.fromstring(svg)
    uses = [e for e in root.iter() if e.tag.endswith("}use")]
    runs = 3 * 3 * 3 * 2
    assert len(uses) >= runs
    texts = " ".join(e.text or "" for e in root.iter() if e.tag.endswith("}text"))
    assert f"{made.workload.metric} ({made.workload.unit})" in texts
    assert "number of VMs (2 vCPUs each, 2 pCPUs)" in texts
    for label in (*made.schemes, "ideal (pvqspinlock)"):
        assert label in texts


def test_medians_and_quartiles_are_drawn_where_they_are(tmp_path: Path) -> None:
    summary = summarize(load(Synthetic(reps=4, boots=1).write(tmp_path)))
    values = {(label, vms): list(summary.cell(label, "hackbench", vms).values)
              for label in ("pvqspinlock", "ticket", "pmt") for vms in (1, 2, 3)}
    axes = Figure().add_subplot()
    drawing.series(axes, summary, values)
    lines = {str(line.get_label()): line for line in axes.lines}
    for label in ("pvqspinlock", "ticket", "pmt"):
        drawn = [float(y) for y in np.asarray(lines[label].get_ydata())]
        assert drawn == [summary.cell(label, "hackbench", vms).median for vms in (1, 2, 3)]
    ends = [tuple(float(y) for y in np.asarray(line.get_ydata())) for line in axes.lines]
    assert all(np.percentile(cell, [25, 75]).tolist() in [list(end) for end in ends]
               for cell in values.values())


def test_not_valid_is_said(tmp_path: Path) -> None:
    made = Synthetic(reps=1, lost=frozenset({("pmt", 1)}), boots=1).write(tmp_path)
    assert not report.make(made).valid
    assert "Not valid" in (made / "report.html").read_text()


def test_one_vm_only_and_no_values(tmp_path: Path) -> None:
    report.make(Synthetic(vms=(1,), reps=1).write(tmp_path / "one"))
    names = sorted(file.name for file in (tmp_path / "one" / "plots").iterdir())
    assert names == ["hackbench-figure.svg", "hackbench-slowdown.svg"]
    empty = Synthetic().write(tmp_path / "empty")
    (empty / "runs.jsonl").write_text("")
    (empty / "plots").mkdir()
    (empty / "plots" / "old.svg").write_text("left over")
    report.make(empty)
    assert list((empty / "plots").iterdir()) == []
    assert "<svg" not in (empty / "report.html").read_text()


def test_hyphens_in_workload_names_keep_plots_apart(tmp_path: Path) -> None:
    made = Synthetic(workload=replace(HACKBENCH, name="hackbench"), reps=1)
    manifest = made.manifest()
    made.write(tmp_path)
    other = replace(HACKBENCH, name="hackbench-long")
    text = replace(manifest, workloads=(HACKBENCH, other))
    (tmp_path / "manifest.json").write_text(json.dumps(asdict(text)))
    report.make(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3 and "hackbench-long" in page


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    Synthetic(reps=1).write(tmp_path)
    (tmp_path / "plots").write_text("a file where the folder goes")
    with pytest.raises(UsageError, match="cannot be written: File exists"):
        report.make(tmp_path)


def test_observed_experiment(tmp_path: Path) -> None:
    report.make(Synthetic(reps=2, boots=1, counted=counted).write(tmp_path))
    page = (tmp_path / "report.html").read_text()
    cells = re.sub(r"<[^>]+>", " ", page).split()
    for title in ("spinning (% of the CPU time of the VMs)",
                  "what the host did about spinning vCPUs",
                  "the guests&#39; counters at 3 VMs, sums over guests and runs"):
        assert title in page
    assert "ticket 50.0 25.0 25.0" in " ".join(cells)
    assert f"lock_stolen_ns: {counters.descriptions()['lock_stolen_ns']}." in page
    assert "not_in_the_list 18 18 18" in " ".join(cells) and "not_in_the_list:" not in page
    assert "lock_kicks" not in page
    assert page.count("<svg") == 5


def test_lengths_of_waits_are_drawn_with_units(tmp_path: Path) -> None:
    report.make(Synthetic(reps=2, boots=1, counted=counted).write(tmp_path))
    for name, unit in zip(WAITS, ("waits (number)", "share of the time waited (%)"), strict=True):
        root = ET.fromstring((tmp_path / name).read_text())
        texts = [e.text or "" for e in root.iter() if e.tag.endswith("}text")]
        assert {unit, "length of the wait (power of two of TSC cycles)", "pvqspinlock",
                "ticket", "pmt"} <= set(texts)


def drawn_by(summary: Summary) -> dict[str, Figure]:
    """Name of a plot to what it draws."""
    drawn: dict[str, Figure] = {}

    def keep(name: str, caption: str, size: object, draw: Callable[[Figure], None]) -> drawing.Plot:
        draw(drawn.setdefault(name, Figure()))
        return drawing.Plot(name, caption, "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "plot", keep)
        plots.plots(summary)
    return drawn


def test_steps_are_as_high_as_the_sums(tmp_path: Path) -> None:
    made = Synthetic(reps=2, boots=1, counted=counted).write(tmp_path)
    drawn = drawn_by(summarize(load(made)))

    def heights(name: str, label: str) -> dict[float, float]:
        (line,) = (one for one in drawn[name].axes[0].lines if one.get_label() == label)
        pairs = zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
        return {float(x): round(float(y), 3) for x, y in pairs if y}

    runs = 2 * 3
    assert heights("hackbench-waits", "ticket") == {9.5: runs * 300, 23.5: runs * 4}
    assert heights("hackbench-waits", "pmt") == {8.5: runs * 50}
    assert heights("hackbench-waittime", "ticket") == {9.5: 0.299, 23.5: 99.701}
    assert [drawn[f"hackbench-{name}"].axes[0].get_yscale() for name in ("waits", "waittime")] == [
        "log", "linear"]


def flushed(label: str, vms: int) -> Counted:
    """Under tas nobody flushes; else some flushes take vms times as long."""
    long = 2_000_000 if label == "ticket" else 80_000
    pairs = [(0, 0), (900, 90)] + [(long * vms, 9)] * 2
    return Counted(flushes={} if label == "tas" else {label: pairs})


def test_distributions_of_flush_times(tmp_path: Path) -> None:
    made = Synthetic(("tas", "ticket", "pmt"), vms=(1, 3), reps=2, boots=1, counted=flushed,
                     observe="tlb")
    summary = report.make(made.write(tmp_path))
    drawn = drawn_by(summary)
    for vms in (1, 3):
        svg = ET.fromstring((tmp_path / f"plots/hackbench-flushes{vms}.svg").read_text())
        texts = {e.text or "" for e in svg.iter() if e.tag.endswith("}text")}
        assert {"latency of a remote TLB flush (microseconds)", "flushes that took less (%)",
                "ticket", "pmt"} <= texts and "tas" not in texts
        axes = drawn[f"hackbench-flushes{vms}"].axes[0]
        assert (axes.get_xscale(), axes.get_ylim()) == ("log", (0, 100))
        lines = {str(line.get_label()): line for line in axes.lines}
        assert set(lines) == {"ticket", "pmt"}
        for label, long in (("ticket", 2_000_000 * vms), ("pmt", 80_000 * vms)):
            x, y = (np.asarray(data).tolist() for data in lines[label].get_data())
            assert y == pytest.approx([0, 25, 25, 50, 50, 100]) and x[0] == 0.001
            assert x[-2] <= long / 1e3 < x[-1] and x[2] <= 0.9 < x[3]
            assert x == sorted(x)
    page = (tmp_path / "report.html").read_text()
    assert "distribution of the latency of remote TLB flushes at 3 VMs" in page
    assert page.count("<svg") == 5


def preempted(label: str, vms: int) -> Counted:
    """The same kinds in every VM, so many times as there are; tas is not told of."""
    own = {f"preempt_{kind}": 3 * place for place, kind in enumerate(preemptions.KINDS)}
    return Counted(host={} if label == "tas" else {kind: vms * n for kind, n in own.items()})


def test_preemptions_are_stacked_by_kind(tmp_path: Path) -> None:
    made = Synthetic(("tas", "pmt"), vms=(1, 3), reps=2, boots=1, counted=preempted,
                     observe="ecs", value=lambda scheme, vms, guest, rng: rng.choice((2.0, 3.0)))
    summary = report.make(made.write(tmp_path))
    svg = ET.fromstring((tmp_path / "plots/hackbench-preemptions.svg").read_text())
    texts = {e.text or "" for e in svg.iter() if e.tag.endswith("}text")}
    assert {"preemptions of vCPUs (1/s)", "1 VM", "3 VMs", "pmt", *preemptions.KINDS} <= texts
    panels = drawn_by(summary)["hackbench-preemptions"].axes
    for axes, vms in zip(panels, (1, 3), strict=True):
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)
                and bar.get_height() and round(bar.get_x() + 0.35) == 1]
        seen = summary.cell("pmt", "hackbench", vms).observed
        assert seen and seen.preemptions
        heights = [number for number in seen.preemptions[0].kinds.values() if number]
        assert [bar.get_height() for bar in bars] == pytest.approx(heights)
        bottoms = np.concatenate([[0], np.cumsum(heights)[:-1]])
        assert [bar.get_y() for bar in bars] == pytest.approx(bottoms.tolist())
        assert len({bar.get_facecolor() for bar in bars}) == len(bars) == len(heights) == 9
        runs = [one.per_s for one in map(figures.preempted, summary.results.observations(
            "pmt", "hackbench", vms))]
        ends = [float(y) for y in np.asarray(axes.lines[0].get_ydata())]
        assert ends == np.percentile(np.asarray(runs, dtype=float), [25, 75]).tolist()
    assert "preemptions of vCPUs by what they were doing" in (tmp_path / "report.html").read_text()


def windowed(label: str, vms: int) -> Counted:
    """At 2 VMs the first one of pmt gets 3 ms more in every second window."""
    more = 3000 if label == "pmt" else 0
    return Counted(windows=((50_000 + more, *[50_000] * (vms - 1)), (50_000,) * vms) * 5)


def test_windows_are_drawn_over_time(tmp_path: Path) -> None:
    made = Synthetic(("tas", "pmt"), vms=(1, 2), reps=3, boots=1, counted=windowed, window_ms=100,
                     value=lambda *_: 5.0)
    summary = report.make(made.write(tmp_path))
    svg = ET.fromstring((tmp_path / "plots/hackbench-windows.svg").read_text())
    texts = {e.text or "" for e in svg.iter() if e.tag.endswith("}text")}
    assert {"so far (ms)", "in a window (ms)", "time from the start (s)", "tas", "pmt"} <= texts
    upper, lower = drawn_by(summary)["hackbench-windows"].axes
    lines = [{str(line.get_label()): line for line in axes.lines} for axes in (upper, lower)]
    y = [np.asarray(found["pmt"].get_ydata()).tolist() for found in lines]
    assert y[0] == pytest.approx([3, 3, 6, 6, 9, 9, 12, 12, 15, 15])
    assert y[1] == pytest.approx([3, 0] * 5)
    assert np.asarray(lines[0]["tas"].get_ydata()).tolist() == pytest.approx([0] * 10)
    assert np.asarray(lines[0]["pmt"].get_xdata()).tolist() == pytest.approx(
        [n / 10 for n in range(1, 11)])
    assert "in windows of 100 ms" in (tmp_path / "report.html").read_text()


def test_other_arguments_of_the_other_guests_are_told(tmp_path: Path) -> None:
    for name, own, words in (("stock", (), "(others: stock)"),
                             ("own", ("pvsync.ecs=free",), "(others: pvsync.ecs=free )")):
        report.make(Synthetic(reps=1, boots=1, neighbour=own).write(tmp_path / name))
        page = (tmp_path / name / "report.html").read_text()
        assert " ".join(re.sub(r"<[^>]+>", " ", page).split()).count(words) == 2


def test_another_kernel_of_guests_is_told(tmp_path: Path) -> None:
    made = Synthetic(("a", "b"), reps=1, boots=1).write(tmp_path)
    manifest = json.loads((made / "manifest.json").read_text())
    manifest["schemes"][1]["variant"] = "off"
    (made / "manifest.json").write_text(json.dumps(manifest))
    report.make(made)
    assert (made / "report.html").read_text().count("(kernel: off)") == 1


def test_observed_without_any_counter(tmp_path: Path) -> None:
    report.make(Synthetic(reps=1, boots=1, counted=lambda *_: Counted()).write(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3 and page.count("<caption>") == 3
    for file in tmp_path.glob("raw/*/*.txt"):
        file.unlink()
    assert report.make(tmp_path).valid
    assert "compare only with runs that were observed too" in page


def spun(label: str, vms: int) -> Counted:
    """Windows that grow under tas; the kernel of pmt has no epochs."""
    trace = ((8192, 50_000), (9216, 40_000), (7168, 60_000))
    return Counted(epochs=trace if label == "tas" else ())


def test_costs_of_windows_are_drawn(tmp_path: Path) -> None:
    """Those of all VMs and runs together, where there are enough."""
    made = Synthetic(("tas", "pmt"), vms=(2,), reps=2, boots=1, counted=lambda label, vms: Counted(
        epochs=((8200, 50_000), (8190, 30_000), (9216, 80_000), (4096, 1_000))
        if label == "tas" else ((4096, 9_000),)))
    summary = report.make(made.write(tmp_path))
    seen = summary.cell("tas", "hackbench", 2).observed
    assert seen and [(one.window, one.epochs) for one in seen.window_costs] == [
        (4096, 4), (8192, 8), (9216, 4)]
    (axes,) = drawn_by(summary)["hackbench-window-costs-2"].axes
    (line,) = axes.lines
    assert line.get_label() == "tas"
    assert np.asarray(line.get_xydata()).tolist() == [[8192, pytest.approx(4)]]
    (cell,) = (cell for cell in json.loads((tmp_path / "summary.json").read_text())["cells"]
               if cell["scheme"] == "pmt")
    assert cell["observed"]["window_costs"] == [
        {"window": 4096, "epochs": 4, "median": 0.009, "quartiles": [0.009, 0.009]}]


def test_windows_are_drawn_from_epoch_to_epoch(tmp_path: Path) -> None:
    made = Synthetic(("tas", "pmt"), vms=(1, 2), reps=2, boots=1, counted=spun)
    drawn = drawn_by(report.make(made.write(tmp_path)))
    assert {f"hackbench-epochs-{vms}" for vms in (1, 2)} <= set(drawn)
    upper, lower = drawn["hackbench-epochs-2"].axes
    (line,) = upper.lines
    assert line.get_label() == "tas"
    assert np.asarray(line.get_xdata()).tolist() == [1, 2, 3]
    assert np.asarray(line.get_ydata()).tolist() == [8192, 9216, 7168]
    assert np.asarray(lower.lines[0].get_ydata()).tolist() == pytest.approx([5, 4, 6])
