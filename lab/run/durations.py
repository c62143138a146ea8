# SPDX-License-Identifier: GPL-2.0-only
"""How long boots and runs take here: what is left of a session, and what another would take.

All are seconds of this machine's clock, also in virtual time. A boot is no run: each kind has
a mean of its own, and those of earlier sessions are kept in the cache.
"""

import contextlib
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from lab.core import paths
from lab.core.model import Backend, Experiment
from lab.plan.schedule import PlannedRun
from lab.run import records
from lab.run.fleet import owners

FILE = "durations.json"
BOOT = "boot"


def file() -> Path:
    """Where they are kept."""
    return paths.cache_dir() / FILE


def kept(path: Path | None = None) -> dict[str, float]:
    """Means of earlier sessions, by key; what is damaged is not there."""
    try:
        found = json.loads((path or file()).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: float(value) for key, value in found.items()
            if isinstance(value, int | float) and 0 <= value < float("inf")}


class Durations:
    """Those of one experiment on one backend; several threads may use it."""

    def __init__(self, experiment: Experiment, backend: Backend, model: str,
                 known: dict[str, float]) -> None:
        size = f"{experiment.vcpus} vCPUs on {experiment.pcpus}"
        where = f"{backend}{f' {model}' if backend == 'vt' else ''}, {size}"
        self._boot = f"{where}: {BOOT} {len(owners(experiment)) * max(experiment.vms)} guests"
        self._where = where
        self._known = known
        self._seen: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def _key(self, run: PlannedRun) -> str:
        return f"{self._where}: {run.workload}, {run.vms} VMs"

    def booted(self, seconds: float) -> None:
        """A host and its guests came up in that time."""
        self._note(self._boot, seconds)

    def ran(self, run: PlannedRun, seconds: float) -> None:
        """A run took that time."""
        self._note(self._key(run), seconds)

    def _note(self, key: str, seconds: float) -> None:
        with self._lock:
            self._seen.setdefault(key, []).append(seconds)

    def means(self) -> dict[str, float]:
        """Of this session where there are any, else of earlier ones."""
        with self._lock:
            return self._known | {key: fmean(values) for key, values in self._seen.items()}

    def expected(self, runs: Iterable[PlannedRun], up: Iterable[int] = (),
                 jobs: int = 1) -> float | None:
        """Seconds for these runs and their boots, but those that are `up`; None if not known.

        A run of another workload or number of VMs stands in for one that was never made.
        """
        means, wanted = self.means(), list(runs)
        like = [value for key, value in means.items()
                if key.startswith(f"{self._where}: ")
                and not key.startswith(f"{self._where}: {BOOT} ")]
        boots = {run.boot for run in wanted} - set(up)
        if (wanted and not like) or (boots and self._boot not in means):
            return None
        usual = fmean(like) if like else 0.0
        whole = (len(boots) * means.get(self._boot, 0.0)
                 + sum(means.get(self._key(run), usual) for run in wanted))
        return whole / max(1, min(jobs, len({run.boot for run in wanted})))

    def keep(self) -> None:
        """Write the means for later sessions, if there is room.

        Another session's may be lost if both end now.
        """
        with contextlib.suppress(OSError):
            path = file()
            if self._seen:
                records.replace(path, json.dumps({**kept(path), **self.means()}, indent=1,
                                                 sort_keys=True) + "\n")
