# SPDX-License-Identifier: GPL-2.0-only
"""Shared fixtures. Nothing here starts a machine or touches the real cache."""

import signal
from pathlib import Path

import pytest

# A test run that was started in the background inherits "ignore", and the programs
# that tests start and interrupt would inherit it in turn; a handler is not inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a cache of its own."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("PVSYNC_CACHE", str(cache))
    monkeypatch.delenv("PVSYNC_TREE", raising=False)
    return cache
