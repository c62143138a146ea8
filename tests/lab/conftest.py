# SPDX-License-Identifier: GPL-2.0-only
"""Shared fixtures. Nothing here starts a machine or touches the real cache."""

from pathlib import Path

import pytest
from hypothesis import settings

EXAMPLES = 25
"""Made up for each property in CI, always the same."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--examples", type=int, metavar="NUMBER",
                     help="damaged texts made up for each property, others every time")


def pytest_configure(config: pytest.Config) -> None:
    number = config.getoption("--examples")
    settings.register_profile("lab", max_examples=number or EXAMPLES, deadline=None,
                              database=None, derandomize=number is None)
    settings.load_profile("lab")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a cache of its own."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("PVSYNC_CACHE", str(cache))
    monkeypatch.delenv("PVSYNC_TREE", raising=False)
    return cache
