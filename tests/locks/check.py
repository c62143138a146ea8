# SPDX-License-Identifier: GPL-2.0-only
"""Build and run the user-space tests of the locks: python3 -m tests.locks.check ACTION.

    check      every lock under every runner in every build, then the mutants
    mutants    every mutant of mutants.toml under the runners until one fails
    soak N     the stress runner, about N seconds in all

The last line is `N passed, N failed`. A runner that crashes, hangs or counts
nothing is a failure; so is a broken lock that a runner does not notice.
"""

import argparse
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import binaries
from tests.binaries import Outcome, fixed_layout, reason

HERE = Path(__file__).resolve().parent
OVERLAY = HERE.parent.parent / "kernel" / "overlay"

BUILDS = ("gcc", "clang", "gcc-asan", "clang-asan", "gcc-tsan", "clang-tsan")
LOCKS = ("ticket", "pmt", "pmt-add", "qspin")
BROKEN = ("busted", "kbusted")
RUNNERS = ("unit", "order", "stress")
SINGLE = ("sections", "sleepers", "rwlock")
"""What holders and waiters count, and whom releases wake, which is the same for all locks."""
NOTICE = ("gcc/unit-pmt", *(f"gcc/{name}" for name in SINGLE), "gcc/order-pmt", "gcc/stress-pmt",
          "clang-tsan/stress-pmt")
"""Who looks for what is wrong with a mutant."""


@dataclass(frozen=True)
class Mutant:
    """A change to one file that has to be noticed."""

    name: str
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    noticed: bool
    how: str


MISSED = "NOT CAUGHT"
# Nothing may be wrong with it, or the mutants prove nothing.
CONTROL = Mutant("(no change: has to pass)", "kernel/pvsync/pmt_lock.c", "// SPDX", "// SPDX")


def runners(build: str) -> tuple[str, ...]:
    """ThreadSanitizer sees threads only; the stepped runners have one."""
    return ("stress",) if build.endswith("-tsan") else RUNNERS


def programs() -> Iterator[str]:
    """All BUILD/RUNNER-LOCK and BUILD/SINGLE, in the order in which they run."""
    for build in BUILDS:
        for runner in runners(build):
            for lock in (*LOCKS, *BROKEN):
                yield f"{build}/{runner}-{lock}"
        if not build.endswith("-tsan"):
            yield from (f"{build}/{name}" for name in SINGLE)


def make(targets: Sequence[str], folder: Path, variables: Sequence[str]) -> str | None:
    """Build into `folder`; None when it worked, else what make said."""
    return binaries.make(HERE, targets, folder, variables)


def run(binary: Path, arguments: Sequence[str] = (), seconds: int | None = None) -> Outcome:
    """Run a binary and count its lines; one more failure when it does not end well."""
    prefix = fixed_layout() if "-tsan" in binary.parent.name else ()
    return binaries.run([*prefix, str(binary), *arguments], seconds)


def judge(outcome: Outcome, broken: bool) -> tuple[int, int, str]:
    """Passed, failed and a few words; a broken lock passes by failing."""
    if not broken:
        return outcome.passed, outcome.failed, f"{outcome.passed} passed, {outcome.failed} failed"
    if outcome.failed:
        return 1, 0, f"broken lock caught: {reason(outcome)}"
    return 0, 1, "BROKEN LOCK NOT CAUGHT"


def check(folder: Path, variables: Sequence[str]) -> tuple[int, int]:
    """All binaries; broken locks have to fail."""
    names = list(programs())
    print(f"building {len(names)} programs and the benchmark", flush=True)
    error = make([*names, "bench/bench", "bench/wake"], folder, variables)
    if error:
        print(error, "the build failed", sep="")
        return 0, 1
    broken = [name.rpartition("-")[2] in BROKEN for name in names]
    passed = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(
            lambda name, bad: run(folder / name, seconds=5 if bad else None), names, broken
        )
        for number, (name, bad, outcome) in enumerate(zip(names, broken, outcomes, strict=True), 1):
            good, wrong, verdict = judge(outcome, bad)
            passed, failed = passed + good, failed + wrong
            print(f"[{number}/{len(names)}] {name}: {verdict}", flush=True)
            if wrong and not bad:
                print(outcome.text)
    return passed, failed


def soak(folder: Path, variables: Sequence[str], seconds: int) -> tuple[int, int]:
    """The stress runner without an end to its turns, the time shared by all of them."""
    scenarios = {"ticket": 4, "pmt": 16, "qspin": 4}
    names = [f"{build}/stress-{lock}" for build in ("gcc", "clang-tsan") for lock in scenarios]
    error = make(names, folder, variables)
    if error:
        print(error, "the build failed", sep="")
        return 0, 1
    share = max(1, seconds // (2 * sum(scenarios.values())))
    passed = failed = 0
    for name in names:
        print(f"{name}: {share} s for each scenario", flush=True)
        outcome = run(folder / name, (str(share),))
        passed, failed = passed + outcome.passed, failed + outcome.failed
        print(outcome.text, flush=True)
    return passed, failed


def load_mutants(path: Path) -> list[Mutant]:
    """The table; every entry has exactly the fields of Mutant."""
    return [Mutant(**entry) for entry in tomllib.loads(path.read_text())["mutant"]]


def mutate(mutant: Mutant, overlay: Path, folder: Path) -> str | None:
    """Change the copy that is to be built; None, or why the mutant does not apply."""
    base = mutant.file.startswith("base/")
    path = (folder if base else overlay) / mutant.file
    text = path.read_text()
    count = text.count(mutant.old)
    if count != 1:
        return f"its `old` stands {count} times in {mutant.file}, not once"
    path.unlink()  # not through a link into the tree
    path.write_text(text.replace(mutant.old, mutant.new))
    return None


def try_mutant(mutant: Mutant, base: Path) -> Verdict:
    """Build the mutant and run the runners on it until one fails."""
    with tempfile.TemporaryDirectory(prefix="pvsync-mutant-") as name:
        overlay, folder = Path(name) / "overlay", Path(name) / "build"
        shutil.copytree(OVERLAY, overlay)
        shutil.copytree(base, folder / "base")
        problem = mutate(mutant, overlay, folder)
        if problem:
            return Verdict(False, f"NOT TRIED: {problem}")
        for target in NOTICE:
            error = make([target], folder, [f"OVERLAY={overlay}", "WERROR="])
            if error:
                return Verdict(False, f"NOT TRIED, it does not compile:\n{error}")
            outcome = run(folder / target, seconds=10)
            if outcome.failed:
                return Verdict(True, f"{target.removesuffix('-pmt')}: {reason(outcome)}")
    return Verdict(False, MISSED)


def mutants(folder: Path, variables: Sequence[str], only: str) -> tuple[int, int]:
    """The table of mutants and of who caught them."""
    error = make(["base/kernel/locking/qspinlock.c"], folder, variables)
    if error:
        print(error)
        return 0, 1
    chosen = [m for m in load_mutants(HERE / "mutants.toml") if only in m.name]
    print(f"{len(chosen)} mutants, and the runner that noticed each", flush=True)
    control = try_mutant(CONTROL, folder / "base")
    print(f"{CONTROL.name:42} {'passed' if control.how == MISSED else control.how}", flush=True)
    if control.how != MISSED:
        return 0, 1
    caught = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, by in zip(
            chosen, pool.map(lambda m: try_mutant(m, folder / "base"), chosen), strict=True
        ):
            caught += by.noticed
            print(f"{mutant.name:42} {by.how}", flush=True)
    return caught + 1, len(chosen) - caught


def main() -> int:
    """0 when everything passed, 1 when something failed."""
    parser = argparse.ArgumentParser(description="User-space tests of the locks.")
    parser.add_argument("action", choices=("check", "mutants", "soak"))
    parser.add_argument("seconds", nargs="?", type=int, default=600, help="of a soak")
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--ktree", default="", help="Linux tree; default: see the Makefile")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    options = parser.parse_args()
    variables = [f"KTREE={options.ktree}"] if options.ktree else []
    folder = options.build.resolve()
    if options.action == "check":
        passed, failed = (
            a + b for a, b in zip(check(folder, variables), mutants(folder, variables, ""),
                                  strict=True)
        )
    elif options.action == "soak":
        passed, failed = soak(folder, variables, options.seconds)
    else:
        passed, failed = mutants(folder, variables, options.only)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
