# SPDX-License-Identifier: GPL-2.0-only
"""The strict step from parsed data to dataclasses."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from lab.core.decode import DecodeError, decode, suggest
from lab.core.words import many


@dataclass(frozen=True)
class Inner:
    count: int


@dataclass(frozen=True)
class Outer:
    name: str
    ratio: float
    kind: Literal["a", "b"] = "a"
    items: tuple[Inner, ...] = ()
    maybe: float | None = None
    table: dict[str, str] = field(default_factory=dict)
    either: bool | Literal["x", "y"] = False


def test_everything_at_once() -> None:
    data = {"name": "n", "ratio": 2, "kind": "b", "items": [{"count": 1}, {"count": 2}],
            "maybe": 1.5, "table": {"x": "y"}}
    assert decode(Outer, data) == Outer("n", 2.0, "b", (Inner(1), Inner(2)), 1.5, {"x": "y"})
    assert isinstance(decode(Outer, data).ratio, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 1}, "name must be a string, not an integer"),
        ({"ratio": "1"}, "ratio must be a number, not a string"),
        ({"items": [{"count": True}]}, "items[0].count must be an integer, not a truth value"),
        ({"ratio": True}, "ratio must be a number, not a truth value"),
        ({"kind": "c"}, "kind must be one of a, b, not 'c'"),
        ({"items": [{"count": 1}, {"count": "2"}]}, "items[1].count must be an integer"),
        ({"items": {"count": 1}}, "items must be a list, not a table"),
        ({"items": [3]}, "items[0] must be a table, not an integer"),
        ({"table": {"x": 1}}, "table.x must be a string"),
        ({"table": "x"}, "table must be a table, not a string"),
        ({"nmae": "n"}, "unknown key 'nmae', did you mean 'name'?"),
        ({"maybe": "1"}, "maybe must be a number, not a string"),
        ({"either": "z"}, "either must be true or false, not a string, or either must be one of"
         " x, y, not 'z'"),
        ({"either": None}, "either must be true or false, not null, or"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Outer, {"name": "n", "ratio": 1.0, **change})
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [True, False, "x", "y"])
def test_one_of_several_kinds(value: object) -> None:
    assert decode(Outer, {"name": "n", "ratio": 1.0, "either": value}).either is value


def test_missing_key_and_no_table() -> None:
    with pytest.raises(DecodeError, match="ratio is missing"):
        decode(Outer, {"name": "n"})
    with pytest.raises(DecodeError, match="must be a table, not a list"):
        decode(Outer, [])


def test_later_versions_may_add_keys() -> None:
    assert decode(Inner, {"count": 1, "new": 2}, strict=False) == Inner(1)


def test_suggest() -> None:
    assert suggest("tickt", ["ticket", "pmt"]) == ", did you mean 'ticket'?"
    assert suggest("zzz", ["ticket", "pmt"]) == ""


def test_many() -> None:
    assert [many(number, "CPU") for number in (0, 1, 2, 1024)] == [
        "0 CPUs", "1 CPU", "2 CPUs", "1,024 CPUs"]
