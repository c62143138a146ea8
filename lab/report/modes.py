# SPDX-License-Identifier: GPL-2.0-only
"""Cells whose values fall into two modes, which their median hides.

A vCPU that lost its CPU at the wrong moment makes a run take a hundred times as long as the others
of its cell. With 4 such runs of 10 the median is where it was. The rule is this project's own, for
the 5 to 20 values of a cell: sorted, somewhere a value is GAP times the one before it, with at
least two values on either side; or LONE times, with one value alone. Values of one mode hardly ever
are so far apart: of cells with a log-normal spread of 30 %, fewer than 1 in 100
(tests/lab/test_modes.py draws them). Hartigan's dip test finds nothing in so few values.
"""

from collections.abc import Iterable, Sequence

from lab.core.cells import Cell
from lab.core.words import many

GAP = 2.0
LONE = 3.0
MARK = "‡"
"""After a cell's text."""


def bimodal(values: Sequence[float]) -> bool:
    """Whether these values have two modes by the rule above."""
    ordered = sorted(values)
    for place in range(1, len(ordered)):
        below, above = ordered[place - 1], ordered[place]
        alone = min(place, len(ordered) - place) == 1
        if below < above and above >= (LONE if alone else GAP) * below:
            return True
    return False


def apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether all values of one are below all of the other."""
    return bool(one and other) and (max(one) < min(other) or max(other) < min(one))


def may_have_star(cell: Cell, base: Cell) -> bool:
    """Whether the difference of the two is more than one of their medians.

    Where one of them has two modes, no value of either may lie among the other's.
    """
    return not (cell.bimodal or base.bimodal) or apart(cell.values, base.values)


def notes(cells: Iterable[Cell]) -> list[str]:
    """What a reader of the table has to know of such cells."""
    shown = [f"{cell.scheme}/{cell.workload}/{many(cell.vms, 'VM')} {cell.min:.3g} to"
             f" {cell.max:.3g} {cell.unit}".rstrip() for cell in cells if cell.bimodal]
    if not shown:
        return []
    return [f"{MARK} values in two modes, {GAP:g} times apart or one alone {LONE:g} times, of"
            f" which the median is one: {', '.join(shown)}. No star without all values apart."]
