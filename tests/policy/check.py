# SPDX-License-Identifier: GPL-2.0-only
"""Build and run the user-space tests of the policies: python3 -m tests.policy.check ACTION.

    check      every runner in every build, then the mutants
    mutants    every mutant of mutants.toml under its runner

The last line is `N passed, N failed`. A runner that crashes, hangs or counts
nothing is a failure; so is a mutant that its runner does not notice.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import binaries, mutants
from tests.binaries import Outcome
from tests.mutants import Mutant, Suite

HERE = Path(__file__).resolve().parent
HEADERS = Path("include/linux/pvsync")
KVM = Path("arch/x86/kvm/pvsync")
SOURCES = {
    "guest": (Path("kernel/pvsync/guest.c"),),
    "extend": (Path("kernel/pvsync/extend.c"),),
    "strong_yield": (Path("kernel/pvsync/strong_yield.c"),),
    "lag_credit": (Path("kernel/pvsync/lag_credit.c"),),
    "ecs": (KVM / "record.c", KVM / "section.c", KVM / "share.c"),
    "loan": (KVM / "extend.c",),
    "mark": (KVM / "mark.c",),
    "tlb": tuple(KVM / name for name in ("tlb.c", "tlb_flush.c", "tlb_flush.h", "tlb_settle.c",
                                         "tlb_settle.h")),
    "window": (KVM / "window.c",),
    "regs": (KVM / "regs.c",),
    "spin": (KVM / "spin.c",),
    "offer": (KVM / "offer.c",),
    "window73": (KVM / "window.c", HEADERS / "shims.h"),
}
"""What runners test that is no header of their name."""

BUILDS = ("gcc", "clang", "gcc-asan", "clang-asan")
RUNNERS = ("aple", "pause", "hvs", "friebel", *SOURCES)
MEASURED = "gcc/"
"""The build whose measurements are shown: optimized, without sanitizers."""


def run(program: Path, arguments: Sequence[str] = (), seconds: int | None = None) -> Outcome:
    """Run a program and count its lines; one more failure when it does not end well."""
    return binaries.run([str(program), *arguments], seconds)


def measured(outcome: Outcome) -> list[str]:
    """What a run measured: figures to be read, with the empty line after them."""
    lines = [line for line in outcome.text.splitlines() if line.startswith("# ")]
    return [*lines[:-1], ""] if len(lines) > 1 else []


def check(folder: Path) -> tuple[int, int]:
    """All runners in all builds."""
    names = [f"{build}/{runner}" for build in BUILDS for runner in RUNNERS]
    error = binaries.make(HERE, names, folder)
    if error:
        print(error, "the build failed", sep="")
        return 0, 1
    passed = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda name: run(folder / name), names)
        for name, outcome in zip(names, outcomes, strict=True):
            passed, failed = passed + outcome.passed, failed + outcome.failed
            print(f"{name}: {outcome.passed} passed, {outcome.failed} failed", flush=True)
            if name.startswith(MEASURED):
                print(*measured(outcome), sep="\n", end="", flush=True)
            if outcome.failed:
                print(outcome.text)
    return passed, failed


def source_of(runner: str, text: str) -> Path:
    """The file with this text, in the overlay; of several that the runner tests."""
    files = SOURCES.get(runner, (HEADERS / f"{runner}.h",))
    return next((file for file in files if text in (mutants.OVERLAY / file).read_text()), files[0])


def mutant(runner: str, name: str, old: str, new: str) -> Mutant:
    """A change to what a runner is for."""
    file = str(source_of(runner, old))
    return Mutant(f"{runner}: {name}", file, old, new, (f"{MEASURED}{runner}",))


def try_mutants(only: str) -> tuple[int, int]:
    """The table of mutants and of what caught them; every entry has these four fields."""
    controls = [mutant(runner, "(no change: has to pass)", "SPDX", "SPDX") for runner in RUNNERS]
    table = [mutant(**entry) for entry in mutants.load(HERE / "mutants.toml")]
    return mutants.run(Suite(HERE, run), controls, table, only)


def main() -> int:
    """0 when everything passed, 1 when something failed."""
    parser = argparse.ArgumentParser(description="User-space tests of what the kernel decides.")
    parser.add_argument("action", choices=("check", "mutants"))
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    options = parser.parse_args()
    passed, failed = try_mutants(options.only)
    if options.action == "check":
        good, bad = check(options.build.resolve())
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
