# SPDX-License-Identifier: GPL-2.0-only
"""How many VMs a host carries: crossings of made-up curves, and what is said of them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.core.errors import UsageError
from lab.report import carried, published, swept, swept_page
from lab.report.swept import Carried, Swept
from lab.sweep import grid, keep, page
from lab.sweep.capacity import crossing
from lab.sweep.store import Store
from tests.lab import sweeping
from tests.lab.test_sweep import FILE_HERE, Fake
from tests.lab.test_swept import folder, found, made

__all__ = ["folder"]
FILE = """
about = "a service"
schemes = ["pvqspinlock", "placebo", "ecs-count", "slice-1ms"]
workloads = ["dedup-short"]
vms = [1, 2, 4]
vcpus = [4]
pcpus = [4]
seeds = 5
"""
LIMIT = "[limit]\ndedup-short = [20.0]\n"
WORDS = {"placebo": "placebo", "ecs-count": "pvsync.ecs", "slice-1ms": "vcpu.slice_us"}
"""In what a scheme has of its own."""
CURVE = {1: 10.0, 2: 20.0, 4: 80.0}


@pytest.mark.parametrize(("limit", "better", "vms"), [
    (10.0, "lower", 1.0), (14.142135623730951, "lower", 1.5), (20.0, "lower", 2.0),
    (40.0, "lower", 3.0), (80.0, "lower", math.inf), (9.9, "lower", 0.0),
    (80.1, "higher", 0.0)])
def test_where_a_curve_passes_its_limit(limit: float, better: Any, vms: float) -> None:
    assert crossing(CURVE, limit, better) == pytest.approx(vms)


def test_rates_pass_it_downwards() -> None:
    assert crossing({vms: 1 / figure for vms, figure in CURVE.items()}, 1 / 40, "higher") == (
        pytest.approx(3.0))


def test_a_curve_that_comes_back_has_passed_it() -> None:
    assert crossing({1: 10.0, 2: 40.0, 4: 10.0}, 20.0, "lower") == pytest.approx(1.5)


def figures(factors: dict[str, float], noise: float = 0.01) -> Callable[..., float]:
    """Ten for each VM, times a factor of the scheme's; seeds differ by so much."""
    def figure(scheme: dict[str, Any], _workload: str, vms: int, seed: int) -> float:
        words = " ".join((*scheme["guest"], *scheme["host"]))
        factor = next((factors[name] for name, word in WORDS.items()
                       if word in words and name in factors), 1.0)
        return 10.0 * vms * factor * (1 + noise * (seed % 3))
    return figure


def of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factors: dict[str, float],
       text: str = FILE + LIMIT) -> Swept:
    monkeypatch.setattr(sweeping, "figure", figures(factors))
    return found(tmp_path, text)


def only(kept: Swept, setting: str) -> Carried:
    one, = (one for one in kept.carried if one.setting == setting)
    return one


def test_a_setting_that_carries_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = of(tmp_path, monkeypatch, {"ecs-count": 0.8, "placebo": 1.01})
    stock, better = only(kept, "pvqspinlock"), only(kept, "ecs-count")
    assert stock.vms == pytest.approx(1.98, abs=0.02) and stock.seeds == 5
    assert better.vms == pytest.approx(2.63, abs=0.03) and better.ratio == pytest.approx(
        1.32, abs=0.01)
    said, *_ = swept_page.said(kept)
    assert said.startswith("Until dedup-short passes 20 s, 4 CPUs carry 1.98 VMs [")
    assert said.endswith("], which saves one host in 4.")
    assert "with pvqspinlock; ecs-count carries 1.32 times as many [" in said
    assert "slice-1ms" not in said and "placebo" not in said


def test_no_difference_smaller_than_the_placebos(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = of(tmp_path, monkeypatch, {"ecs-count": 0.9, "placebo": 0.8})
    said, *_ = swept_page.said(kept)
    assert said.endswith("with pvqspinlock; no setting is shown to carry more or fewer.")


def test_a_setting_that_carries_fewer_saves_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = of(tmp_path, monkeypatch, {"ecs-count": 1.3})
    said, *_ = swept_page.said(kept)
    assert "; ecs-count carries 0.8" in said and "saves" not in said


def test_curves_without_a_crossing_are_not_compared(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 3 alone is within the limit, with the most VMs; slice-1ms is beyond it with one."""
    kept = of(tmp_path, monkeypatch, {"ecs-count": 0.5, "slice-1ms": 3.0})
    within, beyond = only(kept, "ecs-count"), only(kept, "slice-1ms")
    assert (within.vms, within.ratio, within.within, within.beyond) == (None, None, 1, 0)
    assert (beyond.vms, beyond.ratio, beyond.within, beyond.beyond) == (None, None, 0, 5)
    rows = dict(carried.grid(kept).rows)
    place = "dedup-short 20 s, VMs of 4 vCPUs on 4, zen4:"
    assert rows[f"{place} ecs-count"] == ["at least 4 in 1 of 5 seeds", "-"]
    assert rows[f"{place} slice-1ms"] == ["fewer than 1 in 5 of 5 seeds", "-"]


def test_a_placebo_without_a_number_lets_nothing_be_claimed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = of(tmp_path, monkeypatch, {"ecs-count": 0.8, "placebo": 0.4})
    said, *_ = swept_page.said(kept)
    assert said.endswith("; no setting is shown to carry more or fewer; the placebo has no number"
                         " to compare.")


def test_a_setting_that_lacks_a_run_is_not_compared(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed that failed may be the one that was slow; with a run of stock lacking, none is."""
    monkeypatch.setattr(sweeping, "figure", figures({"ecs-count": 0.8}))
    for lacking, compared in (("ecs-count", {"placebo"}), ("pvqspinlock", set())):
        folder = tmp_path / lacking
        folder.mkdir()
        sweep, out = sweeping.load(folder, FILE + LIMIT), folder / "out"
        Fake(sweep, Store(out)).make([run for run in grid.runs(sweep, sweeping.BUILD) if (
            run.setting.label, run.seed, run.vms) != (lacking, 3, 2)])
        kept = keep.of(sweep, out, FILE_HERE)
        one = only(kept, lacking)
        assert (one.seeds, one.vms, one.ratio) == (4, None, None)
        assert (only(kept, "placebo").ratio is not None) == bool(compared)
        assert "no setting is shown" in swept_page.said(kept)[0]


def test_two_seeds_show_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = of(tmp_path, monkeypatch, {"ecs-count": 0.8},
              (FILE + LIMIT).replace("seeds = 5", "seeds = 2"))
    assert only(kept, "ecs-count").strict is None
    assert "no setting is shown" in swept_page.said(kept)[0]


def test_it_is_published_and_drawn(folder: Path, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "figure", figures({"ecs-count": 0.8}))
    out = made(tmp_path, FILE + LIMIT)
    published.publish(out, "service", folder)
    text = (folder / "sweep-service.md").read_text()
    assert "**VMs that a host carries until the figure passes the limit**" in text
    assert "; dots: limits" in (folder / "sweep-service.svg").read_text()
    assert published.render(folder) == []
    page.make(sweeping.load(tmp_path, FILE + LIMIT), out, FILE_HERE)
    assert "How many VMs a host carries" in (out / page.FILE).read_text()


def test_limits_are_added_to_rows_that_there_are(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "figure", figures({}))
    out = made(tmp_path, FILE)
    assert swept.read(out / swept.FILE).carried == ()
    page.make(sweeping.load(tmp_path, FILE + LIMIT), out, FILE_HERE)
    assert len(swept.read(out / swept.FILE).carried) == 4


@pytest.mark.parametrize(("text", "message"), [
    (FILE + "[limit]\nredis = [3]\n", "limit names redis, which workloads does not"),
    (FILE + "[limit]\ndedup-short = []\n", "must name at least one"),
    (FILE + "[limit]\ndedup-short = [3, 3.0]\n", "none twice"),
    (FILE + "[limit]\ndedup-short = [0]\n", "a limit is a figure above 0"),
    (FILE + "[limit]\ndedup-short = [inf]\n", "must be a finite number"),
    (FILE + "[limit]\ndedup-short = [nan]\n", "must be a finite number"),
    (FILE.replace("[1, 2, 4]", "[2]") + LIMIT, "at least two numbers of vms"),
])
def test_a_wrong_limit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sweeping.load(tmp_path, text)
