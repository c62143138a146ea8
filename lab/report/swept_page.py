# SPDX-License-Identifier: GPL-2.0-only
"""The block of a sweep in docs/results: what it shows, the best and the worst, what made it."""

import math
from collections.abc import Sequence

from lab.core import stats
from lab.core.words import many
from lab.report import carried, hunted, markdown, placebo, swept
from lab.report.grids import Grid
from lab.report.swept import Cell, Facts, Interval, Ranked, Swept, Versus

MOST = 5
"""Of the best, and of the worst, in the table."""
SAME = 1e-9
"""Ratios that differ by less are the same: runs in virtual time can be."""
NOTHING = "Nothing can be told apart here."


def block(name: str, found: Swept) -> str:
    """What stands between the markers in a page; `name` is that of its picture."""
    if found.hunted:
        return hunted.block(found, alerts(found), _provenance(found))
    head, *others = said(found)
    picture = f"![sweep {found.sweep.name}: worth of settings and of values]({name}.svg)"
    parts = [markdown.wrapped(f"**{markdown.escaped(head)}**"),
             markdown.items([*others, *alerts(found)]), picture,
             *([markdown.grid(carried.grid(found))] if found.carried else []),
             markdown.grid(_ranking(found)), *_marginals(found),
             *([markdown.items(found.flatness)] if found.flatness else []),
             "<details><summary>Figures in their units, and how to read it</summary>",
             markdown.grid(_cells(found)), markdown.items(_notes(found)), "</details>",
             _provenance(found)]
    return "\n\n".join(part for part in parts if part)


def said(found: Swept) -> list[str]:
    """What the sweep shows, the most important first."""
    if found.hunted:
        return hunted.said(found)
    far = swept.distance(found.ranking, found.placebos)
    others = [one for one in found.ranking
              if one.setting != found.baseline and one.setting not in found.placebos]
    sentences = [line for one in found.versus for line in _beside_default(found, one)]
    if others:
        sentences += _beside_baseline(found, others, far)
    shown = any(swept.differs(one, far) for one in others) or any(
        swept.differs(one, versus.far) for versus in found.versus for one in versus.rows)
    head = [] if shown else [" ".join([NOTHING, *sentences[:1]])]
    return [*carried.said(found), *head, *sentences[len(head):], _placebo(found, far)]


def _beside_default(found: Swept, versus: Versus) -> list[str]:
    held = " on the held-out workloads" * bool(found.sweep.search)
    default, rows = _short(versus.default, versus), versus.rows
    if versus.default not in [one.setting for one in rows]:
        return [f"The default of the project, {versus.scheme} {default}, has no run to be compared"
                f" with{held}."]
    count = len(rows) - 1
    differing = [one for one in rows if swept.differs(one, versus.far)]
    better = sum(one.worth < 1 for one in differing)
    lines = [f"Beside the default of the project, {versus.scheme} {default},"
             f" {_counted(count, better, len(differing) - better)}{held}."]
    best = rows[0]
    if not count:
        return lines
    rank = 1 + sum(one.worth < 1 - SAME for one in rows)
    if rank == 1:
        return [*lines, f"The default has rank 1 of {len(rows)}."]
    return [*lines, f"The default has rank {rank} of {len(rows)}: it takes"
            f" {1 / best.worth:.3f} times the time of the best, {_short(best.setting, versus)}"
            f"{_inverse(best.strict)}{_doubt(best, versus.far)}."]


def _short(setting: str, versus: Versus) -> str:
    """A setting of a varied scheme without the scheme's name."""
    return setting.removeprefix(versus.scheme).strip() or "as it is"


def _counted(count: int, better: int, worse: int) -> str:
    if not better and not worse:
        return f"none of {many(count, 'other setting')} is shown to be better or worse"
    told = f"{better} {'is' if better == 1 else 'are'}" if better else "none is"
    return (f"of {many(count, 'other setting')} {told} shown to be better, and {worse or 'none'}"
            " worse")


def _beside_baseline(found: Swept, rows: Sequence[Ranked], far: float | None) -> list[str]:
    differing = [one for one in rows if swept.differs(one, far)]
    better = sum(one.worth < 1 for one in differing)
    return [f"Beside {found.baseline}, {_counted(len(rows), better, len(differing) - better)}.",
            f"The best, {rows[0].setting}, takes {rows[0].worth:.3f} of {found.baseline}'s time"
            f"{_bracket(rows[0].strict)}{_doubt(rows[0], far)}."]


def _doubt(one: Ranked, far: float | None) -> str:
    return "" if swept.differs(one, far) else "; no difference is shown"


def _placebo(found: Swept, far: float | None) -> str:
    own = [one for one in found.ranking if one.setting in found.placebos]
    if far is None:
        return placebo.NONE
    told = "; ".join(f"{one.setting} takes {one.worth:.3f} of {found.baseline}'s time"
                     f"{_bracket(one.interval)}" for one in own)
    wrong = any(one.interval and not one.interval[0] <= 1 <= one.interval[1] for one in own)
    return (f"The placebo changes nothing: {told}. No difference below {far - 1:.1%} counts."
            + " Its interval leaves 1 out: it shows a difference where there is none." * wrong)


def alerts(found: Swept) -> list[str]:
    """What makes the figures less than they seem."""
    facts, total = found.facts, sum(found.facts.failed.values())
    lines = [f"{many(facts.lacking, 'run')} of the sweep's file had not been made."
             ] if facts.lacking else []
    if total:
        reasons = "; ".join(f"{count}: {reason}" for reason, count in facts.failed.items())
        lines.append(f"Not valid: {total} of {many(facts.runs, 'run')} ({reasons}).")
    if found.unranked:
        lines.append(f"Without a run to compare: {', '.join(found.unranked)}.")
    return [*lines, *mixed(facts)]


def mixed(facts: Facts) -> list[str]:
    """A warning when the lab itself was not the same for all rows; nothing else."""
    if len(facts.commits) < 2:
        return []
    return [f"Rows of {len(facts.commits)} source commits are together here:"
            f" {', '.join(facts.commits)}. A difference between settings may be one between"
            " commits."]


def chosen(found: Swept) -> list[Ranked]:
    """The rows of the table: the best and the worst, defaults, placebos and the first scheme."""
    count = len(found.ranking)
    return [one for place, one in enumerate(found.ranking)
            if place < MOST or place >= count - MOST or one.setting in found.named]


def ranking(found: Swept, rows: Sequence[Ranked]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of these settings."""
    loads = sorted({load for one in found.ranking for load in one.by_workload})
    places = {one.setting: place for place, one in enumerate(found.ranking, 1)}
    beside = {one.setting: one for of in found.versus for one in of.rows}
    over = ["over the default" + ", held out" * bool(found.sweep.search)] * any(
        of.rows for of in found.versus)
    heads = ["setting", "rank", "worth", f"{stats.CONFIDENCE:.0%} interval", *over, "runs",
             "missing", *loads]
    return heads, [[
        one.setting, str(places[one.setting]), number(one.worth),
        "" if one.setting == found.baseline else interval(one.interval),
        *(_ratio(beside.get(one.setting)) for _ in over), str(one.runs), str(one.missing),
        *(number(one.by_workload.get(load)) for load in loads)] for one in rows]


def number(value: float | None) -> str:
    """A worth; nothing for none."""
    return "" if value is None or math.isinf(value) else f"{value:.3f}"


def interval(ends: Interval) -> str:
    """In words."""
    return "" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def _ratio(one: Ranked | None) -> str:
    return "" if one is None else f"{one.worth:.3f}{_bracket(one.interval)}"


def _bracket(ends: Interval) -> str:
    return "" if ends is None else f" [{ends[0]:.3f}, {ends[1]:.3f}]"


def _inverse(ends: Interval) -> str:
    return _bracket(ends and (1 / ends[1], 1 / ends[0]))


def _ranking(found: Swept) -> Grid:
    heads, rows = ranking(found, chosen(found))
    count = len(found.ranking)
    hidden = count - len(rows)
    note = [f"{many(hidden, 'setting')} between them {'is' if hidden == 1 else 'are'} left out;"
            f" docs/results/data has all {count}."] if hidden else []
    return Grid(f"Worth: time over {found.baseline}'s, below 1 is better", heads[0], heads[1:],
                [(row[0], row[1:]) for row in rows], tuple(note))


def _marginals(found: Swept) -> list[str]:
    """A table of the parameters' values; nothing where none is varied."""
    if not found.values:
        return []
    loads = sorted({one.workload for one in found.marginals})
    cells = {(one.name, one.value, one.workload): one for one in found.marginals}
    rows = [(f"{one.name}={one.value}", [
        f"{one.worth:.3f}{_bracket(one.interval)}",
        *(f"{own.median:.3f} ({own.low:.3f} to {own.high:.3f})" if own else "" for own in (
            cells.get((one.name, one.value, load)) for load in loads))]) for one in found.values]
    return [markdown.grid(Grid(
        f"Values over all else: worth [{stats.CONFIDENCE:.0%} interval]; of each workload the"
        " median worth (quartiles)", "value", ["all", *loads], rows))]


def _cells(found: Swept) -> Grid:
    shown = {*found.named, *(one.setting for one in found.ranking[:1])}
    rows = []
    for one in found.cells:
        if one.setting in shown:
            where = f"{one.workload}, {one.vms} × {one.vcpus} on {one.pcpus}, {one.machine}"
            rows.append((f"{where}: {one.setting}", figures(one)))
    return Grid("Figures of the best setting, defaults, placebos and the first scheme",
                "workload, VMs × vCPUs on pCPUs, machine model: setting",
                ["median ± half the inter-quartile range", "range", "runs"], rows)


def figures(one: Cell) -> list[str]:
    """Of a setting in a cell: median with half the inter-quartile range, range, runs."""
    spread = "" if one.spread is None else f" ± {one.spread:.0%}"
    return [f"{one.median:.4g} {one.unit}{spread}", f"{one.best:.4g} to {one.worst:.4g}",
            str(one.runs)]


def _notes(found: Swept) -> list[str]:
    seeds = found.sweep.seeds
    lines = [
        "Worth: a setting's time over the other's of the same seed, workload, machine model and"
        " numbers of VMs and CPUs, as a geometric mean. A rate counts the other way round.",
        f"Intervals: {stats.CONFIDENCE:.0%}, bootstrap over seeds, of which there are {seeds}."
        " Those of tables and of the placebo hold by themselves. Those of the other sentences hold"
        " for all settings together (Bonferroni), as the best of many is the best by chance, too.",
        "A setting is shown to differ when no run of it is missing, its interval for all settings"
        " together leaves 1 out, and no placebo is as far from 1."]
    if seeds < stats.FEWEST:
        lines.append(f"Fewer than {stats.FEWEST} seeds give no interval: nothing can be shown.")
    return lines


def _provenance(found: Swept) -> str:
    facts = found.facts
    old = f"; {many(facts.left_out, 'run')} of other builds, or made again, left out" * bool(
        facts.left_out)
    return "\n".join((markdown.made_by(found.command), markdown.wrapped(markdown.escaped(
        f"at commit {', '.join(one[:12] for one in facts.commits)}, {facts.made}: machine model"
        f" {', '.join(found.sweep.machines)}, in virtual time (backend vt); kernel {facts.kernel};"
        f" images {facts.images}; emulator {facts.emulator}. {many(facts.runs, 'run')} in"
        f" {many(facts.boots, 'boot')} of hosts by {many(facts.workers, 'worker')},"
        f" {facts.core_s / 3600:.2f} core-hours{old}."))))
