# SPDX-License-Identifier: GPL-2.0-only
"""What stands on top of a report: what is wrong with its runs, and the verdict."""

from collections.abc import Sequence

from lab.core import stats
from lab.core.model import Manifest
from lab.report import modes, placebo
from lab.report.grids import Grid, columns, number
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
    if not summary.verdicts:
        return []
    stars = _stars(summary)
    return [f"{_head(summary)}:", *(f"  {sentence(one, stars)}" for one in summary.verdicts)]


def grid(summary: Summary) -> Grid | None:
    """The same as a table, for a single workload: schemes down, numbers of VMs across."""
    found = {(one.scheme, one.vms): one for one in summary.verdicts}
    if not found or any(one.workloads > 1 for one in found.values()):
        return None
    m = summary.results.manifest
    schemes = dict.fromkeys(scheme for scheme, _ in found)
    return Grid(_head(summary), "scheme", columns(m.vms), [
        (scheme, [_own(found[scheme, vms]) if (scheme, vms) in found else "-" for vms in m.vms])
        for scheme in schemes])


def _stars(summary: Summary) -> bool:
    return any(ratio.possible for one in summary.verdicts for ratio in (one.best, one.worst))


def _head(summary: Summary) -> str:
    m = summary.results.manifest
    return (f"Verdict against {m.baseline}; above x1 is better{_method(m, summary.verdicts)}"
            + ("" if _stars(summary) else "; too few for any star"))


def _method(manifest: Manifest, found: Sequence[Verdict]) -> str:
    what = "seeds" if manifest.backend == "vt" and manifest.reps == 1 else "runs"
    what += " of one boot" if manifest.snapshot else ""
    few, many = min(one.runs for one in found), max(one.runs for one in found)
    number_of = f"{many} {what}" if few == many else f"{few} to {many} {what}"
    if many < stats.FEWEST:
        return f"; {number_of} a cell, too few for an interval"
    return f", [{100 * stats.CONFIDENCE:.0f} % interval by bootstrap over {number_of}]"


def sentence(one: Verdict, stars: bool = True, what: str = "workloads") -> str:
    """`pmt, 3 VMs: x1.40 on average [1.21, 1.62] over 10 workloads, best ..., worst ...`.

    Without `stars` no ratio says why it has none. `what` the average is over.
    """
    (vms,) = columns((one.vms,))
    head = f"{one.scheme}, {vms}"
    if one.workloads == 1:
        return f"{head}: {_own(one)} in {one.best.workload}"
    best, worst = (f"{ratio.workload} x{number(ratio.speedup)}{remark(ratio) if stars else ''}"
                   for ratio in (one.best, one.worst))
    return (f"{head}: x{number(one.speedup)} on average{span(one.interval)}{_known(one)}"
            f" over {one.workloads} {what}, best {best}, worst {worst}")


def _known(one: Verdict) -> str:
    nothing = not one.beyond or (one.interval is not None and not one.differs)
    return f" ({NOTHING})" if nothing else ""


def _own(one: Verdict) -> str:
    """Of a single workload: `x1.40 [1.21, 1.62]*`."""
    return (f"x{number(one.speedup)}{span(one.interval)}"
            + (remark(one.best) if one.best.possible else _known(one)))


def short(one: Verdict) -> str:
    """`**x1.40** [1.21, 1.62]` in Markdown; not bold when there is no difference."""
    ratio = f"x{number(one.speedup)}"
    return (f"**{ratio}**" if one.differs else ratio) + span(one.interval)


def span(interval: tuple[float, float] | None) -> str:
    """` [1.21, 1.62]`; nothing without one."""
    return "" if interval is None else f" [{number(interval[0])}, {number(interval[1])}]"


def remark(one: Ratio) -> str:
    """Its star, or why there is none."""
    if one.significant:
        return "*"
    return f" ({NOTHING})" if one.possible else " (too few runs for a star)"
