# SPDX-License-Identifier: GPL-2.0-only
"""From a sweep's file to its runs, and from runs to units of work. Pure, but for the file."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from lab.core.errors import UsageError
from lab.core.model import Experiment, Scheme, Workload
from lab.plan import config, machine_model
from lab.plan.sweeps import Sweep, Value
from lab.report import placebo, sensitivity
from lab.sweep.model import (
    Build,
    Run,
    Setting,
    Unit,
    digest,
    machine_content,
    workload_content,
)

MOST_RUNS = 1_000_000
MOST_SEEDS = 100_000


def load(file: Path) -> Sweep:
    """The sweep in a file; UsageError for what is wrong with it."""
    sweep = config.named(Sweep, file)
    sweep = replace(sweep, machines=machines(sweep.machines))
    where = f"{file.name}: "
    for key in ("schemes", "workloads", "vms", "vcpus", "pcpus", "machines"):
        _once(getattr(sweep, key), f"{where}{key}")
    for name in sweep.machines:
        machine_model.load(name)
    if not 1 <= sweep.seeds <= MOST_SEEDS or sweep.per_boot < 1:
        raise UsageError(f"{where}seeds must be from 1 to {MOST_SEEDS}, per_boot at least 1")
    for name in sweep.vary:
        if name not in sweep.schemes:
            raise UsageError(f"{where}vary names {name}, which schemes does not")
    spans = [*sweep.search.host, *sweep.search.guest] if sweep.search else []
    if bool(sweep.vary) != bool(sweep.host or sweep.guest or spans):
        raise UsageError(f"{where}vary takes values in host or guest, or spans of a search,"
                         " and they take vary")
    for name, values in (*sweep.host.items(), *sweep.guest.items()):
        _once(values, f"{where}{name}")
    _check_default(sweep, where)
    _check_limit(sweep, where)
    if sweep.search:
        _check_search(sweep, where)
    if sweep.hunt and (sweep.vary or sweep.search or sweep.hunt.seeds_a_boot < 1):
        raise UsageError(f"{where}a hunt varies nothing but its seeds, and its seeds_a_boot is at"
                         " least 1")
    for one in settings(sweep):
        config.check_scheme(one.scheme, where.removesuffix(": "))
    _differ(sweep, where)
    if (count := len(runs(sweep, Build("", "", "")))) > MOST_RUNS:
        raise UsageError(f"{where}{count} runs are more than {MOST_RUNS}")
    return sweep


def machines(names: Iterable[str]) -> tuple[str, ...]:
    """Machine models; `zen4:*` is zen4 and all that `./pvsync sensitivity zen4` plays."""
    found: list[str] = []
    for name in names:
        base = name.removesuffix(":*")
        found += ([one.model(base) for one in sensitivity.playable(base)[0]] if base != name
                  else [name])
    return tuple(found)


def _once(values: Sequence[object], where: str) -> None:
    if not values or len(set(values)) < len(values):
        raise UsageError(f"{where} must name at least one, and none twice")


def _differ(sweep: Sweep, where: str) -> None:
    """Refuse what is the same but for its name: its runs would be the same ones."""
    held = sweep.search.held_out if sweep.search else ()
    loads = workloads((*sweep.workloads, *held), sweep.name)
    _apart({one.label: one.content() for one in settings(sweep)}, f"{where}settings")
    _apart({name: machine_content(name) for name in sweep.machines}, f"{where}machines")
    _apart({load.name: workload_content(load) for load in loads}, f"{where}workloads")


def _apart(contents: Mapping[str, object], where: str) -> None:
    seen: dict[str, str] = {}
    for name, content in contents.items():
        if (other := seen.setdefault(digest(content), name)) != name:
            raise UsageError(f"{where} {other} and {name} are the same but for their names")


def _check_default(sweep: Sweep, where: str) -> None:
    varied = {**sweep.guest, **sweep.host}
    if not (sweep.default or sweep.as_is):
        return
    if not varied or (sweep.default and sweep.as_is):
        raise UsageError(f"{where}default or as_is, not both, takes values in host or guest")
    if sweep.default and {*sweep.default} != {*varied}:
        raise UsageError(f"{where}default must name each of {', '.join(varied)}, and no other")
    for name, value in sweep.default.items():
        if value not in varied[name]:
            raise UsageError(f"{where}{name}: the default {value} is none of its values")


def _check_limit(sweep: Sweep, where: str) -> None:
    for name, limits in sweep.limit.items():
        if name not in sweep.workloads:
            raise UsageError(f"{where}limit names {name}, which workloads does not")
        _once(limits, f"{where}limit of {name}")
        if min(limits) <= 0:
            raise UsageError(f"{where}limit of {name}: a limit is a figure above 0")
    if sweep.limit and (len(sweep.vms) < 2 or sweep.hunt):
        raise UsageError(f"{where}limit takes at least two numbers of vms, and no hunt")


def _check_search(sweep: Sweep, where: str) -> None:
    search = sweep.search
    assert search
    _once(search.held_out, f"{where}held_out")
    if seen := {*search.held_out} & {*sweep.workloads}:
        raise UsageError(f"{where}{', '.join(sorted(seen))} cannot be held out and seen")
    if sweep.host or sweep.guest or len(sweep.vary) != 1 or sweep.vary[0] == sweep.schemes[0]:
        raise UsageError(f"{where}a search has spans in place of host and guest, and varies one"
                         " scheme that is not the first")
    numbers = (search.trials, search.width, search.finalists, search.held_seeds)
    if min(numbers) < 1 or not 0 < search.keep <= 1:
        raise UsageError(f"{where}trials, width, finalists and held_seeds must be above 0, and"
                         " keep from 0 to 1")
    for name, span in (*search.host.items(), *search.guest.items()):
        least = 1 if span.log else 0
        if not span.words and not (least <= span.low < span.high and span.step >= 1):
            raise UsageError(f"{where}{name} takes words, or low from {least} and a larger high")


def settings(sweep: Sweep) -> list[Setting]:
    """All schemes, those in `vary` once with each of the values."""
    found: list[Setting] = []
    for scheme in config.select_schemes(sweep.schemes, sweep.name):
        if scheme.name not in sweep.vary or sweep.as_is:
            found.append(Setting(scheme))
        if scheme.name not in sweep.vary:
            continue
        names = [*sweep.guest, *sweep.host]
        for values in product(*sweep.guest.values(), *sweep.host.values()):
            pairs = list(zip(names, values, strict=True))
            found.append(setting(scheme, dict(pairs[:len(sweep.guest)]),
                                 dict(pairs[len(sweep.guest):])))
    return found


def placebos(sweep: Sweep) -> list[Setting]:
    """Those that change nothing of the first scheme."""
    first, *others = settings(sweep)
    alike = placebo.alike(first.scheme, {one.label: one.scheme for one in others})
    return [one for one in others if one.label in alike]


def setting(scheme: Scheme, guest: dict[str, Value], host: dict[str, Value]) -> Setting:
    """A scheme with these boot arguments and host parameters in place of its own."""
    kept = [one for one in scheme.guest if one.partition("=")[0] not in guest]
    values = [(name, str(value)) for name, value in (*guest.items(), *host.items())]
    changed = replace(
        scheme, guest=(*kept, *(f"{name}={value}" for name, value in guest.items())),
        host={**scheme.host, **{name: str(value) for name, value in host.items()}})
    return Setting(changed, tuple(values))


def workloads(names: Iterable[str], source: str) -> list[Workload]:
    """Workloads by name; UsageError when there is none of a name."""
    there = config.workloads()
    return [config.pick(name, there, "workload", source) for name in names]


def runs(sweep: Sweep, build: Build, *, of: Iterable[Setting] | None = None,
         seeds: Iterable[int] | None = None, names: Iterable[str] | None = None) -> list[Run]:
    """All runs of the file, or those of some settings, seeds, and workloads."""
    seeds = range(1, sweep.seeds + 1) if seeds is None else seeds
    chosen = settings(sweep) if of is None else of
    loads = workloads(sweep.workloads if names is None else names, sweep.name)
    of_boot = sweep.hunt.seeds_a_boot if sweep.hunt else 0
    return [Run(build, one, machine, vcpus, pcpus, vms, load, seed, sweep.guest_mem,
                sweep.variant, sweep.host_variant, of_boot)
            for seed, machine, vcpus, pcpus, one, load, vms in product(
                seeds, sweep.machines, sweep.vcpus, sweep.pcpus, chosen, loads, sweep.vms)]


def units(wanted: Iterable[Run], made: Collection[str], per_boot: int) -> list[Unit]:
    """The runs that were not made, as boots of hosts.

    Runs share a host, and its guests, when they have the same seed, machine model and numbers of
    CPUs. Their guests must have the same boot arguments, CPU, kernel and parameters of their VMs'
    own. What may differ are the host's parameters, the workload, and how many of the guests run.
    Where several seeds go on from one boot, a unit of which a run lacks is made as a whole.
    """
    boots: dict[str, dict[str, list[Run]]] = {}
    each = {run.key: run for run in wanted}
    lacking = {_boot(run) for run in each.values() if run.of_boot and run.key not in made}
    for run in each.values():
        if run.key not in made or _boot(run) in lacking:
            settings = boots.setdefault(_boot(run), {})
            settings.setdefault(run.setting.label, []).append(run)
    return [Unit(tuple(run for of in part for run in of))
            for alike in boots.values()
            for group in _whole(alike.values())
            for part in _parts(group, per_boot)]


def _boot(run: Run) -> str:
    """What runs of one host have in common."""
    scheme = run.setting.scheme
    own = sorted(item for item in scheme.host.items() if item[0].startswith("vm."))
    return repr((run.build, run.boot_seed, run.machine, run.vcpus, run.pcpus, run.guest_mem,
                 run.variant, run.host_variant, scheme.guest, scheme.cpu, scheme.neighbour,
                 scheme.variant, scheme.boot_s, own))


def _whole(of: Iterable[list[Run]]) -> list[list[list[Run]]]:
    """Settings together that lack the same runs: each workload with each number of VMs.

    An experiment has all of them. Where some were made already, numbers of VMs go apart.
    """
    groups: dict[tuple[object, ...], list[list[Run]]] = {}
    for runs in of:
        loads = {run.workload.name for run in runs}
        vms = {run.vms for run in runs}
        seeds = {run.seed for run in runs}
        apart = [runs] if len(runs) == len(loads) * len(vms) * len(seeds) else [
            [run for run in runs if run.vms == count] for count in sorted(vms)]
        for part in apart:
            shape = tuple(sorted((run.workload.name, run.vms) for run in part))
            groups.setdefault(shape, []).append(part)
    return list(groups.values())


def _parts(group: list[list[Run]], per_boot: int) -> Iterable[list[list[Run]]]:
    size = max(1, per_boot * len({run.seed for run in group[0]}) // len(group[0]))
    return (group[at:at + size] for at in range(0, len(group), size))


def experiment(sweep: Sweep, unit: Unit) -> Experiment:
    """What the lab plays for a unit: one run of each in one boot, or from it for each seed."""
    first = unit.runs[0]
    labels = list(dict.fromkeys(run.setting.label for run in unit.runs))
    schemes = {run.setting.label: run.setting.scheme for run in unit.runs}
    named = tuple(replace(schemes[label], name=name, label=name)
                  for label, name in zip(labels, map(short, range(len(labels))), strict=True))
    loads = {run.workload.name: run.workload for run in unit.runs}
    # A setting alone in a hunt takes no unmeasured runs: nothing is compared.
    alone = sweep.hunt and len(named) == 1
    made = Experiment(
        name=sweep.name, about=sweep.about, schemes=named, workloads=tuple(loads.values()),
        vms=tuple(dict.fromkeys(run.vms for run in unit.runs)), vcpus=first.vcpus,
        pcpus=first.pcpus, reps=1, boots=len(unit.seeds), guest_mem=first.guest_mem,
        max_repeats=0 if sweep.hunt else sweep.max_repeats,  # a second try would hide the first
        variant=first.variant, host_variant=first.host_variant,
        share=() if alone else tuple(scheme.name for scheme in named))
    config.check(replace(made, share=()), sweep.name)
    return made


def short(place: int) -> str:
    """What a unit's setting is called in its host: labels are too long for files."""
    return f"s{place}"
