# SPDX-License-Identifier: GPL-2.0-only
"""Locks on files."""

import os
import time
from pathlib import Path

import pytest

from lab.core import files


def test_a_lock_is_one_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each open is a holder of its own; who waits looks as often as told, and sleeps between."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    first, second = (os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    assert files.lock(first, 3, 60) and slept == []
    assert not files.lock(second, 3, 0.05) and slept == [0.05, 0.05]
    os.close(first)
    assert files.lock(second, 1, 60) and slept == [0.05, 0.05]
    os.close(second)
