# SPDX-License-Identifier: GPL-2.0-only
"""CPU time in windows: reading it, and figures by values computed by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.core.model import GuestRun, RunRecord
from lab.observe import windows
from lab.observe.windows import Samples

NAMES = ("a~2-0", "a~2-1")
RUN = RunRecord("r", 0, 0, 0, "a:2", "w", 2, 2, 2, True, "",
                (GuestRun(NAMES[0], 10.0, 12.5, 2.5, 0, ""),
                 GuestRun(NAMES[1], 10.05, 12.0, 1.95, 0, "")), 1.0)
SAMPLES: list[list[float | int | None]] = [
    [10.04, 1000, 7, 500, 0], [10.05, 2000, 7, 900, 0], [10.15, 52_000, 9, 70_900, 0],
    [10.25, 152_000, 12, 100_900, 1], [12.05, 999_000, 12, 999_000, 1]]
TEXT = windows.as_text(NAMES, SAMPLES)


def test_a_text_and_back() -> None:
    assert TEXT.splitlines()[:2] == [
        "seconds a~2-0:usage_usec a~2-0:extend_granted a~2-1:usage_usec a~2-1:extend_granted",
        "10.040000 1000 7 500 0"]
    assert windows.parse(TEXT, RUN) == Samples(
        (10.05, 10.15, 10.25), ((2000, 900), (52_000, 70_900), (152_000, 100_900)), (7, 9, 13))


def test_a_host_that_does_not_extend() -> None:
    text = windows.as_text(NAMES, [[one[0], one[1], None, one[3], None] for one in SAMPLES])
    assert text.splitlines()[1] == "10.040000 1000 - 500 -"
    seen = windows.parse(text, RUN)
    assert seen and seen.granted is None and len(seen.times) == 3


def changed(place: int, column: int, value: float | None) -> str:
    samples = [list(one) for one in SAMPLES]
    samples[place][column] = value
    return windows.as_text(NAMES, samples)


@pytest.mark.parametrize("text", [
    "", "\n", TEXT.partition("\n")[2], TEXT.replace("a~2-1:usage", "a~2-2:usage"),
    TEXT.replace(" 52000 ", " 52x00 "), TEXT.replace(" 52000 ", " 52000 1 "),
    TEXT.replace(" 52000 ", " -52000 "), TEXT.replace("10.15", "1e1"), TEXT.replace(" 52000 ", " "),
    TEXT.replace("\n10.25", "\n\n10.25"), TEXT.replace(" 70900 0", " 70900 0 99999"),
    changed(2, 1, None), changed(2, 1, 1999), changed(2, 0, 10.05), changed(2, 0, 10.3),
])
def test_nothing_is_taken_from_damage(text: str) -> None:
    assert windows.parse(text, RUN) is None


def test_grants_that_went_backwards_are_unknown() -> None:
    for text in (changed(2, 2, 6), changed(2, 2, None)):
        seen = windows.parse(text, RUN)
        assert seen and seen.granted is None and len(seen.used) == 3


def test_a_text_that_was_cut_is_shorter() -> None:
    seen = windows.parse(TEXT[:TEXT.index("10.25") + 8], RUN)
    assert seen and seen.times == (10.05, 10.15)


def test_runs_without_windows() -> None:
    alone = replace(RUN, vms=1, guests=RUN.guests[:1])
    assert windows.parse(windows.as_text(NAMES[:1], [one[:3] for one in SAMPLES]), alone) is None
    never = replace(RUN, guests=tuple(replace(one, ended=None) for one in RUN.guests))
    assert windows.parse(TEXT, never) is None


def test_differences() -> None:
    seen = Samples((1.0, 1.1, 1.3), ((0, 0, 0), (30_000, 10_000, 40_000),
                                     (80_000, 70_000, 60_000)), (0, 3, 8))
    assert windows.differences(seen) == pytest.approx([0.005, 0.01])
    assert windows.moments(seen) == pytest.approx([0.1, 0.3])


def series(*apart_ms: int, granted: tuple[int, ...] | None = None) -> Samples:
    """Two VMs; the first gets 50 ms a window and the second so much less."""
    used = [(0, 0)]
    for less in apart_ms:
        used.append((used[-1][0] + 50_000, used[-1][1] + 50_000 - 1000 * less))
    return Samples(tuple(5 + place / 10 for place in range(len(used))), tuple(used), granted)


def test_figures() -> None:
    seen = windows.figures([series(10, -30, 10, granted=(1, 3, 3, 7)), series(4, 4, 4), None,
                            series(-2, -2, 4)])
    assert seen is not None
    assert [seen.number, seen.seconds] == pytest.approx([3, 0.3])
    assert (seen.mean_ms, seen.most_ms) == pytest.approx((4, 4))
    assert seen.end_ms == pytest.approx(0, abs=1e-9) and seen.granted == 2
    assert seen.worst == pytest.approx(12 / 144)
    less = windows.figures([series(10, -30, 10), series(1, 1, 1)])
    assert less and less.worst == pytest.approx(-10 / 155)
    one = windows.figures([series(10, -30, 10)])
    assert one and one.end == one.worst == pytest.approx(-10 / 155) and one.granted is None
    assert (one.mean_ms, one.most_ms) == pytest.approx((50 / 3, 30))


@pytest.mark.parametrize("runs", [[], [None], [Samples((1, 2), ((5, 5), (5, 5)), None)]])
def test_no_cpu_time_has_no_figures(runs: list[Samples | None]) -> None:
    assert windows.figures(runs) is None


@pytest.mark.parametrize("damage", [str.upper, lambda text: text.replace(" ", "  ")])
def test_other_forms_are_refused(damage: Callable[[str], str]) -> None:
    assert windows.parse(damage(TEXT), RUN) is None
