# SPDX-License-Identifier: GPL-2.0-only
"""CPUs of this machine that stand still."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from lab.core.model import RunRecord
from lab.observe import stalls

RUN = RunRecord("r", 0, 0, 0, "a", "w", 1, 2, 2, True, "", (), 1.0)
WATCHED = """
import time
from lab.observe.stalls import Watch
end = time.monotonic() + 60
with Watch() as watch:
    while not all(watch._late.values()):
        assert time.monotonic() < end
        time.sleep(0.01)
    print("watched", flush=True)
    input()
print(watch.longest)
"""


def watched(stop: float) -> float:
    """What a process notes that gets no CPU for so many seconds, once all its threads watch."""
    with subprocess.Popen([sys.executable, "-c", WATCHED], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "watched\n"
        if stop:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            time.sleep(stop)
            process.send_signal(signal.SIGCONT)
        return float(process.communicate("\n")[0])


def test_a_stall_is_noted() -> None:
    assert 0.6 < watched(0.8) < 20
    assert 0 <= watched(0) < 20


def test_each_cpu_has_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    tied: list[set[int]] = []
    monkeypatch.setattr("lab.observe.stalls.os.sched_setaffinity",
                        lambda _, cpus: tied.append(cpus))
    with stalls.Watch():
        pass
    assert sorted(cpu for cpus in tied for cpu in cpus) == sorted(os.sched_getaffinity(0))


def test_a_cpu_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: int, cpus: set[int]) -> None:
        raise OSError(22, "Invalid argument")
    monkeypatch.setattr("lab.observe.stalls.os.sched_setaffinity", gone)
    with stalls.Watch() as watch:
        time.sleep(0.05)
    assert watch.longest >= 0


def test_warning() -> None:
    short, long, longer = (replace(RUN, stalled=seconds) for seconds in (0.029, 0.03, 0.1041))
    invalid, unknown = replace(longer, valid=False), RUN
    assert stalls.warnings([short, invalid, unknown]) == ()
    (text,) = stalls.warnings([short, long, longer, invalid, unknown])
    assert "30 ms and more, up to 104 ms, in 2 of 3 valid runs" in text
