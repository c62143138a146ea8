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
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import binaries, mutants
from tests.binaries import Outcome, fixed_layout, reason
from tests.mutants import Mutant, Suite

HERE = Path(__file__).resolve().parent

BUILDS = ("gcc", "clang", "gcc-asan", "clang-asan", "gcc-tsan", "clang-tsan")
LOCKS = ("ticket", "pmt", "pmt-add", "qspin")
BROKEN = ("busted", "kbusted")
RUNNERS = ("unit", "order", "stress")
SINGLE = ("sections", "sleepers", "rwlock")
"""What holders and waiters count, and whom releases wake, which is the same for all locks."""
NOTICE = ("gcc/unit-pmt", *(f"gcc/{name}" for name in SINGLE), "gcc/order-pmt", "gcc/stress-pmt",
          "clang-tsan/stress-pmt")
"""Who looks for what is wrong with a mutant."""

# Nothing may be wrong with it, or the mutants prove nothing.
CONTROL = Mutant("(no change: has to pass)", "kernel/pvsync/pmt_lock.c", "// SPDX", "// SPDX",
                 NOTICE)


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


def load_mutants() -> list[Mutant]:
    """The table; every entry has the fields of Mutant but who looks for it."""
    return [Mutant(**entry, programs=NOTICE) for entry in mutants.load(HERE / "mutants.toml")]


def try_mutants(folder: Path, variables: Sequence[str], only: str) -> tuple[int, int]:
    """The table of mutants and of who caught them."""
    error = make(["base/kernel/locking/qspinlock.c"], folder, variables)
    if error:
        print(error)
        return 0, 1
    suite = Suite(HERE, run, folder / mutants.BASE)
    return mutants.run(suite, [CONTROL], load_mutants(), only)


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
        passed, failed = try_mutants(folder, variables, "")
        good, bad = check(folder, variables)
        passed, failed = passed + good, failed + bad
    elif options.action == "soak":
        passed, failed = soak(folder, variables, options.seconds)
    else:
        passed, failed = try_mutants(folder, variables, options.only)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
