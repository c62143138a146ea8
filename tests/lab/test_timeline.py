# SPDX-License-Identifier: GPL-2.0-only
"""The files of a timeline: the page, in a browser too, Perfetto's file and the picture."""

import io
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markupsafe import escape
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By

from lab.core.errors import UsageError
from lab.machine import qemu_trace, vmcb
from lab.machine.vmcb import Names, Vcpu
from lab.observe.vcpu_trace import ON_CPU, Interval, Kind, Window
from lab.report import perfetto, timeline, timeline_picture, traced, waited
from lab.report.timeline import Timeline
from tests.lab.test_vcpu_trace import SPIN, entry, leave, random_trace

EVENTS = 4000
NAMES = Names(tuple(Vcpu(f"{0xa000 + number * 0x1000:#x}", f"ticket-{number // 2}", number % 2)
                    for number in range(4)), vmcb.CERTAIN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replay's, with two VMs of two vCPUs on two CPUs."""
    made = tmp_path_factory.mktemp("replay")
    (made / qemu_trace.FILE).write_text("".join(random_trace(7, EVENTS)))
    (made / "System.map").write_text(f"{SPIN - 16:x} T spin<in>_a_lock\n")
    vmcb.write(made, NAMES)
    return made


@pytest.fixture(scope="module")
def line(folder: Path) -> Timeline:
    made = traced.load(folder, "b0-r0-x", (("commit", "0123"),), folder / "System.map")
    assert made is not None and traced.make(folder, made) == [
        folder / name for name in (waited.FILE, timeline.PAGE, perfetto.FILE,
                                   timeline_picture.FILE)]
    return made


def test_a_trace_of_other_things(tmp_path: Path) -> None:
    assert traced.load(tmp_path, "", (), None) is None
    (tmp_path / qemu_trace.FILE).write_text("apic_local_deliver vector 3\n")
    assert traced.load(tmp_path, "", (), None) is None


def test_a_trace_alone(folder: Path, tmp_path: Path, line: Timeline) -> None:
    """Without names and symbols there still are all bars."""
    assert line.vms == ["ticket-0", "ticket-1"]
    (tmp_path / qemu_trace.FILE).write_text((folder / qemu_trace.FILE).read_text())
    made = traced.load(tmp_path, "", (), tmp_path / "none")
    assert made is not None and made.vms == ["unknown VM"] and made.found == line.found
    assert made.where(SPIN) == f"{SPIN:#x}" and "not known" in timeline.html(made)
    with pytest.raises(UsageError, match="cannot be written"):
        traced.make(tmp_path / "none", made)


def test_a_vcpu_that_only_sleeps(tmp_path: Path) -> None:
    """There is nothing on a CPU, and no time lost."""
    (tmp_path / qemu_trace.FILE).write_text(leave("0xa000", 0, 100, 0x78)
                                            + entry("0xa000", 0, 90_100))
    made = traced.load(tmp_path, "", (), None)
    assert made is not None and (made.window.ns, made.window.lost_ns) == (90_000, 0)
    traced.make(tmp_path, made)
    assert timeline.shares(made, made.shown, made.window)["unknown VM"]["sleeps"] == 100


def test_shares_are_of_all_time(line: Timeline) -> None:
    for found, window in ((line.shown, line.window), (line.found, line.full)):
        for parts in timeline.shares(line, found, window).values():
            assert sum(parts.values()) == pytest.approx(100)
    runs = sum(one.ns for one in line.shown if one.kind is Kind.RUNS)
    made = timeline.shares(line, line.shown, line.window)
    assert sum(parts["runs"] for parts in made.values()) == pytest.approx(
        100 * runs / (2 * line.window.ns))
    waits = next(one for one in timeline.grids(line) if one.caption.startswith("waits"))
    assert waits.columns == ["ticket-0", "ticket-1"]
    total = sum(one.ns for one in line.shown if one.kind is Kind.WAITS) / 1e6
    assert sum(map(float, waits.rows[0][1])) == pytest.approx(total, abs=0.002)


def test_on_how_many_cpus_vms_are(line: Timeline) -> None:
    (grid,) = (one for one in timeline.grids(line) if one.caption.startswith("CPUs of the host"))
    assert [vm for vm, _ in grid.rows] == line.vms
    for _, (vcpus, shown, full) in grid.rows:
        assert vcpus == "2" and 1 <= float(shown) <= 2 and 1 < float(full) < 2


def test_the_page_is_whole(folder: Path, line: Timeline) -> None:
    text = (folder / timeline.PAGE).read_text()
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", text)
    for word in (*map(str, Kind), "spin<in>_a_lock", "0123", NAMES.how, "b0-r0-x"):
        assert str(escape(word)) in text
    assert "<in>" not in text.split("Where the time went")[1]


def test_perfetto(folder: Path, line: Timeline) -> None:
    """In a process a thread does one thing at a time, as the format asks for."""
    made = json.loads((folder / perfetto.FILE).read_text())
    slices = [one for one in made["traceEvents"] if one["ph"] == "X"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in made["traceEvents"]
             if one["name"] == "thread_name"}
    assert {(one["pid"], one["tid"]) for one in slices} == set(names)
    assert sorted(set(names.values())) == ["CPU 0", "CPU 1", "vCPU 0", "vCPU 1"]
    of_vcpus = [one for one in slices if one["pid"] != perfetto.HOST]
    assert len(of_vcpus) == len(line.shown) and made["otherData"]["commit"] == "0123"
    assert made["otherData"]["ticket-1, per cent of its vCPUs' time"].startswith("runs ")
    assert {*map(str, Kind)} < {*made["otherData"]}
    for thread in names:
        own = [one for one in slices if (one["pid"], one["tid"]) == thread]
        for one, after in pairwise(own):
            assert one["ts"] + one["dur"] <= after["ts"] + 1e-6
    assert min(one["ts"] for one in slices) >= 0
    assert max(one["ts"] + one["dur"] for one in slices) <= line.window.ns / 1e3 + 1e-6


def test_what_a_picture_can_show(folder: Path) -> None:
    """Each part shows what took most of it; KVM's work counts as running; like parts are one."""
    length = 600_000_000  # steps of 1 ms
    own = [Interval("a", Kind.RUNS, 0, 2_400_000, 0), Interval("a", Kind.WAITS, 2_400_000,
                                                               4_000_000, 0, 0x60),
           Interval("a", Kind.KVM, 5_000_000, 5_300_000, 0, 0x60),
           Interval("a", Kind.SLEEPS, 5_300_000, 5_500_000, 0, 0x78)]
    assert list(timeline_picture.strips(own, Window(0, length))) == [
        (0, 2, Kind.RUNS), (2, 4, Kind.WAITS), (5, 6, Kind.RUNS)]
    text = (folder / timeline_picture.FILE).read_text()
    assert text.startswith("<svg") and "ticket-1" in text and len(text) < 2_000_000


# A browser


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    """Debian's Chromium without a display, and without a network."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1300,1000", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


def pixels(browser: webdriver.Chrome, colour: str) -> int:
    """Of exactly this colour, in what the browser shows."""
    wanted = tuple(bytes.fromhex(colour[1:]))
    with Image.open(io.BytesIO(browser.get_screenshot_as_png())) as picture:
        return sum(count for count, seen in picture.convert("RGB").getcolors(1 << 24) or ()
                   if seen == wanted)


RANGES = "return Bokeh.documents[0].roots()[0].children.map(one =>" \
    " [one.x_range.start, one.x_range.end])"


@pytest.mark.timeout(300)
def test_a_browser_shows_it(folder: Path, line: Timeline, browser: webdriver.Chrome) -> None:
    """No error of a script, all bars, their colours on the screen; the wheel zooms both."""
    browser.get((folder / timeline.PAGE).as_uri())
    bars = browser.execute_script(
        "return Bokeh.documents[0].roots()[0].children.map(one => Object.fromEntries("
        "one.renderers.map(part => [part.name, part.data_source.get_length()])))")
    count = {str(kind): sum(one.kind is kind for one in line.shown) for kind in Kind}
    assert bars[0] == count and sum(count.values()) > 300
    assert sum(bars[1].values()) == sum(count[kind] for kind in ON_CPU)
    browser.implicitly_wait(20)
    drawing = browser.find_element(By.CSS_SELECTOR, "[data-root-id] > div")
    for kind in (Kind.RUNS, Kind.WAITS, Kind.YIELDED, Kind.SLEEPS):
        assert pixels(browser, timeline.COLOURS[kind]) > 500, kind
    before = browser.execute_script(RANGES)
    assert before == [[0, line.window.ns / 1e6]] * 2
    rows = timeline.EDGE + 5 * timeline.ROW - 70  # pixels from above, among the rows
    ActionChains(browser).scroll_from_origin(
        ScrollOrigin.from_element(drawing, 0, rows - drawing.size["height"] // 2), 0, -600,
    ).pause(1).perform()
    (begin, end), other = browser.execute_script(RANGES)
    assert [begin, end] == other and 0 <= begin < end <= before[0][1]
    assert end - begin < 0.8 * before[0][1]
    assert pixels(browser, timeline.COLOURS[Kind.RUNS]) > 500
    log = [one["message"] for one in browser.get_log("browser")  # type: ignore[no-untyped-call]
           if one["level"] == "SEVERE"]
    assert not log, log
