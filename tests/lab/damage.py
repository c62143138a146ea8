# SPDX-License-Identifier: GPL-2.0-only
"""What hypothesis needs to make up damaged files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

NUMBERS = [b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"9" * 30, b"9" * 5000, b"1_0", b"true",
           b"null", b'""', b"[]", b"{}", b"[" * 9999, b'"\\ud800"']
"""What stands where a number was."""
COUNT = st.integers(0, 10**20 - 1)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """One folder for all examples of a property: pytest's own would be made anew for each."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@st.composite
def damaged(draw: DrawFn, good: bytes) -> bytes:
    """The same with up to three wounds: cut, torn out, overwritten, doubled, other numbers."""
    data = good
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 60)))
        match draw(st.integers(0, 5)):
            case 0:
                data = data[:begin]
            case 1:
                data = data[:begin] + data[end:]
            case 2:
                data = data[:begin] + draw(st.binary(max_size=40)) + data[end:]
            case 3:
                data = data[:end] + data[begin:]
            case 4:
                data = data[:begin] + b"\0" * (end - begin) + data[end:]
            case _:
                data = _other_number(data, begin, draw(st.sampled_from(NUMBERS)))
    return data


def _other_number(data: bytes, begin: int, number: bytes) -> bytes:
    """The first number after `begin` replaced."""
    digits = b"0123456789.-"
    first = next((i for i in range(begin, len(data)) if data[i:i + 1] in digits), len(data))
    last = next((i for i in range(first, len(data)) if data[i] not in digits), len(data))
    return data[:first] + number + data[last:]


def any_or_damaged(good: bytes) -> SearchStrategy[bytes]:
    """Bytes that have nothing to do with it, or what it has become."""
    return st.one_of(st.binary(max_size=300), damaged(good))


@st.composite
def interleaved(draw: DrawFn, one: list[str], other: list[str]) -> list[str]:
    """Lines of both, each in its own order."""
    sides = draw(st.permutations([0] * len(one) + [1] * len(other)))
    lines = (iter(one), iter(other))
    return [next(lines[side]) for side in sides]
