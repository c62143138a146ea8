# SPDX-License-Identifier: GPL-2.0-only
"""For all tests that pytest runs.

Tests with the mark `sampled` take long. With `--sample` a commit runs a quarter of them; those with
the same argument of the mark, as they share what takes long, all or none.
"""

import signal
from pathlib import Path

import pytest

from lab.machine import provenance
from tests.sampling import chosen

LEFT = pytest.StashKey[list[str]]()
"""Names of the tests that a commit leaves to others."""
LIMITS = {"lab": 600, "models": 1200, "vmx": 1500, "kernel": 2400}
"""Seconds that a test of a folder may take, its fixtures included, before it has hung.

Those of the kernel take up to 300 on a slow machine, and may have to build one before, or to
wait for another stage that does.
"""
LONG = ("soak", "examples")
"""Options that make tests as long as one likes: only their stage has a limit then."""

# A test run that was started in the background inherits "ignore": Ctrl-C, and the
# runner of all tests, could not end it, and the programs that tests start and interrupt
# would inherit it in turn. A handler is not inherited. Under nohup a hangup still does
# nothing to the tests, but what they start is not under nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", action="store_true",
                     help="of the tests that are sampled, run this commit's share")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "sampled(group): with --sample some commits run it; make soak does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What the options ask for; nothing is skipped silently: what --sample leaves out is named."""
    if any(config.getoption(name, None) is not None for name in LONG):
        return
    _set_limits(items)
    left = _left_out(items) if config.getoption("--sample") else []
    config.hook.pytest_deselected(items=left)
    config.stash[LEFT] = sorted(item.nodeid for item in left)
    items[:] = [item for item in items if item not in left]


def _set_limits(items: list[pytest.Item]) -> None:
    """By folder. A signal raises where the test is, so that what it started is ended."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMITS[folder], method="signal"))


def _left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """The sampled ones whose turn it is not."""
    groups = {item: mark.args[0] if mark.args else item.nodeid
              for item in items if (mark := item.get_closest_marker("sampled"))}
    turn = chosen(groups.values(), provenance.git_commit().removesuffix("-dirty"))
    return [item for item, group in groups.items() if group not in turn]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Names of the tests that --sample has left out."""
    left = config.stash.get(LEFT, [])
    return [f"left to other commits and to make soak: {', '.join(left)}"] if left else []
