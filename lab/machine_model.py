# SPDX-License-Identifier: GPL-2.0-only
"""What things cost on the machine that virtual time plays: lab/machines/*.toml.

A model has the nanoseconds that one instruction takes, and those that the emulator
charges for what silicon takes longer for. Each number names its source.
"""

from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.decode import DecodeError, decode, read_toml, suggest
from lab.errors import UsageError

FOLDER = paths.LAB / "machines"
DEFAULT = "zen4"
MOST_LOG2 = 10
"""Of the nanoseconds that an instruction takes: QEMU's own limit."""
MOST_NS = 1_000_000
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
    """The model of that name; UsageError when there is none or its file is damaged."""
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
    for key in ("pause", "vmrun", "vmexit", "ipi", "flush"):
        if not 0 <= getattr(model, key).ns <= MOST_NS:
            raise UsageError(f"{where}: {key}.ns must be from 0 to {MOST_NS}")
    for key in ("instruction", "quantum", "pause", "vmrun", "vmexit", "ipi", "flush"):
        if not getattr(model, key).source.strip():
            raise UsageError(f"{where}: {key} names no source")
