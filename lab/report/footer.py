# SPDX-License-Identifier: GPL-2.0-only
"""Sentences below the table: its test, its number of values, and what was left out."""

from collections import Counter

from lab.core import stats
from lab.core.words import many
from lab.report import findings
from lab.report.summary import Summary


def star_note(summary: Summary) -> str:
    """What a star means here, and whether one is possible."""
    if not summary.comparisons:
        return "Nothing was compared with the baseline."
    compared = many(summary.comparisons, "comparison")
    text = f"* significant: {stats.TEST} ({compared}). {_alike(summary)}"
    most = max(len(cell.values) for cell in summary.cells)
    if most < summary.smallest_n:
        text += (
            f" No star is possible here: it takes {summary.smallest_n} values a cell,"
            f" and no cell has more than {most}."
        )
    return text


def _alike(summary: Summary) -> str:
    """What runs of one boot have to do with stars."""
    if summary.alikeness is not None:
        return (f"Runs of one boot are alike by {summary.alikeness:.2f} (0: not at all, 1: the"
                " same), for which p is corrected.")
    if not summary.of_one_boot:
        return "Each run is of a boot of its own."
    return ("All runs are of one boot, and what its guests have by chance is in every difference:"
            " a star says less than with several (--boots, or no --snapshot).")


def count_note(summary: Summary) -> str:
    """How many values cells have."""
    m = summary.results.manifest
    wanted = m.reps * m.boots
    counts = Counter(len(cell.values) for cell in summary.cells)
    asked = f"{m.reps} in each of {many(m.boots, 'host boot')}"
    if len(counts) == 1:
        (n,) = counts
        return f"n = {n} valid runs a cell ({asked} wanted)."
    short = [
        f"{cell.scheme}/{cell.workload}/{many(cell.vms, 'VM')} has {len(cell.values)}"
        for cell in summary.cells
        if len(cell.values) < wanted
    ]
    text = f"n = {min(counts)} to {max(counts)} valid runs a cell ({asked} wanted)"
    return text + (f"; too few: {', '.join(short)}." if short else ".")


def invalid_notes(summary: Summary) -> list[str]:
    """Invalid runs and failed boots, with their reasons."""
    results, lines = summary.results, []
    invalid = results.invalid()
    if invalid:
        lines.append(
            f"{len(invalid)} of {len(results.runs)} runs were invalid and are in no figure:"
            f" {_reasons([run.reason for run in invalid])}."
        )
    for kind in ("host", "guest"):
        boots = [boot for boot in results.boots if bool(boot.guest) == (kind == "guest")]
        failed = [boot.reason for boot in boots if not boot.ok]
        if failed:
            lines.append(
                f"{len(failed)} of {len(boots)} {kind} boots failed: {_reasons(failed)}."
            )
    return lines + findings.notes(results.findings(), "DIR")


def _reasons(reasons: list[str], most: int = 5) -> str:
    counted = Counter(reason.rstrip(".: ") for reason in reasons).most_common()
    shown = [f"{reason} ({count})" if count > 1 else reason for reason, count in counted[:most]]
    if len(counted) > most:
        shown.append(f"and {len(counted) - most} other reasons")
    return "; ".join(shown)
