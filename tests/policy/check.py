# SPDX-License-Identifier: GPL-2.0-only
"""Build and run the user-space tests of the policies: python3 -m tests.policy.check ACTION.

    check      every runner in every build, then the mutants
    mutants    every mutant of mutants.toml under its runner

The last line is `N passed, N failed`. A runner that crashes, hangs or counts
nothing is a failure; so is a mutant that its runner does not notice.
"""

import argparse
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import binaries
from tests.binaries import Outcome, reason, run

HERE = Path(__file__).resolve().parent
OVERLAY = HERE.parent.parent / "kernel" / "overlay"
HEADERS = Path("include/linux/pvsync")
KVM = Path("arch/x86/kvm/pvsync")
SOURCES = {
    "guest": Path("kernel/pvsync/guest.c"),
    "extend": Path("kernel/pvsync/extend.c"),
    "strong_yield": Path("kernel/pvsync/strong_yield.c"),
    "mark": KVM / "mark.c",
    "tlb": KVM / "tlb.c",
    "window": KVM / "window.c",
    "ecs": KVM / "ecs.c",
    "regs": KVM / "regs.c",
    "spin": KVM / "spin.c",
}
"""What runners test that is no header of their name."""

BUILDS = ("gcc", "clang", "gcc-asan", "clang-asan")
RUNNERS = ("aple", "pause", "hvs", "friebel", *SOURCES)
MEASURED = "gcc/"
"""The build whose measurements are shown: optimized, without sanitizers."""


@dataclass(frozen=True)
class Mutant:
    """A change to what a runner is for, which has the runner's name, to be noticed."""

    name: str
    runner: str
    old: str
    new: str


MISSED = "NOT CAUGHT"
# Nothing may be wrong with them, or the mutants prove nothing.
CONTROLS = [Mutant("(no change: has to pass)", runner, "SPDX", "SPDX") for runner in RUNNERS]


def make(targets: Sequence[str], folder: Path, variables: Sequence[str] = ()) -> str | None:
    """Build into `folder`; None when it worked, else what make said."""
    return binaries.make(HERE, targets, folder, variables)


def measured(outcome: Outcome) -> list[str]:
    """What a run measured: figures to be read, with the empty line after them."""
    lines = [line for line in outcome.text.splitlines() if line.startswith("# ")]
    return [*lines[:-1], ""] if len(lines) > 1 else []


def check(folder: Path) -> tuple[int, int]:
    """All runners in all builds."""
    names = [f"{build}/{runner}" for build in BUILDS for runner in RUNNERS]
    error = make(names, folder)
    if error:
        print(error, "the build failed", sep="")
        return 0, 1
    passed = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda name: run([str(folder / name)]), names)
        for name, outcome in zip(names, outcomes, strict=True):
            passed, failed = passed + outcome.passed, failed + outcome.failed
            print(f"{name}: {outcome.passed} passed, {outcome.failed} failed", flush=True)
            if name.startswith(MEASURED):
                print(*measured(outcome), sep="\n", end="", flush=True)
            if outcome.failed:
                print(outcome.text)
    return passed, failed


def load_mutants(path: Path) -> list[Mutant]:
    """The table; every entry has exactly the fields of Mutant."""
    return [Mutant(**entry) for entry in tomllib.loads(path.read_text())["mutant"]]


def source_of(runner: str) -> Path:
    """What it tests, in the overlay."""
    return SOURCES.get(runner, HEADERS / f"{runner}.h")


def try_mutant(mutant: Mutant) -> tuple[bool, str]:
    """Whether its runner noticed it, and how."""
    with tempfile.TemporaryDirectory(prefix="pvsync-mutant-") as name:
        overlay, target = Path(name) / "overlay", f"gcc/{mutant.runner}"
        source = overlay / source_of(mutant.runner)
        for part in {HEADERS, source_of(mutant.runner).parent}:
            shutil.copytree(OVERLAY / part, overlay / part)
        text = source.read_text()
        if text.count(mutant.old) != 1:
            return False, f"NOT TRIED: its `old` stands {text.count(mutant.old)} times, not once"
        source.write_text(text.replace(mutant.old, mutant.new))
        error = make([target], Path(name), [f"OVERLAY={overlay}", "WERROR="])
        if error:
            return False, f"NOT TRIED, it does not compile:\n{error}"
        outcome = run([str(Path(name) / target)], seconds=10)
        return outcome.failed > 0, reason(outcome) if outcome.failed else MISSED


def mutants(only: str) -> tuple[int, int]:
    """The table of mutants and of what caught them; the first ones must not be caught."""
    chosen = [mutant for mutant in load_mutants(HERE / "mutants.toml") if only in mutant.name]
    print(f"{len(chosen)} mutants, and the test that noticed each", flush=True)
    tried, good = [*CONTROLS, *chosen], 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, (noticed, how) in zip(tried, pool.map(try_mutant, tried), strict=True):
            control = mutant in CONTROLS
            good += how == MISSED if control else noticed
            said = "passed" if control and how == MISSED else how
            print(f"{mutant.runner + ': ' + mutant.name:52} {said}", flush=True)
    return good, len(tried) - good


def main() -> int:
    """0 when everything passed, 1 when something failed."""
    parser = argparse.ArgumentParser(description="User-space tests of what the kernel decides.")
    parser.add_argument("action", choices=("check", "mutants"))
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    options = parser.parse_args()
    passed, failed = mutants(options.only)
    if options.action == "check":
        good, bad = check(options.build.resolve())
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
