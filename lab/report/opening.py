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


def ideals(summary: Summary) -> Grid | None:
    """What each scheme takes over sharing without loss; None without runs of one VM."""
    found = {(one.scheme, one.vms): one for one in summary.ideals}
    if not found:
        return None
    vms = tuple(sorted({vms for _, vms in found}))
    many = max(one.workloads for one in found.values())
    return Grid(
        f"time over what sharing without loss takes, on average over {many} workload"
        + "s" * (many > 1), "scheme", columns(vms), [
            (scheme, [_times(found[scheme, n]) if (scheme, n) in found else "-" for n in vms])
            for scheme in dict.fromkeys(scheme for scheme, _ in found)],
        _least(summary))


def _least(summary: Summary) -> tuple[str, ...]:
    baseline = summary.results.manifest.baseline
    alone = [cell for cell in summary.cells if cell.scheme == baseline and cell.vms == 1]
    if any(cell.busy is None for cell in alone):
        return (f"Without loss N VMs take {baseline}'s time of one VM times the overcommit. A VM"
                " that leaves CPUs idle when it is alone can take less.",)
    busy = ", ".join(f"{cell.workload} {number(cell.busy)}" for cell in alone
                     if cell.busy is not None)
    return (f"Without loss N VMs take N times the CPU time that one takes with {baseline}, and no"
            f" less than it takes alone. CPUs that one VM alone keeps busy: {busy}.",
            f"Above 1 is what waiting costs. Nothing that only cures waiting brings more than"
            f" {baseline}'s figure; what is below 1 also takes less CPU time for its work.")


def _times(one: Verdict) -> str:
    """`1.21 [1.10, 1.32]`: its time over that of sharing without loss."""
    return number(1 / one.speedup) + span(
        one.interval and (1 / one.interval[1], 1 / one.interval[0]))


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
