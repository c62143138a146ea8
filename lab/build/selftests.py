# SPDX-License-Identifier: GPL-2.0-only
"""The base's KVM selftests, and those of ours in their form, as a disk for the KVM host.

A cache entry `selftests-<hash12>`, named by what it was made from. The programs are static:
the host has another C library than the machine that builds them.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.build import base, kernel, rfc
from lab.build.kernel import compiler_version
from lab.build.logged import Log
from lab.core import content, paths, tools
from lab.core.errors import LabError
from lab.core.progress import Progress, Silent, Stage

RECIPE = "1"
"""Goes into the hash; change it when the same input is to give another image."""
SUITE = Path("tools/testing/selftests/kvm")
OVERLAY = paths.KERNEL / "overlay"
HEADERS = tuple(Path("include/linux/pvsync") / name for name in ("abi.h", "counters.h"))
"""What our programs include of the overlay."""
OWN = ("x86_64/pvsync_abi_test", "x86_64/pvsync_msr_test", "x86_64/pvsync_stats_test")
IMAGE = "selftests.erofs"
LOG = "selftests.log"
FEWEST = 50
"""Programs of the base; fewer is a failure of the build."""
NOT_PROGRAMS = {".o", ".d", ".c", ".h", ".S", ".sh", ".log"}


def image(programs: tuple[str, ...] = (), tree: Path | None = None,
          progress: Progress | None = None, proposal: str = "") -> Path:
    """The disk, an EROFS with each program at its path in the suite, made when it is missing.

    It has these programs, or all (some 85, about 3 minutes), and the file `list`. `proposal` is a
    folder of kernel/rfc that changes the base and its suite first. Raises LabError when a program
    does not compile, UsageError for a missing package.
    """
    progress = progress or Silent()
    tools.require("make", "gcc", "mkfs.erofs", "/usr/include/libelf.h")
    source = base.source(tree, progress)
    hasher = (
        content.Hasher()
        .text("recipe", RECIPE, compiler_version(), source.identity, *OWN)
        .text("programs", *programs)
        .tree("own", OVERLAY / SUITE)
    )
    for header in HEADERS:
        hasher.file(header.name, OVERLAY / header)
    patches = rfc.folder(proposal) if proposal else kernel.NOTHING
    if proposal:
        hasher.text("proposal", kernel.sources_hash(kernel.NOTHING, patches))

    def make(out: Path) -> None:
        work = out / "work"
        (work / "programs").mkdir(parents=True)
        sources = source.tree
        if proposal:
            sources = work / "sources"
            kernel.sync_tree(source.tree, sources, kernel.NOTHING, patches, adds=True)
        log = Log(paths.cache_dir() / LOG, "the KVM selftests")
        with progress.stage("KVM selftests") as stage:
            _make(sources, {"O": str(work / "headers"), "ARCH": "x86"}, ("headers",), log,
                  stage)
            wanted = tuple(f"{work}/programs/{name}" for name in programs) or ("all",)
            _make(sources / SUITE, _variables(work), wanted, log, stage)
        _collect(work / "programs", out, programs)
        shutil.rmtree(work)

    return content.entry("selftests", hasher.short(), make, progress) / IMAGE


def _variables(work: Path) -> dict[str, str]:
    """For make: the suite as it is, and our programs, whose sources are elsewhere."""
    return {
        "OUTPUT": str(work / "programs"), "ARCH": "x86", "CC": "gcc",
        "VPATH": str(OVERLAY / SUITE),
        "EXTRA_CFLAGS": f"-static -w -I{OVERLAY / 'include'}",
        "KHDR_INCLUDES": f"-isystem {work / 'headers' / 'usr/include'}",
        "TEST_GEN_PROGS_EXTENDED_x86_64": " ".join(("x86_64/nx_huge_pages_test", *OWN)),
    }


def _make(folder: Path, variables: Mapping[str, str], targets: tuple[str, ...], log: Log,
          stage: Stage) -> None:
    """Run make, its output added to the log; LabError with the log's path."""
    command = ["make", f"--directory={folder}", f"--jobs={len(os.sched_getaffinity(0))}",
               *(f"{name}={value}" for name, value in variables.items()), *targets]
    # Flags of an outer make are not for this one.
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    log.run(command, f"make {Path(targets[0]).name}",
            lambda line: stage.text(line.split()[-1] if line.split() else ""), env=environment)


def names(programs: Path) -> list[str]:
    """The programs below a folder, by their paths in the suite."""
    return [name for name in content.files_below(programs)
            if Path(name).suffix not in NOT_PROGRAMS and os.access(programs / name, os.X_OK)]


def _collect(programs: Path, out: Path, wanted: tuple[str, ...]) -> None:
    """Make the disk; of all programs there have to be ours and some of the base."""
    root = out / "root"
    found = names(programs)
    if not set(wanted or OWN) <= set(found) or len(found) < (len(wanted) or FEWEST):
        raise LabError(f"the KVM selftests lack programs ({len(found)} were made), see"
                       f" {paths.cache_dir() / LOG}")
    for name in found:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        tools.run(["strip", "-o", root / name, programs / name])
    (root / "list").write_text("".join(f"{name}\n" for name in found))
    tools.run(["mkfs.erofs", "--quiet", "-T0", "-x-1", out / IMAGE, root])
    shutil.rmtree(root)
