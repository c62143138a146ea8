# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of a sweep's rows: all that its pages show, as `lab.report.swept` has it."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.core import files, paths
from lab.core.errors import UsageError
from lab.plan.sweeps import Sweep
from lab.report import findings, jsonlines, swept
from lab.report.swept import Facts, Found, Hunted, Swept, Versus
from lab.sweep import analysis, capacity, grid
from lab.sweep.model import Build
from lab.sweep.store import Row, Store

PLACE = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")
"""The folders of an absolute path, in the text of an error."""


def of(sweep: Sweep, directory: Path, file: Path) -> Swept:
    """What the rows of a directory say of a sweep's file; UsageError without a row of it."""
    store = Store(directory)
    latest = analysis.latest(store.rows.values())
    rows = analysis.of_sweep(sweep, latest)
    if not rows:
        raise UsageError(f"{directory} has no run of a sweep: make some with"
                         f" ./pvsync sweep {file} --out {directory}")
    command = ("./pvsync", "sweep", _shown(file))
    facts = _facts(latest, _lacking(sweep, rows), len(store.rows), swept.parts(directory))
    if sweep.hunt:
        return Swept(sweep, command, facts, placebos=(), ranking=(), unranked=(), versus=(),
                     marginals=(), values=(), flatness=(), cells=(), hunted=hunted(rows))
    ranked = analysis.ranking(rows, sweep.schemes[0])
    placebos = _placebos(sweep)
    far = swept.distance(ranked, placebos)
    valued = analysis.values(rows, sweep.schemes[0])
    return Swept(
        sweep=sweep, command=command, facts=facts, placebos=placebos,
        ranking=tuple(one for one in ranked if one.runs),
        unranked=tuple(one.setting for one in ranked if not one.runs),
        versus=tuple(_versus(sweep, latest, rows, far)),
        marginals=tuple(analysis.marginals(rows, sweep.schemes[0])), values=tuple(valued),
        flatness=tuple(analysis.flatness(ranked, valued, far)),
        cells=tuple(analysis.cells(rows)), carried=tuple(capacity.carried(sweep, rows)))


def hunted(rows: Sequence[Row]) -> Hunted:
    """What the rows of a hunt show. One whose run never began tells of no fault."""
    begun = [row for row in rows if row.tries]
    return Hunted(
        len({row.seed for row in begun}), dict(sorted(Counter(map(_place, begun)).items())),
        tuple(Found(findings.kind(row.reason), _place(row), row.seed, row.unit,
                    PLACE.sub("", row.reason))
              for row in sorted(begun, key=lambda row: (_place(row), row.seed))
              if not row.valid))


def _place(row: Row) -> str:
    return f"{row.setting}, {row.workload}"


def write(found: Swept, directory: Path) -> None:
    """Write swept.FILE: no option of a cluster is in it, and of marginals no single run."""
    kept = replace(found, sweep=replace(found.sweep, cluster={}),
                   marginals=tuple(replace(one, ratios=()) for one in found.marginals))
    files.replace(directory / swept.FILE, jsonlines.as_json(kept))


def _shown(file: Path) -> str:
    """As the command has it in a checkout."""
    whole = file.resolve()
    return str(whole.relative_to(paths.ROOT)) if whole.is_relative_to(paths.ROOT) else str(file)


def _versus(sweep: Sweep, latest: Sequence[Row], rows: Sequence[Row],
            far: float | None) -> list[Versus]:
    """Beside the defaults; after a search by the workloads that no trial saw."""
    if sweep.search:
        rows = [row for row in latest if row.workload in sweep.search.held_out]
        held = swept.distance(analysis.ranking(rows, sweep.schemes[0]), _placebos(sweep))
        far = max((one for one in (far, held) if one is not None), default=None)
    return [Versus(scheme, default, tuple(
        one for one in analysis.ranking([row for row in rows if row.scheme == scheme], default)
        if one.runs), far) for scheme, default in sweep.defaults().items()]


def _placebos(sweep: Sweep) -> tuple[str, ...]:
    return tuple(one.label for one in grid.placebos(sweep))


def _lacking(sweep: Sweep, rows: Sequence[Row]) -> int:
    """Runs of the file without a row."""
    wanted = {(run.setting.label, run.workload.name, run.vms, run.vcpus, run.pcpus, run.machine,
               run.seed) for run in grid.runs(sweep, Build("", "", ""))}
    return len(wanted - {analysis.identity(row) for row in rows})


def _facts(rows: Sequence[Row], lacking: int, all_of_them: int, parts: int) -> Facts:
    last = max(rows, key=lambda row: row.made)
    reasons = [PLACE.sub("", row.reason) for row in rows if not row.valid]
    return Facts(
        runs=len(rows), lacking=lacking, left_out=all_of_them - len(rows),
        failed={reason: reasons.count(reason) for reason in sorted({*reasons})},
        boots=len({row.unit for row in rows}),
        workers=len({row.worker for row in rows if row.worker}),
        core_s=sum(row.core_s for row in rows), wall_s=sum(row.wall_s for row in rows),
        made=time.strftime("%Y-%m-%d", time.gmtime(last.made)), kernel=last.kernel,
        images=last.images, emulator=last.emulator,
        commits=tuple(sorted({row.commit for row in rows})), parts=parts)
