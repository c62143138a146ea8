# SPDX-License-Identifier: GPL-2.0-only
"""What `disturb` of an experiment has done to guests while they are measured.

target/disturb.py does it; here is what it is told, and what is made of its answer. The
parameters are all that take more than yes or no, with all values that they take, as `known` reads
them in the kernel sources.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lab.core.model import Experiment
from lab.plan import known
from lab.plan.known import Value

FILE = "host.disturbed.txt"
"""In the folder of a run: seconds, kind, and what was done."""
EVERY_S = 0.1
RESTORE_LIMIT = 60.0
"""Seconds that one may take, beside guests that compute on an emulated host whose kernel does not
check itself."""
OWN: dict[str, tuple[Value, ...]] = {
    name: tuple(value for value in values if value != known.GLOBAL)
    for name, values in known.own().items() if values}
"""Parameters that each VM may have its own value of, besides "global"."""
HOST: dict[str, tuple[Value, ...]] = {
    name: values for name, values in known.host().items() if values and values != known.BOOLS}
OFFERS: dict[str, tuple[Value, ...]] = {"hypercalls": ("Y", "N"), "shootdown": ("Y", "N")}
"""What the host lets guests do; one that finds it refused does without from then on."""


KINDS = {"parameters": HOST, "offers": OFFERS}


def request(experiment: Experiment, run_id: str, names: Sequence[str], folder: str,
            limit: float) -> Any:
    """What hostd is told to do to these guests, or None.

    `folder` is that of the host's parameters, `limit` the seconds that a restore may take.
    """
    if not experiment.disturb:
        return None
    files = [(kind, f"{folder}/{name}", values) for kind, table in KINDS.items()
             if kind in experiment.disturb for name, values in table.items()]
    own = [("parameters", name, (known.GLOBAL, *values)) for name, values in OWN.items()
           if "parameters" in experiment.disturb]
    return {
        "seed": run_id, "within": experiment.disturb_ms / 1e3, "limit": limit,
        "kill": names[1:] if "kill" in experiment.disturb else [],
        "restore": names if "restore" in experiment.disturb else [],
        "every": EVERY_S, "files": files, "own": own,
    }


def counted(events: Iterable[Sequence[Any]]) -> dict[str, int]:
    """How often each kind was done."""
    return dict(sorted(Counter(str(kind) for _, kind, _ in events).items()))


def as_text(events: Iterable[Sequence[Any]]) -> str:
    """A line for each."""
    return "".join(f"{when:.6f} {kind} {what}\n" for when, kind, what in events)


def lacking(experiment: Experiment, done: dict[str, int]) -> str:
    """Why a run is invalid that was not disturbed as it should be, or nothing."""
    never = [kind for kind in experiment.disturb if not done.get(kind)]
    return f"the guests were not disturbed meanwhile: no {' and no '.join(never)}" if never else ""
