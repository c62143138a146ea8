# SPDX-License-Identifier: GPL-2.0-only
"""Which ratios move with which number of a machine model."""

import json
import random
from pathlib import Path

import pytest

from lab.core.errors import UsageError
from lab.plan import machine_model
from lab.report import sensitivity
from lab.report.sensitivity import Moved, Variant
from lab.report.summary import Summary, load, summarize
from tests.lab.synthetic import Synthetic


def made(directory: Path, **factors: float) -> Summary:
    """Results in which a scheme takes so many times as long as `a`."""
    def value(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
        return vms * {"a": 1.0, "copy": 1.0, **factors}[scheme.replace(":2", "")]

    return summarize(load(Synthetic(("a", "a:2", *factors), value=value).write(directory)))


def results(tmp_path: Path, *others: dict[str, float]) -> list[tuple[Variant, Summary]]:
    made_of = [(Variant(), made(tmp_path / "base", b=0.8, c=0.5))]
    return made_of + [(variant, made(tmp_path / variant.folder, **one)) for variant, one in zip(
        sensitivity.variants()[1:], others, strict=False)]


def rows(tmp_path: Path, *others: dict[str, float]) -> list[Moved]:
    return sensitivity.compared(results(tmp_path, *others))


def test_each_number_is_halved_and_doubled() -> None:
    names = [variant.name for variant in sensitivity.variants()]
    assert names[0] == "as it is" and len(names) == 1 + 2 * len(sensitivity.KEYS)
    for variant in sensitivity.variants(sensitivity.KEYS[1:]):
        model = machine_model.load(variant.model("zen4"))
        assert (model == machine_model.load("zen4")) == (not variant.key)
    assert {*sensitivity.KEYS} <= {*machine_model.SCALED}


def test_a_number_at_its_bound_is_left_out() -> None:
    """An instruction of zen4 takes 1 ns, the least that there is: by default, too."""
    wanted, left = sensitivity.playable("zen4")
    assert [one for one in sensitivity.variants() if one not in wanted] == [
        Variant("instruction", 0.5)]
    assert len(left) == 1 and "instruction.log2_ns must be from 0" in left[0]
    assert sensitivity.playable("emulator") == (sensitivity.variants(), [])


@pytest.mark.parametrize(("machine", "keys", "message"), [
    ("zen5", ("exit",), "no machine model 'zen5'"),
    ("zen4", ("exits",), r"'exits\*0.5' is not KEY\*FACTOR"),
])
def test_what_there_is_none_of_is_refused(machine: str, keys: tuple[str, ...],
                                          message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sensitivity.playable(machine, keys)


def test_what_moves_far_is_named(tmp_path: Path) -> None:
    found = rows(tmp_path, {"b": 0.8 * 1.2, "c": 0.5 * 1.05}, {"b": 0.8, "c": 0.5})
    far = [(row.variant, row.scheme, row.vms) for row in found if row.far]
    assert far == [("instruction*0.5", "b", vms) for vms in (1, 2, 3)]
    one = next(row for row in found if row.far)
    assert (one.base, one.ratio, one.moved) == pytest.approx((0.8, 0.96, 0.2))


def test_what_the_placebo_does_too_is_not(tmp_path: Path) -> None:
    def value(scheme: str, vms: int, guest: int, rng: random.Random) -> float:
        return {"a": 1.0, "a:2": 1.3, "b": 1.2}[scheme]

    base = made(tmp_path / "base", b=1.0)
    moved = summarize(load(Synthetic(("a", "a:2", "b"), value=value).write(tmp_path / "moved")))
    found = sensitivity.compared([(Variant(), base), (Variant("exit", 2), moved)])
    assert [row.chance for row in found] == pytest.approx([0.3] * len(found))
    assert not any(row.far for row in found)


def test_the_table_and_the_file(tmp_path: Path) -> None:
    found = sensitivity.of(results(tmp_path, {"b": 0.4, "c": 0.5}))
    text = sensitivity.write(found, tmp_path)
    assert "0.40!" in text and "! moved by more than 10% and the placebo's: 3 of 9." in text
    assert (tmp_path / sensitivity.TABLE).read_text() == text
    kept = json.loads((tmp_path / sensitivity.FILE).read_text())["rows"]
    assert len(kept) == len(found.rows) and kept[0]["variant"] == "instruction*0.5"
    assert sensitivity.read(tmp_path / sensitivity.FILE) == found
