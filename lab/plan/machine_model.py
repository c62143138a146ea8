# SPDX-License-Identifier: GPL-2.0-only
"""What things cost on the machine that virtual time plays: lab/machines/*.toml.

A model has the nanoseconds that one instruction takes, and those that the emulator
charges for what silicon takes longer for. Each number names its source.

`zen4:exit*2,ipi*0.5` is zen4 with its numbers scaled, to see what rests on them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from lab.core import paths
from lab.core.decode import DecodeError, decode, read_toml, suggest
from lab.core.errors import UsageError

FOLDER = paths.LAB / "machines"
DEFAULT = "zen4"
MOST_LOG2 = 10
"""Of the nanoseconds that an instruction takes: QEMU's own limit."""
MOST_NS = 1_000_000
COSTS = ("quantum", "pause", "vmrun", "vmexit", "ipi", "flush")
"""The numbers that are nanoseconds."""
SCALED = {"instruction": ("instruction",), "quantum": ("quantum",), "pause": ("pause",),
          "exit": ("vmrun", "vmexit"), "vmrun": ("vmrun",), "vmexit": ("vmexit",),
          "ipi": ("ipi",), "flush": ("flush",)}
"""What can be scaled, and which numbers that changes: an exit's two halves also together."""
QUANTUM_NS = (100, 1_000_000)


@dataclass(frozen=True)
class Instruction:
    """How long one takes: 2 to the power of `log2_ns` nanoseconds."""

    log2_ns: int
    source: str


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of virtual time, and who says so."""

    ns: int
    source: str


@dataclass(frozen=True)
class MachineModel:
    """A machine; see the files for what the numbers mean."""

    name: str
    about: str
    pause_filter: bool
    """Whether its processors count PAUSEs before they exit."""
    instruction: Instruction
    quantum: Cost
    """Mean length of a round, in which every CPU executes for as long."""
    pause: Cost
    vmrun: Cost
    vmexit: Cost
    ipi: Cost
    """A write to the interrupt command register, for the sender."""
    flush: Cost
    """INVLPG, INVLPGA, a load of CR3."""

    def icount(self, seed: int) -> str:
        """The value of QEMU's -icount."""
        return (f"shift={self.instruction.log2_ns},sleep=off,align=off,lockstep=on,"
                f"quantum={self.quantum.ns},seed={seed}")

    def cpu(self) -> str:
        """What QEMU's -cpu gets besides the features: charges and the pause filter."""
        charges = {"pause": self.pause, "vmrun": self.vmrun, "vmexit": self.vmexit,
                   "ipi": self.ipi, "flush": self.flush}
        words = [f"x-charge-{name}={cost.ns}" for name, cost in charges.items()]
        return ",".join([*words, *(("+pause-filter", "+pfthreshold") if self.pause_filter
                                   else ())])


def names(folder: Path = FOLDER) -> list[str]:
    """All models, sorted."""
    return sorted(file.stem for file in folder.glob("*.toml"))


def load(name: str, folder: Path = FOLDER) -> MachineModel:
    """The model of that name, maybe scaled: `NAME[:KEY*FACTOR,...]`.

    UsageError when there is none, its file is damaged, or a scaled number is out of its bounds.
    """
    file, colon, changes = name.partition(":")
    model = _read(file, folder)
    if not colon:
        return model
    for change in changes.split(","):
        model = _scaled(model, change, f"machine model '{name}'")
    model = replace(model, name=name, about=f"{model.about}; {changes}")
    _check(model, f"machine model '{name}'")
    return model


def _scaled(model: MachineModel, change: str, where: str) -> MachineModel:
    key, _sign, text = change.partition("*")
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if key not in SCALED or not 0 < factor < math.inf:
        raise UsageError(f"{where}: '{change}' is not KEY*FACTOR, such as exit*2"
                         f" (keys: {', '.join(SCALED)})")
    if key == "instruction":
        log2 = math.log2(factor)
        if not log2.is_integer():
            raise UsageError(f"{where}: an instruction's time takes powers of two, not {text}")
        return replace(model, instruction=replace(
            model.instruction, log2_ns=model.instruction.log2_ns + int(log2)))
    changed = {one: replace(getattr(model, one), ns=round(getattr(model, one).ns * factor))
               for one in SCALED[key]}
    return replace(model, **changed)


def _read(name: str, folder: Path) -> MachineModel:
    known = names(folder)
    if name not in known:
        raise UsageError(f"there is no machine model '{name}'{suggest(name, known)}"
                         f" (known: {', '.join(known)})")
    file = folder / f"{name}.toml"
    where = f"machines/{name}.toml"
    try:
        model = decode(MachineModel, {"name": name, **read_toml(file.read_text())}, where=where)
    except DecodeError as error:
        raise UsageError(f"{where}: {error}") from None
    _check(model, where)
    return model


def _check(model: MachineModel, where: str) -> None:
    if not 0 <= model.instruction.log2_ns <= MOST_LOG2:
        raise UsageError(f"{where}: instruction.log2_ns must be from 0 to {MOST_LOG2}")
    least, most = QUANTUM_NS
    if not least <= model.quantum.ns <= most:
        raise UsageError(f"{where}: quantum.ns must be from {least} to {most}")
    for key in COSTS:
        if not 0 <= getattr(model, key).ns <= MOST_NS:
            raise UsageError(f"{where}: {key}.ns must be from 0 to {MOST_NS}")
    for key in ("instruction", *COSTS):
        if not getattr(model, key).source.strip():
            raise UsageError(f"{where}: {key} names no source")
