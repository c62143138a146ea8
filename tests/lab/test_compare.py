# SPDX-License-Identifier: GPL-2.0-only
"""Result directories beside each other."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.cli.compare import compare as command
from lab.core.errors import UsageError
from lab.report import compare
from lab.report.compare import Side
from lab.report.summary import load, summarize
from tests.lab.synthetic import THROUGHPUT, Synthetic


def times(factor: float) -> Callable[[str, int, int, random.Random], float]:
    """Of `b` alone; others are alike but for a thousandth."""
    return lambda scheme, vms, _, rng: vms * (factor if scheme == "b" else 1.0) * (
        1 + 1e-3 * rng.random())


def side(directory: Path, factor: float = 1.0, **changes: object) -> Side:
    made = Synthetic(**{"schemes": ("a", "b"), "reps": 1, "boots": 8,  # type: ignore[arg-type]
                        "value": times(factor), **changes})
    return Side(directory.name, summarize(load(made.write(directory))))


def changed(directory: Path, **manifest: object) -> Side:
    """The same directory with another manifest."""
    file = directory / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **manifest}))
    return Side(directory.name, summarize(load(directory)))


def test_one_is_twice_as_fast(tmp_path: Path) -> None:
    (found,) = compare.compare([side(tmp_path / "old"), side(tmp_path / "new", 0.5, seed=2)])
    assert len(found.rows) == 6
    for row in found.rows:
        fast = row.own.scheme == "b"
        assert row.speedup == pytest.approx(2 if fast else 1, rel=2e-3)
        assert row.significant is fast and row.interval
        assert row.interval[0] < row.speedup < row.interval[1]
    for one in found.verdicts:
        assert one.speedup == pytest.approx(2 ** 0.5, rel=2e-3) and one.differs
        assert (one.best.workload, one.worst.workload) == ("b/hackbench", "a/hackbench")
        assert one.best.significant and not one.worst.significant and one.workloads == 2
    assert [one.vms for one in found.verdicts] == [3, 2, 1]


def test_the_first_beside_itself_is_no_difference(tmp_path: Path) -> None:
    one = side(tmp_path / "a")
    (found,) = compare.compare([one, one])
    assert all(row.speedup == 1 and not row.significant for row in found.rows)
    assert not any(each.differs for each in found.verdicts)


def test_a_placebo_takes_the_star(tmp_path: Path) -> None:
    old, new = side(tmp_path / "old"), side(tmp_path / "new", 0.5)
    far = replace(new.summary, cells=tuple(replace(cell, placebo_spread=0.6)
                                           for cell in new.summary.cells))
    for sides in ((old, replace(new, summary=far)), (replace(new, summary=far), old)):
        (found,) = compare.compare(sides)
        assert any(row.significant for row in found.rows) is (sides[1] is old)


def test_text_of_three(tmp_path: Path) -> None:
    for name, factor in (("old", 1.0), ("new", 0.5), ("more", 0.25)):
        side(tmp_path / name, factor, seed=int(100 * factor),
             schemes=("a", "b", "c") if name == "more" else ("a", "b"))
    changed(tmp_path / "new", kernel="6.12.0-other", commit="1" * 40, guest_mem=512)
    made = CliRunner().invoke(command, [str(tmp_path / name) for name in ("old", "new", "more")],
                              catch_exceptions=False)
    text = " ".join(made.output.split())
    assert made.exit_code == 0
    assert ("Warning: kernel differs: old has 6.12.0-pvsync 0123456789ab, new 6.12.0-other."
            in text)
    assert "Warning: guest mem differs: old has 256, new 512." in text
    assert "new (commit 111111111111) over old (commit 0000000); above x1 is better:" in text
    assert "all schemes, 3 VMs: x1.41 on average [1.41, 1.41] over 2 cells, best b/" in text
    assert "scheme VMs old new more new over old more over old" in text
    (row,) = (line for line in made.output.splitlines() if line.split()[:2] == ["b", "2"])
    assert "x2.00 [2.00, 2.00]*" in row and "x4.00 [" in row
    assert not any(line.split()[:1] == ["c"] for line in made.output.splitlines())


@pytest.mark.parametrize(("manifest", "message"), [
    ({"vcpus": 4}, "vcpus is 2 and 4"), ({"pcpus": 8}, "pcpus is 2 and 8"),
    ({"pin": True}, "pin is False and True"),
])
def test_refused_by_numbers(tmp_path: Path, manifest: dict[str, object], message: str) -> None:
    sides = [side(tmp_path / name) for name in "xy"]
    sides[1] = changed(tmp_path / "y", **manifest)
    with pytest.raises(UsageError, match=f"x and y are not comparable: {message}"):
        compare.compare(sides)


@pytest.mark.parametrize(("key", "value", "message"), [
    ("unit", "ms", "the unit of hackbench is 's' and 'ms'"),
    ("command", "hackbench -g 4", "the command of hackbench is"),
    ("neighbour", "burn", "the neighbour of hackbench is '' and 'burn'"),
])
def test_refused_by_workloads(tmp_path: Path, key: str, value: str, message: str) -> None:
    sides = [side(tmp_path / name, vms=(1,)) for name in "xy"]
    (workload,) = json.loads((tmp_path / "y" / "manifest.json").read_text())["workloads"]
    sides[1] = changed(tmp_path / "y", workloads=[{**workload, key: value}])
    with pytest.raises(UsageError, match=message):
        compare.compare(sides)


def test_refused_without_a_cell_in_common(tmp_path: Path) -> None:
    old = side(tmp_path / "old")
    others: list[dict[str, object]] = [{"schemes": ("c", "d")}, {"vms": (4,)},
                                       {"workload": THROUGHPUT}]
    for number, other in enumerate(others):
        with pytest.raises(UsageError, match="old and new have no cell in common"):
            compare.compare([old, replace(side(tmp_path / str(number), 1.0, **other), name="new")])
    with pytest.raises(UsageError, match="two result directories"):
        CliRunner().invoke(command, [str(tmp_path / "old")], catch_exceptions=False)


def test_runs_of_one_boot_are_named(tmp_path: Path) -> None:
    """A star says nothing then of another boot."""
    sides = [side(tmp_path / name, factor, reps=10, boots=1)
             for name, factor in (("one", 1.0), ("other", 2.0))]
    told = [line for line in compare.warnings(compare.compare(sides)) if "are of one boot" in line]
    assert len(told) == 2 and told[1].startswith("other: ")
    apart = side(tmp_path / "third")
    assert not any("are of one boot" in line for line in compare.warnings(compare.compare(
        [apart, side(tmp_path / "fourth")])))
    results = replace(apart.summary.results, manifest=replace(apart.manifest, snapshot=True))
    assert replace(apart.summary, results=results).of_one_boot, "all seeds go on from one"


def test_a_cell_without_a_ratio_is_left_out(tmp_path: Path) -> None:
    """Of a median that is 0 there is none."""
    sides = [side(tmp_path / "one"), side(tmp_path / "none", 0.0)]
    (found,) = compare.compare(sides)
    assert {row.own.scheme for row in found.rows} == {"a"}


def test_settings_that_differ_are_named(tmp_path: Path) -> None:
    sides = [side(tmp_path / name, vms=(1,)) for name in "xy"]
    schemes = json.loads((tmp_path / "y" / "manifest.json").read_text())["schemes"]
    schemes[1]["host"] = {"mark": "exit"}
    sides[1] = changed(tmp_path / "y", schemes=schemes, backend="vt", machine="zen4")
    lines = compare.warnings(compare.compare(sides))
    assert "The settings of b differ." in lines and "The settings of a differ." not in lines
    assert "backend differs: x has tcg, y vt." in lines
    assert "machine differs: x has Some CPU, 2 cores, 8 GiB, y zen4." in lines
