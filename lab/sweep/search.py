# SPDX-License-Identifier: GPL-2.0-only
"""Looks for the best setting: waves of trials, of which the better half gets more seeds.

Optuna chooses what to try; its journal, a file beside the rows, has what it knows. Runs are the
store's, so a search that was stopped makes none of them twice. What a setting is worth is its
figure over the first scheme's, of the same workload, VMs and seed, as a geometric mean; below 1 is
better. Workloads that no trial saw, with other seeds, decide among the finalists and what there
was before, the varied scheme as it is in schemes.toml.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from lab.core import stats
from lab.core.model import Scheme
from lab.core.progress import Progress
from lab.plan import config
from lab.plan.sweeps import Search, Span, Sweep, Value
from lab.run import records
from lab.sweep import grid
from lab.sweep.model import Build, Run, Setting, digest
from lab.sweep.store import Row, Store

JOURNAL = "search.journal"
JUDGING = ("trials", "finalists", "held_seeds")
"""Parts of a search that may change without its trials being other ones."""
FILE = "search.json"
HELD_SEEDS_FROM = 100_001
"""Seeds of the judgement begin here: no trial has them."""
Pair = tuple[str, int, int, int, str, int]
"""Workload, VMs, vCPUs, pCPUs, machine and seed: what is compared has all of them in common."""


class Prepared(Protocol):
    """What names the runs' kernels and images."""

    @property
    def build(self) -> Build: ...


class Maker(Protocol):
    """Has runs made; a `Campaign`."""

    @property
    def sweep(self) -> Sweep: ...
    @property
    def prepared(self) -> Prepared: ...
    @property
    def store(self) -> Store: ...
    @property
    def progress(self) -> Progress: ...

    def make(self, runs: Sequence[Run], name: str = "runs") -> list[Row]: ...


@dataclass(frozen=True)
class Judged:
    """A finalist, or what there was before, on workloads that no trial saw."""

    setting: str
    values: dict[str, str]
    seen: float | None
    """Its worth on the trials' workloads; None of what was no trial."""
    held: float | None
    """Its worth on those held out; None when a run of it failed."""
    ratios: tuple[float, ...]
    """Of each held-out run."""


def ratios(rows: Iterable[Row], base: Iterable[Row]) -> dict[Pair, float]:
    """Each run's time over the baseline's; a rate's the other way round: below 1 is better.

    Runs without a figure, and those whose baseline has none, are left out.
    """
    before = {_pair(row): row.figure for row in base}
    found = {}
    for row in rows:
        old = before.get(_pair(row))
        if row.figure and old:
            found[_pair(row)] = stats.speedup(old, row.figure, row.better)
    return found


def worth(values: Iterable[float]) -> float:
    """Geometric mean; infinite for nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.inf


def _pair(row: Row) -> Pair:
    return row.workload, row.vms, row.vcpus, row.pcpus, row.machine, row.seed


def run(maker: Maker, directory: Path) -> list[Row]:
    """The search and the judgement; their rows. Writes search.json."""
    search = maker.sweep.search
    assert search
    base, varied = (config.select_schemes((name,), maker.sweep.name)[0]
                    for name in (maker.sweep.schemes[0], maker.sweep.vary[0]))
    study = _study(search, directory, _name(maker, Setting(base), Setting(varied)))
    left = search.trials - sum(trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
                               for trial in study.trials)
    rows: list[Row] = []
    while left > 0:
        wave = [(trial, _setting(varied, trial, search))
                for trial in (study.ask() for _ in range(min(search.width, left)))]
        left -= len(wave)
        rows += _wave(maker, study, Setting(base), wave, search)
    done = [trial for trial in study.get_trials() if trial.state == TrialState.COMPLETE]
    best = sorted(done, key=lambda trial: trial.value or math.inf)
    finalists: dict[str, tuple[Setting, float | None]] = {"": (Setting(varied), None)}
    for trial in best:
        chosen = _of(varied, trial.params, search)
        if len(finalists) <= search.finalists:
            finalists.setdefault(chosen.label, (chosen, trial.value))
    judged, more = judge(maker, Setting(base), list(finalists.values()), search)
    records.write_json(directory / FILE, {
        "baseline": base.name, "trials": len(study.trials), "judged": [asdict(j) for j in judged]})
    maker.progress.say(said(judged))
    return rows + more


def _name(maker: Maker, base: Setting, varied: Setting) -> str:
    """What a study is called: trials of another search, build, workload or seed are not its."""
    assert maker.sweep.search
    asked = {name: value for name, value in asdict(maker.sweep.search).items()
             if name not in JUDGING}
    runs = grid.runs(maker.sweep, maker.prepared.build, of=(base, varied))
    return f"sweep-{digest([asked, [run.key for run in runs]])}"


def _study(search: Search, directory: Path, name: str) -> optuna.Study:
    """The study in the directory; trials that a killed search left open are tried again."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(directory / JOURNAL)))
    known = {one.study_name for one in storage.get_all_studies()}
    done = (sum(trial.state.is_finished() for trial in optuna.load_study(
        study_name=name, storage=storage).trials) if name in known else 0)
    sampler = optuna.samplers.TPESampler(seed=search.sampler_seed + done, constant_liar=True)
    study = optuna.create_study(storage=storage, study_name=name, sampler=sampler,
                                load_if_exists=True)
    for trial in study.trials:
        if trial.state == TrialState.RUNNING:
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params)
    return study


def _wave(maker: Maker, study: optuna.Study, base: Setting,
          wave: list[tuple[Trial, Setting]], search: Search) -> list[Row]:
    """Play trials seed by seed; after each the worse ones end."""
    sweep, build = maker.sweep, maker.prepared.build
    rows: dict[tuple[str, str], Row] = {}
    alive = wave
    for seed in range(1, sweep.seeds + 1):
        settings = {one.label: one for one in (base, *(setting for _, setting in alive))}
        runs = grid.runs(sweep, build, of=settings.values(), seeds=[seed])
        rows |= {(row.key, row.setting): row for row in maker.make(runs, f"trials, seed {seed}")}
        value = {trial.number: _value(rows.values(), base, setting, sweep)
                 for trial, setting in alive}
        ranked = sorted(alive, key=lambda one: value[one[0].number])
        kept = max(1, math.ceil(len(ranked) * search.keep)) if seed < sweep.seeds else len(ranked)
        for trial, _ in ranked:
            if math.isfinite(value[trial.number]):
                trial.report(value[trial.number], seed)
        for trial, _ in ranked[kept:]:
            study.tell(trial, state=TrialState.PRUNED)
        alive = ranked[:kept]
    for trial, _ in alive:
        if math.isfinite(value[trial.number]):
            study.tell(trial, value[trial.number])
        else:
            study.tell(trial, state=TrialState.FAIL)
    return list(rows.values())


def _value(rows: Iterable[Row], base: Setting, setting: Setting, sweep: Sweep) -> float:
    """A trial's worth so far; infinite when a run of it has failed: such a setting is no good."""
    own = [row for row in rows if row.setting == setting.label]
    if not all(row.valid for row in own):
        return math.inf
    return worth(ratios(own, [row for row in rows if row.setting == base.label]).values())


def judge(maker: Maker, base: Setting, finalists: Sequence[tuple[Setting, float | None]],
          search: Search) -> tuple[list[Judged], list[Row]]:
    """Finalists on the held-out workloads, the best first; and the rows of that, placebos' too."""
    seeds = range(HELD_SEEDS_FROM, HELD_SEEDS_FROM + search.held_seeds)
    settings = {one.label: one for one in (
        base, *grid.placebos(maker.sweep), *(setting for setting, _ in finalists))}
    runs = grid.runs(maker.sweep, maker.prepared.build, of=settings.values(), seeds=seeds,
                     names=search.held_out)
    rows = maker.make(runs, "held-out workloads")
    old = [row for row in rows if row.setting == base.label]
    judged = []
    for setting, seen in finalists:
        own = [row for row in rows if row.setting == setting.label]
        found = tuple(ratios(own, old).values())
        whole = bool(own) and len(found) == len(own)
        judged.append(Judged(setting.label, dict(setting.values), seen,
                             worth(found) if whole else None, found))
    return sorted(judged, key=lambda one: one.held or math.inf), rows


def said(judged: Sequence[Judged]) -> str:
    """Who is best where no trial looked, in a sentence."""
    best, before = judged[0], next(one for one in judged if not one.values)
    if best.held is None or before.held is None:
        return "The held-out runs of some finalists failed: nothing is decided."
    if best is before:
        return f"No setting is better than {before.setting} as it is on the held-out workloads."
    return (f"On the held-out workloads {best.setting} takes {best.held:.3f} of the baseline's"
            f" time, {before.setting} as it is {before.held:.3f}.")


def _setting(scheme: Scheme, trial: Trial, search: Search) -> Setting:
    for name, span in (*search.guest.items(), *search.host.items()):
        _suggest(trial, name, span)
    return _of(scheme, trial.params, search)


def _of(scheme: Scheme, params: Mapping[str, Value], search: Search) -> Setting:
    """The setting of a trial's values."""
    def values(spans: Mapping[str, Span]) -> dict[str, Value]:
        return {name: f"{span.prefix}{params[name]}" for name, span in spans.items()}

    return grid.setting(scheme, values(search.guest), values(search.host))


def _suggest(trial: Trial, name: str, span: Span) -> None:
    if span.words:
        trial.suggest_categorical(name, [str(word) for word in span.words])
    else:
        trial.suggest_int(name, span.low, span.high, log=span.log,
                          **({} if span.log else {"step": span.step}))


def results(directory: Path) -> list[Judged]:
    """What a search has decided; nothing when there was none."""
    file = directory / FILE
    if not file.exists():
        return []
    return [Judged(one["setting"], one["values"], one["seen"], one["held"], tuple(one["ratios"]))
            for one in json.loads(file.read_text())["judged"]]
