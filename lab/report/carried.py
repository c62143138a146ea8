# SPDX-License-Identifier: GPL-2.0-only
"""How many VMs a host carries within the limits of a sweep's file: sentences, and a table."""

from collections.abc import Iterable

from lab.core import stats
from lab.core.words import many
from lab.report import swept
from lab.report.grids import Grid
from lab.report.swept import Carried, Interval, Swept

Limit = tuple[str, str, int, int, float]


def said(found: Swept) -> list[str]:
    """A sentence for each limit: what the first scheme carries, and which settings more or less."""
    return [_said(found, own) for own in _limits(found)]


def differs(one: Carried, far: float | None) -> bool:
    """Whether a setting is shown to carry another number of VMs than the first scheme.

    `far` is `distance` of the placebos.
    """
    return one.ratio is not None and swept.is_apart(one.ratio, one.strict, far)


def distance(found: Swept, own: Iterable[Carried]) -> float | None:
    """The farthest placebo from the first scheme, as a factor above 1; None if unknown."""
    return swept.farthest(one.ratio for one in own
                          if one.setting in found.placebos and one.ratio is not None)


def _limits(found: Swept) -> list[list[Carried]]:
    """What was found, by limit."""
    made: dict[Limit, list[Carried]] = {}
    for one in found.carried:
        made.setdefault((one.workload, one.machine, one.vcpus, one.pcpus, one.limit),
                        []).append(one)
    return [*made.values()]


def _said(found: Swept, own: list[Carried]) -> str:
    base = next((one for one in own if one.setting == found.baseline), None)
    head = own[0]
    where = (f"Until {head.workload} passes {head.limit:,.10g} {head.unit},"
             f" {many(head.pcpus, 'CPU')} carry")
    if base is None:
        return f"{where} a number of VMs that is not known of {found.baseline}."
    told = f"{where} {_vms(found, base)} with {found.baseline}"
    far = distance(found, own)
    unknown = far is None and bool(found.placebos)
    differing = [] if unknown else [one for one in own if differs(one, far)]
    if not differing:
        why = ("; the placebo has no number to compare" if unknown and base.vms is not None else
               "")
        return f"{told}; no setting is shown to carry more or fewer{why}."
    return f"{told}; " + "; ".join(map(_beside, differing)) + "."


def _beside(one: Carried) -> str:
    assert one.ratio is not None
    text = f"{one.setting} carries {one.ratio:.2f} times as many{_bracket(one.strict)}"
    if one.ratio > 1:
        text += f", which saves one host in {one.ratio / (one.ratio - 1):.0f}"
    return text


def _vms(found: Swept, one: Carried) -> str:
    """Number of VMs, or what is known of it."""
    if one.vms is not None:
        return f"{one.vms:.2f} VMs{_bracket(one.interval)}"
    least, most = min(found.sweep.vms), max(found.sweep.vms)
    parts = [f"fewer than {least} in {one.beyond}"] * bool(one.beyond) + [
        f"at least {most} in {one.within}"] * bool(one.within)
    if not parts:
        return "an unknown number of VMs"
    return f"{' and '.join(parts)} of {many(one.seeds, 'seed')}"


def _bracket(ends: Interval) -> str:
    return "" if ends is None else f" [{ends[0]:.2f}, {ends[1]:.2f}]"


def grid(found: Swept) -> Grid:
    """A row for each limit and setting."""
    rows = []
    for own in _limits(found):
        for one in own:
            label = (f"{one.workload} {one.limit:,.10g} {one.unit}, VMs of"
                     f" {many(one.vcpus, 'vCPU')} on {one.pcpus}, {one.machine}: {one.setting}")
            ratio = "" if one.setting == found.baseline else \
                "-" if one.ratio is None else f"{one.ratio:.2f}{_bracket(one.strict)}"
            rows.append((label, [_vms(found, one), ratio]))
    return Grid(
        "VMs that a host carries until the figure passes the limit", "limit: setting",
        [f"VMs [{stats.CONFIDENCE:.0%} interval]", f"over {found.baseline}'s"], rows,
        ("Of each seed where its own curve first passes the limit, between two numbers of VMs that"
         " were played: there the figure's logarithm is taken for a straight line. The figure is"
         " the mean over the VMs. The second column holds for all settings of a limit together.",))
