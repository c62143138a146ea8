# SPDX-License-Identifier: GPL-2.0-only
"""Builds the kernels: base tree, our sources, a variant's configuration, make.

Results are cache entries `kernel-<hash12>` named by what went in. Beside them
`work-<base>` keeps one source tree and one build folder per variant, so that
an edited overlay file rebuilds only what depends on it.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.build import base, documents, make, rfc, series
from lab.core import content, paths, tools
from lab.core.decode import read_json
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress, Silent
from lab.core.scratch import Scratch
from lab.plan import kconfig

RECIPE = "1"
"""Goes into the hash; change it when the same input is to give another kernel."""
LOCALVERSION = "-pvsync"
NEEDED = ("make", "gcc", "bc", "bison", "flex", "lz4", "patch", "/usr/include/libelf.h", "depmod")
TYPES = "CONFIG_DEBUG_INFO_BTF"
"""Setting with which a kernel has its own types in it, for BPF."""
TYPES_BY = "pahole"
NOTHING = Path("/nonexistent")
"""Overlay and series of a plain variant."""
FRESH_LINES = 1980
"""Steps of a first build of the lab variant; later builds know their own."""


@dataclass(frozen=True)
class KernelImage:
    """A built kernel in the cache."""

    directory: Path
    """Has bzImage, vmlinux, System.map, config, modules/, series.log, build.log."""
    release: str
    """What uname -r says, such as 6.12.117-pvsync."""
    base_version: str
    variant: str
    hash: str
    """Of everything that went in; twelve hexadecimal digits."""
    config_hash: str
    """Of the kernel's whole .config."""
    compiler: str
    offsets: tuple[str, ...]
    """Hunks of the series that did not apply where they were made."""

    @property
    def bzimage(self) -> Path:
        """The bootable image."""
        return self.directory / "bzImage"

    @property
    def vmlinux(self) -> Path:
        """The kernel with its symbols."""
        return self.directory / "vmlinux"

    @property
    def system_map(self) -> Path:
        """Symbols and their addresses."""
        return self.directory / "System.map"

    @property
    def config(self) -> Path:
        """The whole .config."""
        return self.directory / "config"

    @property
    def modules(self) -> Path:
        """What goes into a root: lib/modules/<release>."""
        return self.directory / "modules"


class _ChangedError(Exception):
    """Overlay or series are no longer what the job's hash names."""


@dataclass(frozen=True)
class _Job:
    """Everything that one build needs."""

    variant: kconfig.Variant
    name: str
    """Of the build folder: the variant, and the extra fragments' hash if any."""
    source: base.Source
    settings: Mapping[str, kconfig.Setting]
    compiler: str
    overlay: Path
    series: Path
    sources: str
    """Hash of overlay and series."""
    hash: str

    @property
    def work(self) -> Path:
        return paths.cache_dir() / f"work-{self.source.identity}"

    @property
    def tree(self) -> Path:
        if self.variant.rfc:
            return self.work / f"src-{self.variant.name}"
        return self.work / ("src" if self.variant.patched else "src-stock")

    @property
    def objects(self) -> Path:
        return self.work / f"obj-{self.name}"

    @property
    def log(self) -> Path:
        return self.work / f"{self.name}.log"


def build(
    variant: str = "lab",
    extra_fragments: Sequence[str | Path] = (),
    *,
    tree: Path | None = None,
    progress: Progress | None = None,
) -> KernelImage:
    """The kernel of this variant, built when the cache lacks it (5 minutes the first time).

    `extra_fragments` are Kconfig fragments on top, by name in kernel/configs or by path; `tree`
    names another one than kernel/BASE does. Raises UsageError for an unknown variant, tree,
    fragment or a missing package. Raises LabError when the series does not apply, a setting does
    not hold or make fails (the message has the log's path).
    """
    progress = progress or Silent()
    while True:
        job = _planned(variant, extra_fragments, tree, progress)
        try:
            return load(_cached(job, progress))
        except _ChangedError:
            progress.say("kernel/overlay or kernel/series changed meanwhile: starting again")


def objects(
    variant: str,
    names: Sequence[str],
    *,
    tree: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """The variant's build folder with these object files in it, up to date.

    Names are relative to the kernel tree, such as kernel/sched/core.o; nothing
    else is built but what they need (half a minute the first time). Errors are
    those of `build`.
    """
    progress = progress or Silent()
    job = _planned(variant, (), tree, progress)
    with content.lock("kernel", progress), _prepared(job, progress) as (run, _):
        run.targets(*names, progress=progress)
    return job.objects


def _planned(
    variant: str, extra: Sequence[str | Path], tree: Path | None, progress: Progress
) -> _Job:
    """Look everything up that a build needs."""
    chosen = kconfig.variant(variant)
    files = kconfig.fragment_files(chosen, extra)
    tools.require(*NEEDED)
    source = base.source(tree, progress)
    wanted = settings(files, source.version)
    tools.require(*makers_of_types(wanted))
    overlay, patches = _added(chosen, source.version)
    return _job(chosen, extra, source, wanted, overlay, patches)


def _added(chosen: kconfig.Variant, version: str) -> tuple[Path, Path]:
    """Overlay and patches of a variant on this release; UsageError where it has none."""
    if chosen.patched:
        return series.OVERLAY, series.of_version(version)
    if not chosen.rfc:
        return NOTHING, NOTHING
    if base.of_version(version) != base.USUAL:
        raise UsageError(f"kernel variant {chosen.name} is of Linux {base.USUAL} alone: give it no"
                         " other base")
    return NOTHING, rfc.folder(chosen.rfc)


def settings(files: Sequence[Path], version: str) -> dict[str, kconfig.Setting]:
    """Those of the fragments, as the base that this release is of has them."""
    folder = base.folder(base.of_version(version))
    known = base.read_base(folder / base.FILE)
    merged = kconfig.merge([*files, *(folder / name for name in known.settings)])
    return {name: one for name, one in merged.items() if name not in known.gone}


def _cached(job: _Job, progress: Progress) -> Path:
    """The cache entry of a job, built when it is missing."""
    return content.entry("kernel", job.hash, lambda out: _build(job, out, progress), progress)


def load(directory: Path) -> KernelImage:
    """Read back the cache entry of a built kernel; LabError when it is damaged."""
    try:
        data: Any = read_json((directory / "kernel.json").read_text())
        data["offsets"] = tuple(data["offsets"])
        return KernelImage(directory=directory, **data)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LabError(f"{directory} is damaged ({error}): remove it and build again") from None


def makers_of_types(settings: Mapping[str, kconfig.Setting]) -> tuple[str, ...]:
    """The command that a kernel with its own types in it takes, none for others."""
    return (TYPES_BY,) if TYPES in settings and settings[TYPES].value == "y" else ()


def compiler_version(*more: str) -> str:
    """First lines of what the compiler, the linker and more tools say about themselves."""
    return "; ".join(tools.run([name, "--version"]).decode().splitlines()[0]
                     for name in ("gcc", "ld", *more))


def _job(
    variant: kconfig.Variant,
    extra: Sequence[str | Path],
    source: base.Source,
    settings: Mapping[str, kconfig.Setting],
    overlay: Path,
    patches: Path,
) -> _Job:
    """Name the build by its content."""
    compiler = compiler_version(*makers_of_types(settings))
    config = kconfig.allconfig(settings)
    sources = sources_hash(overlay, patches)
    digest = (
        content.Hasher()
        .text("recipe", RECIPE, LOCALVERSION, *make.FIXED)
        .text("base", source.version, source.identity)
        .text("compiler", compiler)
        .text("config", config)
        .text("sources", sources)
        .short()
    )
    name = variant.name
    if extra:
        name += "-" + content.Hasher().text("config", config).short()
    return _Job(variant, name, source, settings, compiler, overlay, patches, sources, digest)


def sources_hash(overlay: Path, patches: Path) -> str:
    """Of the overlay and a folder of patches; a cover letter and documents do not count."""
    hasher = content.Hasher().tree("overlay", overlay, but=documents.is_document)
    for path in series.patches(patches):
        if not series.is_for_readers(path):
            hasher.file(f"series/{path.name}", path)
    return hasher.short()


@contextmanager
def _prepared(
    job: _Job, progress: Progress
) -> Iterator[tuple[make.Make, series.ApplyResult]]:
    """Source tree and configuration ready for make; the caller holds the lock of builds."""
    job.work.mkdir(exist_ok=True)
    content.use(job.work)
    content.prune("work", keep=2)
    result = sync_tree(job.source.tree, job.tree, job.overlay, job.series, progress,
                       adds=bool(job.variant.rfc))
    if sources_hash(job.overlay, job.series) != job.sources:
        raise _ChangedError
    for offset in result.offsets:
        progress.say(f"offset: {offset}")
    _seed(job)
    with make.guarded(job.objects):
        name = f"kernel {job.variant.name}"
        run = make.Make(job.tree, job.objects, job.log, LOCALVERSION, name)
        _configure(job, run)
        yield run, result


def _seed(job: _Job) -> None:
    """Start a new variant's build folder from another variant's of the same source tree.

    The kernel's build then compiles only what the difference in configuration
    reaches.
    """
    if job.objects.exists():
        return
    others = [
        other
        for other in job.work.glob("obj-*")
        if (other / "vmlinux").exists()
        and not (other / make.BUILDING).exists()
        and (other / "source").resolve() == job.tree.resolve()
    ]
    if others:
        latest = max(others, key=lambda other: (other / "vmlinux").stat().st_mtime)
        fresh = job.objects.with_name(f"{job.objects.name}.new")
        content.remove(fresh)
        tools.run(["cp", "--archive", "--reflink=auto", str(latest), str(fresh)])
        fresh.rename(job.objects)


def _build(job: _Job, out: Path, progress: Progress) -> None:
    """Fill a cache entry; the caller holds the lock of kernel builds."""
    with _prepared(job, progress) as (run, result):
        (out / "series.log").write_text(result.log())
        known = job.objects / ".pvsync-lines"
        total = _total(job.objects, known)
        lines = run.targets("bzImage", "modules", progress=progress, total=total)
        if lines > FRESH_LINES // 2:  # a whole build, not a few files
            known.write_text(str(lines))
        run.targets("modules_install", variables={"INSTALL_MOD_PATH": str(out / "modules")})
        _collect(job, result, out)
    shutil.copyfile(job.log, out / "build.log")


def _total(objects: Path, known: Path) -> int | None:
    """Steps that a build will take, or None when it only brings things up to date."""
    if (objects / "vmlinux").exists():
        return None
    return int(known.read_text()) if known.exists() else FRESH_LINES


def _configure(job: _Job, run: make.Make) -> None:
    """Make .config and check that every setting of the fragments holds."""
    wanted = job.objects / ".pvsync-allconfig"
    wanted.write_text(kconfig.allconfig(job.settings))
    run.targets("allnoconfig", variables={"KCONFIG_ALLCONFIG": str(wanted)})
    kconfig.check((job.objects / ".config").read_text(), job.settings, job.source.version)


def _collect(job: _Job, result: series.ApplyResult, out: Path) -> None:
    """Copy what the lab uses out of the build folder, and write kernel.json."""
    for source, name in (
        ("arch/x86/boot/bzImage", "bzImage"),
        ("vmlinux", "vmlinux"),
        ("System.map", "System.map"),
        (".config", "config"),
    ):
        shutil.copyfile(job.objects / source, out / name)
    release = (job.objects / "include/config/kernel.release").read_text().strip()
    modules = out / "modules/lib/modules" / release
    for link in ("build", "source"):
        (modules / link).unlink(missing_ok=True)  # they name folders of this machine
    modules.mkdir(parents=True, exist_ok=True)
    image = KernelImage(
        directory=out,
        release=release,
        base_version=job.source.version,
        variant=job.variant.name,
        hash=job.hash,
        config_hash=content.file_hash(out / "config"),
        compiler=job.compiler,
        offsets=tuple(map(str, result.offsets)),
    )
    data = asdict(image)
    del data["directory"]
    (out / "kernel.json").write_text(json.dumps(data, indent=1) + "\n")


def sync_tree(
    pristine: Path, tree: Path, overlay: Path, patches: Path, progress: Progress | None = None,
    *, adds: bool = False,
) -> series.ApplyResult:
    """Bring a work tree to base + overlay + series, touching only files whose content changes.

    The first call links the whole base into `tree`. What the last call had
    changed and this one does not is put back.
    """
    progress = progress or Silent()
    if not tree.exists():
        fresh = tree.with_name(f"{tree.name}.new")
        content.remove(fresh)
        with progress.stage("link the source tree"):
            content.link_tree(pristine, fresh)
            fresh.rename(tree)
    state = tree.with_name(f"{tree.name}.changed")
    before = set(state.read_text().split("\n")) - {""} if state.exists() else set()
    with Scratch() as scratch:
        result = series.render(pristine, overlay, patches, scratch, adds)
        now = {*result.overlay, *result.changed}
        state.write_text("\n".join(sorted(before | now)))
        for name in sorted(before | now):
            if name in now:
                series.put_file(scratch / name, tree / name)
            elif (pristine / name).exists():
                series.put_file(pristine / name, tree / name)
            else:
                (tree / name).unlink(missing_ok=True)
        state.write_text("\n".join(sorted(now)))
    return result
