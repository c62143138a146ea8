# SPDX-License-Identifier: GPL-2.0-only
"""The cells of a report as CSV, a row each, for other programs."""

import csv
import io

from lab.core.cells import Cell
from lab.report.summary import Summary

COLUMNS = ("workload", "scheme", "vms", "vcpus", "pcpus", "metric", "unit", "better", "n", "median",
           "mean", "spread", "min", "max", "ideal", "vs_baseline", "p_value", "significant",
           "placebo_spread", "bimodal", "fairness", "invalid_runs", "values")
"""Names are those of summary.json; `n` is the number of values."""


def text(summary: Summary) -> str:
    """A head and a row for each cell; what is unknown is empty, values are joined by blanks."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_field(cell, name) for name in COLUMNS] for cell in summary.cells)
    return out.getvalue()


def _field(cell: Cell, name: str) -> str:
    if name == "n":
        return str(len(cell.values))
    value = getattr(cell, name)
    if isinstance(value, tuple):
        return " ".join(map(repr, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
