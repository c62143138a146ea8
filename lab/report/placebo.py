# SPDX-License-Identifier: GPL-2.0-only
"""Placebos: schemes that change nothing, and how large a difference they show.

A placebo has all settings of the baseline, and no more than boot arguments that no code reads, or
another label. Whatever it differs by, the lab has made: the order of runs, where the memory of
a guest lies, what else the machine does. So of the cells at one workload and number of VMs no one
is said to differ from the baseline that is not farther from it than the placebo.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from lab.core import stats
from lab.core.cells import Cell
from lab.core.model import Manifest, Scheme

UNREAD = "placebo."
"""How boot arguments begin that no code reads."""
NONE = ("No placebo beside it: how large a difference this lab shows where there is none is not"
        " known here.")
Group = tuple[str, int]
"""Workload and number of VMs."""


def settings(scheme: Scheme) -> tuple[object, ...]:
    """What of a scheme can make a difference."""
    def read(arguments: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one for one in arguments if not one.startswith(UNREAD))

    neighbour = None if scheme.neighbour is None else read(scheme.neighbour)
    return (read(scheme.guest), scheme.host, scheme.cpu, neighbour, scheme.variant)


def labels(manifest: Manifest) -> tuple[str, ...]:
    """Of the schemes that are placebos, in order."""
    (base,) = (one for one in manifest.schemes if one.label == manifest.baseline)
    return alike(base, {one.label: one for one in manifest.schemes if one is not base})


def alike(base: Scheme, others: Mapping[str, Scheme]) -> tuple[str, ...]:
    """Labels of the other schemes that change nothing of it, in order."""
    return tuple(label for label, one in others.items() if settings(one) == settings(base))


def spreads(cells: Iterable[Cell], placebos: Sequence[str]) -> dict[Group, float]:
    """How far the farthest placebo of a group is from the baseline: 0.1 is 10 %."""
    found = dict[Group, float]()
    for cell in cells:
        if cell.scheme in placebos and cell.vs_baseline is not None:
            group = cell.workload, cell.vms
            found[group] = max(found.get(group, 0.0), abs(cell.vs_baseline))
    return found


MANY = 5
"""Of more numbers than these, each program's are a part of the sentence by themselves."""


def is_farther(cell: Cell, far: Mapping[Group, float]) -> bool:
    """Whether the cell is farther from the baseline than its placebos, if there are any."""
    spread = far.get((cell.workload, cell.vms))
    return spread is None or (cell.vs_baseline is not None and abs(cell.vs_baseline) > spread)


def judged(cell: Cell, placebos: Sequence[str], far: Mapping[Group, float]) -> Cell:
    """The cell without its star unless it is farther from the baseline than every placebo.

    A placebo keeps its own: with one, the lab has shown a difference where there is none.
    """
    beyond = cell.scheme in placebos or is_farther(cell, far)
    return dataclasses.replace(cell, placebo_spread=far.get((cell.workload, cell.vms)),
                               significant=cell.significant and beyond)


def notes(manifest: Manifest, cells: Sequence[Cell]) -> list[str]:
    """What a reader of the table has to know of placebos; nothing if there is one scheme only."""
    if len(manifest.schemes) < 2:
        return []
    placebos = labels(manifest)
    far = spreads(cells, placebos)
    if not far:
        return [NONE]
    parts = []
    for workload in dict.fromkeys(name for name, _vms in far):
        own = [(vms, value) for (name, vms), value in far.items() if name == workload]
        parts.append(f"{workload}{':' * (len(own) > 1 or len(far) > MANY)} " + ", ".join(
            f"{100 * value:.1f} % at {vms} VM{'s'[:vms - 1]}" for vms, value in own))
    text = (f"Placebo ({', '.join(placebos)}): changes nothing, and was so far from"
            f" {manifest.baseline}: {'; '.join(parts)}. No smaller difference has a star.")
    lost = [f"{cell.scheme}/{cell.workload}/{cell.vms}" for cell in cells
            if cell.scheme not in placebos and not cell.significant
            and cell.p_value is not None and cell.p_value < stats.ALPHA
            and not is_farther(cell, far)]
    return [text + (f" These pass the test and are no farther: {', '.join(lost)}." if lost else "")]
