# SPDX-License-Identifier: GPL-2.0-only
"""For all tests that pytest runs."""

import signal
from pathlib import Path

import pytest

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Limits by folder. A signal raises where the test is, so that what it started is ended."""
    if any(config.getoption(name, None) is not None for name in LONG):
        return
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMITS[folder], method="signal"))
