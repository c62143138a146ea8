# SPDX-License-Identifier: GPL-2.0-only
"""What stands on top of a report: what is wrong with its runs, and the verdict."""

from collections.abc import Sequence

from lab.core import stats
from lab.core.model import Manifest
from lab.report import modes, placebo
from lab.report.grids import columns, number
from lab.report.summary import Summary
from lab.report.verdict import Ratio, Verdict

MOVED = 0.10
"""So far from its baseline a placebo is named on top, also without a star."""
NOTHING = "no difference"


def lines(summary: Summary) -> list[str]:
    """All of it."""
    return alerts(summary) + verdict(summary)


def alerts(summary: Summary) -> list[str]:
    """What makes the figures less than they seem; nothing when nothing does."""
    invalid = [] if summary.valid else [
        "NOT VALID: not every cell has the valid runs that were asked for."]
    return [*invalid, *(f"Warning: {warning}." for warning in summary.results.warnings),
            *_moved(summary), *modes.notes(summary.cells)]


def _moved(summary: Summary) -> list[str]:
    names = placebo.labels(summary.results.manifest)
    far = [f"{cell.workload} {100 * cell.vs_baseline:+.1f} % at {columns((cell.vms,))[0]}"
           + "*" * cell.significant
           for cell in summary.cells if cell.scheme in names and cell.vs_baseline is not None
           and (cell.significant or abs(cell.vs_baseline) >= MOVED)]
    return [f"The placebo moved, which changes nothing: {', '.join(far)}."] if far else []


def verdict(summary: Summary) -> list[str]:
    """A line for each scheme and number of VMs; what they are on top."""
    found = summary.verdicts
    if not found:
        return []
    stars = any(ratio.possible for one in found for ratio in (one.best, one.worst))
    m = summary.results.manifest
    head = f"Verdict against {m.baseline}; above x1 is better{_method(m, found)}"
    return [f"{head}{'' if stars else '; too few for any star'}:",
            *(f"  {sentence(one, stars)}" for one in found)]


def _method(manifest: Manifest, found: Sequence[Verdict]) -> str:
    what = "seeds" if manifest.backend == "vt" and manifest.reps == 1 else "runs"
    few, many = min(one.runs for one in found), max(one.runs for one in found)
    number_of = f"{many} {what}" if few == many else f"{few} to {many} {what}"
    if many < stats.FEWEST:
        return f"; {number_of} a cell, too few for an interval"
    return f", [{100 * stats.CONFIDENCE:.0f} % interval by bootstrap over {number_of}]"


def sentence(one: Verdict, stars: bool = True) -> str:
    """`pmt, 3 VMs: x1.40 on average [1.21, 1.62] over 10 workloads, best ..., worst ...`.

    Without `stars` no ratio says why it has none.
    """
    (vms,) = columns((one.vms,))
    nothing = not one.beyond or (one.interval is not None and not one.differs)
    known = f" ({NOTHING})" if nothing else ""
    head = f"{one.scheme}, {vms}: x{number(one.speedup)}"
    if one.workloads == 1:
        what = remark(one.best) if one.best.possible else known
        return f"{head}{span(one.interval)} in {one.best.workload}{what}"
    best, worst = (f"{ratio.workload} x{number(ratio.speedup)}{remark(ratio) if stars else ''}"
                   for ratio in (one.best, one.worst))
    return (f"{head} on average{span(one.interval)}{known} over {one.workloads} workloads,"
            f" best {best}, worst {worst}")


def span(interval: tuple[float, float] | None) -> str:
    """` [1.21, 1.62]`; nothing without one."""
    return "" if interval is None else f" [{number(interval[0])}, {number(interval[1])}]"


def remark(one: Ratio) -> str:
    """Its star, or why there is none."""
    if one.significant:
        return "*"
    return f" ({NOTHING})" if one.possible else " (too few runs for a star)"
