# SPDX-License-Identifier: GPL-2.0-only
"""The files that `report` makes."""

import hashlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lab import paths, plots, report
from lab.errors import UsageError
from lab.model import Workload
from lab.summary import load, summarize
from tests.lab.synthetic import HACKBENCH, THROUGHPUT, Synthetic

MADE = ("summary.json", "table.txt", "report.html", "plots/hackbench-figure.svg",
        "plots/hackbench-slowdown.svg", "plots/hackbench-fairness.svg")


def sums(directory: Path) -> dict[str, str]:
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in MADE}


def test_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    Synthetic(reps=2).write(tmp_path)
    report.make(tmp_path)
    first = sums(tmp_path)
    code = f"from lab import report; from pathlib import Path; report.make(Path({str(tmp_path)!r}))"
    # Another process with another hash seed, time zone and locale.
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C",
                   "PYTHONPATH": str(paths.ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert sums(tmp_path) == first


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
    plots._series(axes, summary, values)
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
