# SPDX-License-Identifier: GPL-2.0-only
"""Whether a guest has in force what its scheme asks for.

The guest's kernel says in debugfs what serves now (docs/boot-parameters.md, "What is in force").
`mismatches` compares that with boot arguments; a run with one is invalid.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from lab.core.errors import UsageError
from lab.core.model import Experiment, Manifest
from lab.plan import kconfig, known
from lab.plan.known import PREFIX

FILE = "/sys/kernel/debug/pvsync/in_force"
GOVERNOR = "steal_governor"
"""What lab/target/steal-governor has in force: its policy, while it runs and has its cpuset."""
COMMAND = (f"cat {FILE} 2>/dev/null; read -r pid policy 2>/dev/null </run/pvsync/{GOVERNOR}"
           ' && [ -d "/proc/$pid" ] && read -r cpus </sys/fs/cgroup/pvsync/cpuset.cpus.effective'
           f' && [ -n "$cpus" ] && echo "{GOVERNOR} $policy"; :')
"""Guest command whose output `mismatches` takes; nothing in a kernel without the file."""
NUMBER = "a number"
"""Stands for what the kernel measures itself."""
EITHER = "|"
"""Between the values of an `expect`, any of which is right."""
NAMES = ("lock", "tau", "impatience", "halt_spins", "help", "tlb", "ecs", "ecs_record", "park",
         "host_features", "host_found_by")
"""What the file tells, and `expect` may name."""
TAKEN_BACK = ("help", "tlb", "ecs_record", "park", "host_features", "host_found_by")
"""What a host that takes its offers back changes in a guest that runs."""
LINE = re.compile(r"(\w+) (\S+)", re.ASCII)
WITH_TAU = ("pmt", "pv-pmt")

Wanted = Mapping[str, tuple[str, ...]]
"""Name to the values that are right."""


@dataclass(frozen=True)
class Mismatch:
    """One parameter that is not what it should be."""

    parameter: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.parameter}, wanted {self.wanted}, found {self.found}"


def parse(text: str) -> dict[str, str]:
    """The file: name to value."""
    found = (LINE.fullmatch(line) for line in text.splitlines())
    return {match[1]: match[2] for match in found if match}


def _given(arguments: Iterable[str]) -> dict[str, str]:
    """Boot arguments of pvsync by their names without the prefix; the last one counts."""
    pairs = (one.removeprefix(PREFIX).partition("=") for one in arguments if one.startswith(PREFIX))
    return {name: value for name, equals, value in pairs if equals}


def _lock(given: Mapping[str, str], arguments: Sequence[str], vcpus: int) -> str:
    """The lock that serves; the kernel's own is paravirtual where it can be of use."""
    lock = given.get("lock", "qspinlock")
    if lock == "qspinlock" and "nopvspin" not in arguments and vcpus > 1:
        return "pvqspinlock"
    return lock


def wanted(arguments: Sequence[str], vcpus: int, expect: Mapping[str, str] | None = None) -> Wanted:
    """What a guest with these boot arguments should have in force.

    What is not asked for is to be the kernel's default. `expect` are values of a scheme that means
    another outcome, by name.
    """
    given = _given(arguments)
    ecs, park = given.get("ecs", "off"), given.get("park", "stock")
    shared = ecs != "off" or park == "eschdspin"
    asked: dict[str, tuple[str, ...]] = {
        "lock": (_lock(given, arguments, vcpus),),
        "help": (NUMBER if given.get("help") == "auto" else given.get("help", "off"),),
        "tlb": (given["tlb"],) if "tlb" in given else ("ipi", "kvmtlb"),
        "ecs": (ecs,), "ecs_record": ("taken" if shared else "none",), "park": (park,),
    }
    if "tau" in given:
        asked["tau"] = (given["tau"],)
    elif given.get("lock") in WITH_TAU:
        asked["tau"] = (NUMBER,)
    if (policy := known.governor(arguments)) is not None:
        asked[GOVERNOR] = (policy,)
    for name in ("impatience", "halt_spins"):
        if name in given:
            asked[name] = (given[name],)
    return asked | {name: tuple(text.split(EITHER)) for name, text in (expect or {}).items()}


def _fits(values: Iterable[str], found: str) -> bool:
    return any(found.isdecimal() if value == NUMBER else found == value for value in values)


def mismatches(asked: Wanted, text: str, ignore: Iterable[str] = ()) -> list[Mismatch]:
    """What the file's text says that is not wanted; a line that is missing is `nothing`."""
    found = parse(text)
    return [Mismatch(name, " or ".join(values), found.get(name, "nothing"))
            for name, values in asked.items()
            if name not in ignore and not _fits(values, found.get(name, "nothing"))]


def unknown(arguments: Iterable[str]) -> list[Mismatch]:
    """The same for a kernel without pvsync, which has none of its mechanisms."""
    return [Mismatch(name, value, "a kernel without pvsync")
            for name, value in _given(arguments).items()]


def reason(guest: str, wrong: Sequence[Mismatch]) -> str:
    """Why a run is invalid, or nothing."""
    return (f"guest {guest} does not have in force what its scheme asks for:"
            f" {'; '.join(map(str, wrong))}") if wrong else ""


@cache
def tells(variant: str) -> bool:
    """Whether the kernels of this variant have the file."""
    chosen = kconfig.variant(variant)
    settings = kconfig.merge(kconfig.fragment_files(chosen))
    on = (name in settings and settings[name].value == "y"
          for name in ("CONFIG_PVSYNC", "CONFIG_DEBUG_FS"))
    return chosen.patched and all(on)


def unproven(experiment: Experiment) -> tuple[str, ...]:
    """Labels of schemes whose guests' kernel does not tell what it has in force."""
    return tuple(scheme.label or scheme.name for scheme in experiment.schemes
                 if not tells(scheme.variant or experiment.variant))


def warnings(manifest: Manifest) -> tuple[str, ...]:
    """What a report says of these schemes."""
    if not manifest.unproven:
        return ()
    return (f"what guests of {', '.join(manifest.unproven)} had in force is not known: their kernel"
            " does not tell",)


def check_expect(expect: Mapping[str, str], where: str) -> None:
    """UsageError, which begins with `where`, for a name that no kernel tells."""
    for name in expect:
        if name not in NAMES:
            raise UsageError(f"{where}expect names '{name}', which no kernel tells"
                             f" (known: {', '.join(NAMES)}).")
