# SPDX-License-Identifier: GPL-2.0-only
"""From a result directory to the cells of a table, and to summary.json.

A cell is one scheme under one workload at one number of VMs. Its values come
from valid runs alone, one per run: the mean over the run's guests. A run that
the runner called valid but whose output holds no figure is counted invalid
here too, so silence never becomes a number.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.core import stats
from lab.core.cells import Cell, Observed, Preemptions
from lab.core.errors import UsageError
from lab.core.model import BootRecord, Manifest, RunRecord, Scheme, Which, Workload
from lab.observe import (
    cpu_waits,
    epochs,
    figures,
    flushes,
    histogram,
    observed,
    preemptions,
    stalls,
    windows,
)
from lab.observe.observed import Observation
from lab.plan import in_force
from lab.report import modes, placebo, verdict, waited
from lab.report.findings import Finding, found
from lab.run import parse

Key = tuple[str, str, int]
"""Scheme label, workload name, number of VMs."""


@dataclass(frozen=True)
class RunFigure:
    """A run and what its outputs say."""

    run: RunRecord
    values: dict[str, float]
    """Guest to figure; complete when the run is valid, else empty."""
    mean: float | None
    """Over the guests; None when the run is invalid."""
    reason: str
    """Why it is invalid, by the runner or by its output; empty when valid."""
    observation: Observation | None = None
    """None when the run is invalid or was not observed."""
    waits: waited.Kept | None = None
    """None when the run is invalid or was not traced."""

    @property
    def key(self) -> Key:
        return (self.run.scheme, self.run.workload, self.run.vms)


@dataclass(frozen=True)
class Results:
    """A result directory, read."""

    directory: Path
    manifest: Manifest
    runs: tuple[RunFigure, ...]
    boots: tuple[BootRecord, ...]
    warnings: tuple[str, ...]

    def invalid(self) -> list[RunFigure]:
        """The invalid runs, in the order they ran."""
        return [run for run in self.runs if run.mean is None]

    def failed_boots(self) -> list[BootRecord]:
        """Boots of the host or of a guest that did not come up, or died."""
        return [boot for boot in self.boots if not boot.ok]

    def findings(self) -> list[Finding]:
        """What is wrong, with the seeds that find it again; nothing in real time."""
        return found([(one.run, one.reason) for one in self.runs], self.boots)

    def of(self, scheme: str, workload: str, vms: int) -> list[RunFigure]:
        """The valid runs of a cell."""
        key = (scheme, workload, vms)
        return [run for run in self.runs if run.mean is not None and run.key == key]

    def units(self, scheme: str, workload: str, vms: int) -> dict[verdict.Unit, float]:
        """The values of a cell, by boot and repetition."""
        return {(run.run.boot, run.run.rep): run.mean
                for run in self.of(scheme, workload, vms) if run.mean is not None}

    def observations(self, scheme: str, workload: str, vms: int) -> list[Observation]:
        """What was observed in them."""
        runs = self.of(scheme, workload, vms)
        return [run.observation for run in runs if run.observation is not None]


@dataclass(frozen=True)
class Summary:
    """The results with everything computed from them."""

    results: Results
    cells: tuple[Cell, ...]
    comparisons: int
    """Cells that were compared with the baseline, for Holm's correction."""
    smallest_n: int
    """Values a cell needs before a star is possible at all."""
    alikeness: float | None
    """How alike values of one boot are, see `stats`; None when it is not known."""
    valid: bool
    """Every wanted cell has all its values."""
    verdicts: tuple[verdict.Verdict, ...] = ()
    ideals: tuple[verdict.Verdict, ...] = ()
    """Each scheme over the ideal, see `verdict.ideals`."""

    @property
    def of_one_boot(self) -> bool:
        """Whether all runs of a cell are: what its guests have by chance is in each of them."""
        m = self.results.manifest
        return m.snapshot or (self.alikeness is None and m.reps > 1)

    def cell(self, scheme: str, workload: str, vms: int) -> Cell:
        """The cell at that place; every wanted one exists, maybe without values."""
        for cell in self.cells:
            if (cell.scheme, cell.workload, cell.vms) == (scheme, workload, vms):
                return cell
        raise KeyError((scheme, workload, vms))


def load(directory: Path) -> Results:
    """Read a result directory; UsageError when it is none or is damaged.

    Runs are in the order of their boots: which of two hosts ends a run first, real time decides.
    """
    manifest = parse.manifest(directory)
    runs, boots = parse.runs(directory), parse.boots(directory)
    twice = [run for run, number in Counter(run.id for run in runs.records).items() if number > 1]
    if twice:
        raise UsageError(f"{directory / 'runs.jsonl'}: run {twice[0]} is there twice.")
    known = {workload.name: workload for workload in manifest.workloads}
    labels = {scheme.label for scheme in manifest.schemes}
    if manifest.baseline not in labels:
        raise UsageError(f"{directory / 'manifest.json'}: the baseline is none of its schemes.")
    for run in runs.records:
        if run.workload not in known or run.scheme not in labels:
            raise UsageError(
                f"{directory / 'runs.jsonl'}: run {run.id} is of {run.scheme} under"
                f" {run.workload}, which the manifest does not have; do not mix directories."
            )
    read = tuple(
        _figure(directory, run, known[run.workload],
                manifest.observe is not False or manifest.window_ms > 0)
        for run in sorted(runs.records, key=lambda run: run.boot)
    )
    warnings = (runs.warnings + boots.warnings + stalls.warnings(runs.records)
                + in_force.warnings(manifest))
    booted = tuple(sorted(boots.records, key=lambda boot: boot.boot))
    return Results(directory, manifest, read, booted, warnings)


def _figure(directory: Path, run: RunRecord, workload: Workload, observe: bool) -> RunFigure:
    if not run.valid:
        return RunFigure(run, {}, None, run.reason or "invalid without a reason")
    values, reason = parse.guest_figures(directory, run, workload)
    if reason:
        return RunFigure(run, {}, None, reason)
    mean = stats.mean(tuple(values.values()), workload.better)
    seen = _observation(directory, run, values) if observe else None
    return RunFigure(run, values, mean, "", seen, waited.read(directory, run.id))


def _observation(directory: Path, run: RunRecord, measured: Collection[str]) -> Observation:
    folder = (directory / run.guests[0].output).parent

    def text(file: Path) -> str:
        return parse.read_text(file) if file.is_file() else ""

    def snapshot(name: str, when: str) -> observed.Snapshot:
        return observed.parse(text(folder / observed.file_name(name, when)))

    return observed.observation(
        run, lambda name: observed.between(snapshot(name, "before"), snapshot(name, "after")),
        measured, windows.parse(text(folder / windows.FILE), run))


def summarize(results: Results) -> Summary:
    """Compute every cell that the manifest asks for."""
    m = results.manifest
    invalid = Counter(run.key for run in results.invalid())
    cells = {
        (scheme.label, workload.name, vms): _cell(results, scheme, workload, vms, invalid)
        for workload in m.workloads
        for scheme in m.schemes
        for vms in m.vms
    }
    cells = {key: _with_ideal(cell, cells) for key, cell in cells.items()}
    compared = {key: base for key, cell in cells.items() if (base := _baseline(cell, m, cells))}
    alike = stats.alikeness(_by_boot(results, key) for key in cells)
    raw = [stats.careful(stats.p_value(cells[key].values, base.values), alike or 0, m.reps)
           for key, base in compared.items()]
    for (key, base), p in zip(compared.items(), stats.holm(raw), strict=True):
        cells[key] = _with_baseline(cells[key], base, p)
    placebos = placebo.labels(m)
    far = placebo.spreads(cells.values(), placebos)
    cells = {key: placebo.judged(cell, placebos, far) for key, cell in cells.items()}
    units = {key: results.units(*key) for key in cells}
    smallest_n = stats.smallest_n(max(1, len(compared)), alike or 0, m.reps)
    return Summary(
        results=results,
        cells=tuple(cells.values()),
        comparisons=len(compared),
        smallest_n=smallest_n,
        alikeness=alike,
        valid=all(len(cell.values) >= m.reps * m.boots for cell in cells.values()),
        verdicts=verdict.verdicts(m, cells, units, alike, smallest_n),
        ideals=verdict.ideals(m, cells, units, alike),
    )


def _by_boot(results: Results, key: Key) -> list[list[float]]:
    """A cell's values by boot of the host, which is one of the guests, too."""
    found: dict[int, list[float]] = defaultdict(list)
    for run in results.of(*key):
        if run.mean is not None:
            found[run.run.boot].append(run.mean)
    return list(found.values())


def _cell(
    results: Results, scheme: Scheme, workload: Workload, vms: int, invalid: Counter[Key]
) -> Cell:
    runs = results.of(scheme.label, workload.name, vms)
    values = tuple(run.mean for run in runs if run.mean is not None)
    return Cell(
        scheme=scheme.label,
        workload=workload.name,
        vms=vms,
        vcpus=results.manifest.vcpus,
        pcpus=results.manifest.pcpus,
        metric=workload.metric,
        unit=workload.unit,
        better=workload.better,
        values=values,
        median=stats.median(values),
        mean=stats.mean(values, workload.better),
        ideal=None,
        vs_baseline=None,
        significant=False,
        invalid_runs=invalid[(scheme.label, workload.name, vms)],
        spread=stats.spread(values),
        fairness=_fairness(runs),
        min=min(values, default=None),
        max=max(values, default=None),
        bimodal=modes.bimodal(values),
        busy=figures.middle(_busy(run, workload.unit == "s") for run in runs),
        observed=_observed(results.observations(scheme.label, workload.name, vms),
                           parts(scheme, workload, vms)),
        waits=waited.of_runs([run.waits for run in runs if run.waits],
                             parts(scheme, workload, vms)),
        disturbed=dict(sum((Counter(run.run.disturbed) for run in runs), Counter[str]())),
    )


def _busy(run: RunFigure, times: bool) -> float | None:
    """CPUs that a VM of the run took, the mean of its VMs; None when one is not known.

    `times`: the figures are seconds of a part of the command. The rest is its start, which is
    not in the figure; one CPU makes it, so the part has what is left of the CPU time at least.
    """
    shares = []
    for one in run.run.guests:
        if one.cpu is None or one.began is None or one.ended is None or one.ended <= one.began:
            return None
        took = one.ended - one.began
        part = run.values.get(one.guest, took) if times else took
        share = max(one.cpu / took, (one.cpu - (took - part)) / part)
        shares.append(min(share, run.run.pcpus))
    return sum(shares) / len(shares) if shares else None


def parts(scheme: Scheme, workload: Workload, vms: int) -> tuple[Which, ...]:
    """All VMs of a cell; then, if they are not alike, the first and the others."""
    alike = scheme.neighbour is None and not workload.neighbour
    return ("all",) if alike or vms < 2 else ("all", "first", "others")


def _observed(seen: Sequence[Observation], which: Sequence[Which]) -> Observed | None:
    if not seen:
        return None
    guests = [guest for one in seen for guest in one.guests]
    return Observed(
        spinning=figures.middle(figures.spinning(one) for one in seen),
        counters=figures.total(guest.counters for guest in guests),
        waits=histogram.total([guest.waits for guest in guests]),
        host=figures.total(one.host for one in seen),
        share_deviation=figures.middle(figures.share_deviation(one) for one in seen),
        flushes=flushes.figures(flushes.merged(part for one in seen for part in one.flushes)),
        preemptions=_preemptions(seen, which),
        windows=windows.figures(one.samples for one in seen),
        cpu_waits=cpu_waits.figures((one.cpu_waits, one.seconds) for one in seen),
        window_costs=epochs.by_window(trace for one in seen for trace in one.epochs),
    )


def _preemptions(
    seen: Sequence[Observation], which: Sequence[Which]
) -> tuple[Preemptions, ...] | None:
    if not any(preemptions.are_counted(one.host) for one in seen):
        return None
    return tuple(figures.medians([figures.preempted(one, vms) for one in seen])
                 for vms in which)


def _fairness(runs: Sequence[RunFigure]) -> float | None:
    """Largest over smallest per-VM median; None with one VM or no runs."""
    by_guest = per_guest(runs)
    medians = [m for values in by_guest.values() if (m := stats.median(values)) is not None]
    return max(medians) / min(medians) if len(medians) > 1 else None


def per_guest(runs: Sequence[RunFigure]) -> dict[str, list[float]]:
    """Guest to its figures over the runs."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for guest, value in run.values.items():
            found[guest].append(value)
    return dict(sorted(found.items()))


def _with_ideal(cell: Cell, cells: dict[Key, Cell]) -> Cell:
    """`ideal`: the scheme's own 1-VM median times the overcommit (rates: over it).

    Null when the experiment has no 1-VM cell. The overcommit is taken relative
    to that of one VM, so a guest with more vCPUs than pCPUs starts at 1.
    """
    single = cells.get((cell.scheme, cell.workload, 1))
    if single is None:
        return cell
    return replace(cell, ideal=stats.ideal(single.median, cell.relative_load, cell.better))


def _baseline(cell: Cell, manifest: Manifest, cells: dict[Key, Cell]) -> Cell | None:
    """What the cell is compared with; None for the baseline and without values."""
    base = cells[(manifest.baseline, cell.workload, cell.vms)]
    if cell.scheme == manifest.baseline or not cell.values or not base.values:
        return None
    return base


def _with_baseline(cell: Cell, base: Cell, p: float) -> Cell:
    assert cell.median is not None and base.median is not None
    return replace(
        cell,
        vs_baseline=cell.median / base.median - 1,
        significant=p < stats.ALPHA and modes.may_have_star(cell, base),
        p_value=p,
    )


def as_json(summary: Summary) -> str:
    """summary.json: the documented keys, and a few more."""
    results, m = summary.results, summary.results.manifest
    document = {
        "experiment": m.experiment,
        "kernel": m.kernel,
        "base_version": m.base_version,
        "backend": m.backend,
        "machine": m.machine,
        "valid": summary.valid,
        "baseline": m.baseline,
        "test": {
            "name": stats.TEST,
            "comparisons": summary.comparisons,
            "smallest_n": summary.smallest_n,
            "alikeness": summary.alikeness,
        },
        "runs": {
            "valid": len(results.runs) - len(results.invalid()),
            "invalid": len(results.invalid()),
        },
        "boots": {"ok": len(results.boots) - len(results.failed_boots()),
                  "failed": len(results.failed_boots())},
        "verdicts": [asdict(one) for one in summary.verdicts],
        "ideals": [asdict(one) for one in summary.ideals],
        "warnings": results.warnings,
        "findings": [asdict(finding) for finding in results.findings()],
        "cells": [asdict(cell) for cell in summary.cells],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
