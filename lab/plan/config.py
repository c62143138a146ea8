# SPDX-License-Identifier: GPL-2.0-only
"""Read schemes, workloads and experiments from TOML into the classes of `model`.

    lab/schemes.toml            one table per scheme
    lab/workloads/<name>.toml   one workload
    lab/experiments/<name>.toml one experiment; a path to a .toml file works too

Everything wrong with them is a UsageError of one sentence that names the file,
the key and, where there are some, the valid choices.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal, TypeVar

from lab.core import paths
from lab.core.decode import DecodeError, decode, read_toml, suggest
from lab.core.errors import UsageError
from lab.core.model import Experiment, Scheme, Workload
from lab.plan import in_force, kconfig, known

T = TypeVar("T")
Wanted = bool | Literal["locks", "tlb", "ecs", "all"]
"""How `observe` is written; "all" is the same as true."""

SCHEMES = paths.LAB / "schemes.toml"
WORKLOADS = paths.LAB / "workloads"
EXPERIMENTS = paths.LAB / "experiments"
TEST_VARIANT = "test"
COMMAND_TIMEOUT_S = 600.0
MOST_TIMEOUT_S = 500_000
"""Almost six days. What waits for it counts milliseconds in 31 bits, and kernels that
check themselves get four times as long."""
MAX_VMS = 64
MAX_CPUS = 4096
WINDOW_MS = (10, 60_000)
MOST_DISTURB_MS = 3_600_000
GIVEN = ("name", "label")
"""Keys that no file has: they come from its name, or a table's."""
NUMBERS = ("vms", "vcpus", "pcpus", "reps", "boots", "guest_mem", "max_repeats", "window_ms",
           "disturb_ms", "pin")
"""What the command line may change in an experiment and is the same in both."""


@dataclass(frozen=True)
class _Names:
    """What an experiment says in TOML in other words than `Experiment`."""

    schemes: tuple[str, ...]
    workloads: tuple[str, ...]
    observe: Wanted = False


@dataclass(frozen=True)
class Overrides:
    """What the command line changes in an experiment; None leaves it as it is."""

    schemes: tuple[str, ...] | None = None
    workloads: tuple[str, ...] | None = None
    command: str | None = None
    timeout_s: float | None = None
    vms: tuple[int, ...] | None = None
    vcpus: int | None = None
    pcpus: int | None = None
    reps: int | None = None
    boots: int | None = None
    guest_mem: int | None = None
    max_repeats: int | None = None
    observe: Wanted | None = None
    window_ms: int | None = None
    variant: str | None = None
    host_variant: str | None = None
    disturb: tuple[str, ...] | None = None
    disturb_ms: int | None = None
    pin: bool | None = None


def schemes(file: Path = SCHEMES) -> dict[str, Scheme]:
    """All schemes by name, in the file's order."""
    found = {}
    for name, table in _read(file).items():
        if not isinstance(table, Mapping):
            raise UsageError(f"{_short(file)}: '{name}' must be a table, [{name}].")
        found[name] = _decode(Scheme, table, file, name, name=name, label=name)
        if found[name].variant:
            _check_variant(found[name].variant, f"{_short(file)}: scheme {name}")
    return found


def workloads(folder: Path = WORKLOADS) -> dict[str, Workload]:
    """All workloads by name."""
    return {file.stem: _workload(file) for file in sorted(folder.glob("*.toml"))}


def experiments(folder: Path = EXPERIMENTS) -> dict[str, Experiment]:
    """All experiments by name."""
    return {file.stem: experiment(str(file)) for file in sorted(folder.glob("*.toml"))}


def experiment(name: str, change: Overrides | None = None) -> Experiment:
    """The experiment of that name, or in that file, with the changes applied."""
    file = _find_experiment(name)
    change = change or Overrides()
    table = _read(file) | ({} if change.disturb is None else {"disturb": change.disturb})
    changes = {key: value for key, value in asdict(change).items() if value is not None}
    words = {field.name for field in fields(_Names)}
    plan = _decode(Experiment, {key: table[key] for key in table if key not in words}, file,
                   name=file.stem, schemes=(), workloads=())
    names = _decode(_Names, table, file, strict=False)
    wanted: Wanted = changes.get("observe", names.observe)
    picked = select_schemes(changes.get("schemes", names.schemes), _source(change.schemes, file))
    if change.command is not None:
        chosen: tuple[Workload, ...] = (command_workload(change.command, change.timeout_s),)
    else:
        known = workloads()
        chosen = tuple(pick(n, known, "workload", _source(change.workloads, file))
                       for n in changes.get("workloads", names.workloads))
        if change.timeout_s is not None:
            chosen = tuple(replace(w, timeout_s=change.timeout_s) for w in chosen)
    numbers = {key: value for key, value in changes.items() if key in NUMBERS}
    result = replace(plan, schemes=picked, workloads=chosen,
                     variant=change.variant or _variant(plan.variant, picked),
                     host_variant=change.host_variant or plan.host_variant,
                     observe=True if wanted == "all" else wanted, **numbers)
    check(result, f"{_short(file)}" if change == Overrides() else f"experiment {file.stem}")
    return result


def select_schemes(names: Iterable[str], source: str = "--schemes") -> tuple[Scheme, ...]:
    """Schemes by name; the second of the same name gets the label "name:2"."""
    there, seen, picked = schemes(), dict[str, int](), list[Scheme]()
    for name in names:
        scheme = pick(name, there, "scheme", source)
        check_scheme(scheme, source)
        seen[name] = seen.get(name, 0) + 1
        label = name if seen[name] == 1 else f"{name}:{seen[name]}"
        picked.append(replace(scheme, label=label))
    return tuple(picked)


def check_scheme(scheme: Scheme, source: str) -> None:
    """UsageError when it has a parameter or a value that the kernel sources here do not know.

    Those in `refused` have to be wrong instead.
    """
    where = f"{source}: scheme {scheme.name}: "
    for argument in (*scheme.guest, *(scheme.neighbour or ())):
        if wrong := known.wrong_argument(argument):
            raise UsageError(f"{where}{wrong}.")
    in_force.check_expect(scheme.expect, where)
    for name in scheme.refused:
        if name not in scheme.host:
            raise UsageError(f"{where}refused names '{name}', which host does not have.")
    for name, value in scheme.host.items():
        wrong = known.wrong_parameter(name, value)
        if wrong and name not in scheme.refused:
            raise UsageError(f"{where}{wrong}.")
        if not wrong and name in scheme.refused:
            raise UsageError(f"{where}the kernel takes {name} = '{value}', it is not refused.")


def command_workload(command: str, timeout_s: float | None = None) -> Workload:
    """The workload of `--cmd`: its figure is the command's elapsed seconds."""
    if not command.strip():
        raise UsageError("--cmd needs a command, for example --cmd 'make -j2'.")
    return Workload(
        name="cmd",
        about=f"the command: {command}",
        command=command,
        metric="elapsed",
        unit="s",
        better="lower",
        pattern="",
        timeout_s=COMMAND_TIMEOUT_S if timeout_s is None else timeout_s,
    )


def guest_packages(experiment: Experiment) -> tuple[str, ...]:
    """Debian packages that the experiment's workloads need in the guests."""
    wanted = {package for workload in experiment.workloads for package in workload.packages}
    return tuple(sorted(wanted))


def _workload(file: Path) -> Workload:
    table = _read(file)
    if "like" in table:
        table = _model(table["like"], file) | {key: table[key] for key in table if key != "like"}
    workload = _decode(Workload, table, file, name=file.stem)
    check_workload(workload, _short(file))
    return workload


def _model(name: object, file: Path) -> dict[str, object]:
    """What the workload says that another one in `file` is like; it says all of it itself."""
    others = {other.stem: other for other in sorted(file.parent.glob("*.toml"))
              if other != file}
    table = _read(pick(str(name), others, "other workload", _short(file)))
    if "like" in table:
        raise UsageError(f"{_short(file)}: like names '{name}', which is like another one itself:"
                         f" name '{table['like']}'.")
    return table


def check_workload(workload: Workload, where: str) -> None:
    """UsageError, which begins with `where`, unless it can be run and its figure be read."""
    if workload.pattern:
        try:
            groups = re.compile(workload.pattern).groupindex
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"{where}: pattern is no regular expression: {error}.") from None
        if "value" not in groups:
            raise UsageError(f"{where}: pattern needs a group (?P<value>...).")
    elif workload.better != "lower":
        raise UsageError(f"{where}: an empty pattern means elapsed time: better = 'lower'.")
    if not workload.command.strip():
        raise UsageError(f"{where}: command is empty.")
    _check_timeout(workload, f"{where}: timeout_s")
    if not workload.name or "/" in workload.name:
        raise UsageError(f"{where}: the name is no name of a file.")


def _find_experiment(name: str) -> Path:
    if name.endswith(".toml"):
        file = Path(name)
        if not file.is_file():
            raise UsageError(f"There is no file {name}.")
        return file
    known = [file.stem for file in sorted(EXPERIMENTS.glob("*.toml"))]
    if name not in known:
        raise UsageError(
            f"There is no experiment '{name}'{suggest(name, known)} (known: {', '.join(known)})."
        )
    return EXPERIMENTS / f"{name}.toml"


def pick(name: str, known: Mapping[str, T], kind: str, source: str) -> T:
    """What is known by that name; UsageError, with what there is, when there is nothing."""
    if name not in known:
        shown = [n for n, value in known.items() if not getattr(value, "test_only", False)]
        raise UsageError(
            f"{source}: there is no {kind} '{name}'{suggest(name, known)}"
            f" (known: {', '.join(shown)})."
        )
    return known[name]


def _variant(variant: str, picked: tuple[Scheme, ...]) -> str:
    """A scheme for tests only brings the test build of the kernel with it."""
    if variant == "lab" and any(scheme.test_only for scheme in picked):
        return TEST_VARIANT
    return variant


def check(experiment: Experiment, where: str) -> None:
    """UsageError, which begins with `where`, unless it can be run."""
    for key in ("schemes", "workloads", "vms"):
        if not getattr(experiment, key):
            raise UsageError(f"{where}: {key} must name at least one.")
    if len(set(experiment.vms)) != len(experiment.vms):
        raise UsageError(f"{where}: vms lists a number twice.")
    names = [workload.name for workload in experiment.workloads]
    if len(set(names)) != len(names):
        raise UsageError(f"{where}: workloads lists a name twice.")
    limits = {"vcpus": (1, MAX_CPUS), "pcpus": (1, MAX_CPUS), "reps": (1, 10_000),
              "boots": (1, 10_000), "guest_mem": (64, 1 << 20), "max_repeats": (0, 100)}
    for key, (least, most) in limits.items():
        _within(getattr(experiment, key), least, most, f"{where}: {key}")
    for variant in filter(None, (experiment.variant, experiment.host_variant)):
        _check_variant(variant, where)
    for count in experiment.vms:
        _within(count, 1, MAX_VMS, f"{where}: vms")
    if experiment.window_ms:
        _within(experiment.window_ms, *WINDOW_MS, f"{where}: window_ms, unless 0,")
    _within(experiment.disturb_ms, 0, MOST_DISTURB_MS, f"{where}: disturb_ms")
    alone = 1 in experiment.vms or not all(one.neighbour for one in experiment.workloads)
    if "kill" in experiment.disturb and alone:
        raise UsageError(f"{where}: kill takes several VMs, and workloads with a neighbour.")
    for workload in experiment.workloads:
        _check_timeout(workload, f"{where}: the timeout")
    _check_share(experiment, where)


def _check_share(experiment: Experiment, where: str) -> None:
    """UsageError unless those that share guests differ in the parameters of all VMs alone."""
    for name in experiment.share:
        pick(name, schemes(), "scheme", f"{where}: share")
    found = [scheme for scheme in experiment.schemes if scheme.name in experiment.share]
    for scheme in found:
        alike = (scheme.guest, scheme.cpu, scheme.neighbour, scheme.variant) == (
            found[0].guest, found[0].cpu, found[0].neighbour, found[0].variant)
        if not alike or any(name.startswith("vm.") for name in scheme.host):
            raise UsageError(f"{where}: {scheme.label} cannot share the guests of"
                             f" {found[0].label}: they, or their VMs, are others.")


def _check_variant(name: str, where: str) -> None:
    try:
        kconfig.variant(name)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _check_timeout(workload: Workload, what: str) -> None:
    if not 0 < workload.timeout_s <= MOST_TIMEOUT_S:
        raise UsageError(f"{what} must be above 0 and at most {MOST_TIMEOUT_S} seconds.")


def _within(value: int, least: int, most: int, what: str) -> None:
    if not least <= value <= most:
        raise UsageError(f"{what} must be from {least} to {most}, not {value}.")


def named(kind: type[T], file: Path) -> T:
    """A dataclass of what a TOML file says, with the file's name; UsageError when it is wrong."""
    return _decode(kind, _read(file), file, name=file.stem)


def _source(change: object, file: Path) -> str:
    return _short(file) if change is None else "the command line"


def _read(file: Path) -> dict[str, object]:
    try:
        return read_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{_short(file)} cannot be read: {error.strerror}.") from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{_short(file)} is no valid TOML: {error}.") from None


def _decode(kind: type[T], table: Mapping[str, object], file: Path, where: str = "", *,
            strict: bool = True, **own: object) -> T:
    """A `kind` of what the table says and, in `own`, of what it may not say itself."""
    place = f" in {where}" if where else ""
    for key in own:
        if key in table:
            raise UsageError(f"{_short(file)}: unknown key '{key}'{place}.")
    try:
        return decode(kind, {**table, **own}, where=where, strict=strict, unnamed=GIVEN)
    except DecodeError as error:
        raise UsageError(f"{_short(file)}: {error}.") from None


def _short(file: Path) -> str:
    """Relative to the repository when it lies in it."""
    try:
        return str(file.resolve().relative_to(paths.ROOT))
    except ValueError:
        return str(file)
