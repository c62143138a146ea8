# SPDX-License-Identifier: GPL-2.0-only
"""Everything that reads a text which a user, a guest, a host or a full disk may have damaged.

Either the value comes out that was written, or "unknown", or the lab's own error; never
another exception and never another value. `--examples N` makes up more.
"""

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.build import base, series
from lab.core import paths
from lab.core.errors import LabError, UsageError
from lab.machine import console
from lab.plan import config, kconfig
from lab.run import parse
from tests.lab.damage import any_or_damaged, place

__all__ = ["place"]

DATA = Path(__file__).parent / "data"
LINE = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b""))


# Consoles


@given(st.binary())
def test_any_console(data: bytes) -> None:
    found = console.scan(data)
    assert all(0 < len(one.text) <= 160 for one in found)
    assert [one.line for one in found] == sorted({one.line for one in found})


@given(st.lists(LINE), st.lists(LINE), st.sampled_from([b"", b"\x1bc", b"\x1b[0m", b"\0\0"]))
def test_trouble_is_found_among_anything(before: list[bytes], after: list[bytes],
                                         sign: bytes) -> None:
    text = b"\n".join([*before, sign + b"BUG: scheduling while atomic", *after])
    assert "BUG: scheduling while atomic" in {one.text for one in console.scan(text)}


@given(st.lists(st.one_of(LINE, st.sampled_from([
    b"[  1.0] BUG: bad", b"[  1.0] WARNING: Spectre", b"Oops", b"\xe2\x82\xac"]))),
    st.lists(st.integers(0, 400)))
def test_a_console_that_is_read_in_pieces(lines: list[bytes], cuts: list[int]) -> None:
    text, tail, found, begin = b"\n".join(lines), b"", set(), 0
    for end in [*sorted(cuts), len(text)]:
        some, tail = console.follow(tail, text[begin:end])
        found |= {one.text for one in some}
        begin = max(begin, end)
    assert found >= {one.text for one in console.scan(text)}


# Workloads' outputs


RECORDED = [(name, file) for name, file in (
    ("hackbench", "hackbench.out"), ("hackbench", "hackbench-noise.out"),
    ("sysbench-threads", "sysbench-threads.out"), ("dbench-tmpfs", "dbench-tmpfs.out"),
    ("stress-futex", "stress-futex.out"), ("stress-tlb", "stress-tlb.out"),
    ("web-server", "wrk.out"), ("locktorture", "locktorture.out"))]


@pytest.mark.parametrize(("name", "file"), RECORDED)
def test_outputs_cut_at_every_byte(name: str, file: str) -> None:
    workload, data = config.workloads()[name], (DATA / file).read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte in b"\r\n"]
    whole = {parse.figure(workload, parse.as_text(data[:end]), None).value for end in ends}
    assert any(whole)
    for end in range(len(data)):
        found = parse.figure(workload, parse.as_text(data[:end]), None)
        assert found.value in whole and (found.value is None) == bool(found.reason), end


@given(st.data(), st.sampled_from(RECORDED))
def test_damaged_outputs(data: st.DataObject, recorded: tuple[str, str]) -> None:
    name, file = recorded
    text = parse.as_text(data.draw(any_or_damaged((DATA / file).read_bytes())))
    found = parse.figure(config.workloads()[name], text, None)
    assert found.reason.isprintable()
    assert found.reason if found.value is None else 0 < found.value < math.inf


@pytest.mark.parametrize("text", ["1_0", "١", "nan", "inf", "0x1", "1,5", "", "1e999", "-"])
def test_what_is_no_figure(text: str) -> None:
    workload = replace(config.workloads()["hackbench"], pattern=r"Time: (?P<value>.*)")
    assert parse.figure(workload, f"Time: {text}\n", None).value is None
    optional = replace(workload, pattern=r"Time: (?P<value>x)?")
    assert parse.figure(optional, "Time: 5\n", None).value is None


# What users write


FILES = [*sorted(config.EXPERIMENTS.glob("*.toml"))[:4],
         *sorted(config.WORKLOADS.glob("*.toml"))[:4],
         config.SCHEMES, kconfig.CONFIGS / "variants.toml", paths.KERNEL / "BASE",
         *series.patch_files(series.SERIES)[:2]]


@given(st.data(), st.sampled_from(FILES))
def test_files_that_users_write(place: Path, data: st.DataObject, good: Path) -> None:
    folder = place / good.parent.name
    folder.mkdir(exist_ok=True)
    file = folder / good.name
    file.write_bytes(data.draw(any_or_damaged(good.read_bytes())))
    with suppress(LabError):
        if good.parent == config.EXPERIMENTS:
            config.experiment(str(file))
        elif good.parent == config.WORKLOADS:
            config.workloads(folder)
        elif good.parent == series.SERIES:
            series.parse_patch(file)
        else:
            {"schemes.toml": config.schemes, "variants.toml": kconfig.variants,
             "BASE": base.read_base}[good.name](file)
    file.unlink()


@given(st.text())
def test_any_kconfig(text: str) -> None:
    with suppress(UsageError):
        settings = kconfig.parse_fragment(text, "x")
        again = kconfig.parse_fragment(kconfig.allconfig(settings), "y")
        assert {name: one.value for name, one in again.items()} == {
            name: one.value for name, one in settings.items()}
