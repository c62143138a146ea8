# SPDX-License-Identifier: GPL-2.0-only
"""Building kernels, on a tree that builds in a moment."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.build import base, kernel, logged, rfc, series
from lab.core import tools
from lab.core.errors import LabError, UsageError
from lab.plan import kconfig
from tests.lab import fake_linux as fake


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return fake.make_tree(tmp_path / "linux")


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An overlay and a series for the fake tree; the kernel's tools are not needed."""
    monkeypatch.setattr(series, "OVERLAY", tmp_path / "overlay")
    monkeypatch.setattr(series, "SERIES", tmp_path / "series")
    monkeypatch.setattr(kernel, "NEEDED", ("make", "gcc", "patch"))
    fake.add_overlay(tmp_path / "overlay")
    patch = fake.make_patch(tree, "kernel/lock.c", "line 20\n", "line 20\nhook();\n")
    fake.add_patch(tmp_path / "series", 1, patch)
    return tmp_path


def compiled(image: kernel.KernelImage) -> list[str]:
    """What the build that made this image compiled."""
    log = (image.directory / "build.log").read_text()
    return sorted(line.split()[1] for line in log.splitlines() if line.startswith("  CC "))


def test_builds_and_describes_a_kernel(tree: Path) -> None:
    image = kernel.build(tree=tree)
    assert (image.release, image.base_version) == ("6.12.117-pvsync", "6.12.117")
    assert image.directory.name == f"kernel-{image.hash}"
    text = image.bzimage.read_text()
    assert "hook();" in text
    assert "int new;" in text
    for path in (image.vmlinux, image.system_map, image.config):
        assert path.stat().st_size
    modules = image.modules / "lib/modules/6.12.117-pvsync"
    assert [path.name for path in modules.iterdir()] == ["fake.ko"], "no links to this machine"
    assert "0001-locking-hook.patch: strict" in (image.directory / "series.log").read_text()
    assert kernel.load(image.directory) == image


def test_build_does_not_tell_who_built_it(tree: Path) -> None:
    text = kernel.build(tree=tree).bzimage.read_text()
    assert "KBUILD_BUILD_USER=pvsync" in text
    assert "KBUILD_BUILD_HOST=lab" in text
    assert "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970" in text


def test_same_content_is_not_built_again(tree: Path, sources: Path) -> None:
    image = kernel.build(tree=tree)
    os.utime(sources / "overlay/kernel/new.c")
    stamp = image.bzimage.stat().st_mtime_ns
    assert kernel.build(tree=tree) == image
    assert image.bzimage.stat().st_mtime_ns == stamp


def test_changed_overlay_byte_rebuilds_only_that_file(tree: Path, sources: Path) -> None:
    first = kernel.build(tree=tree)
    assert compiled(first) == ["kernel/fork.o", "kernel/lock.o", "kernel/new.o"]
    (sources / "overlay/kernel/new.c").write_text("int New;\n")
    second = kernel.build(tree=tree)
    assert second.hash != first.hash
    assert compiled(second) == ["kernel/new.o"]
    assert "int New;" in second.bzimage.read_text()
    assert "int new;" in first.bzimage.read_text(), "the old result stays"


def test_sources_edited_while_waiting_for_the_build_are_named_right(
    tree: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = kernel.sync_tree
    edited: list[int] = []

    def edit_first(*args: Any, **more: Any) -> series.ApplyResult:
        if not edited:
            edited.append((sources / "overlay/kernel/new.c").write_text("int edited;\n"))
        return wanted(*args, **more)

    monkeypatch.setattr(kernel, "sync_tree", edit_first)
    image = kernel.build(tree=tree)
    assert "int edited;" in image.bzimage.read_text()
    assert kernel.build(tree=tree) == image, "named by what it was built from"
    (sources / "overlay/kernel/new.c").write_text("int new;\n")
    assert "int new;" in kernel.build(tree=tree).bzimage.read_text()


def test_dropped_patch_and_overlay_file_are_taken_back(tree: Path, sources: Path) -> None:
    kernel.build(tree=tree)
    (sources / "series/0001-locking-hook.patch").unlink()
    (sources / "overlay/kernel/new.c").unlink()
    image = kernel.build(tree=tree)
    assert "hook" not in image.bzimage.read_text()
    assert "int new" not in image.bzimage.read_text()
    assert compiled(image) == ["kernel/lock.o"]


def test_the_base_is_never_written_to(tree: Path) -> None:
    kernel.build(tree=tree)
    source = base.source(tree)
    assert (source.tree / "kernel/lock.c").read_text() == fake.LOCK_C
    assert not (source.tree / "kernel/new.c").exists()
    assert (tree / "kernel/lock.c").read_text() == fake.LOCK_C


def test_variants_differ_and_keep_their_folders(tree: Path, sources: Path) -> None:
    lab, stock = kernel.build(tree=tree), kernel.build("stock", tree=tree)
    assert lab.hash != stock.hash
    assert "hook" not in stock.bzimage.read_text()
    off = kernel.build("off", tree=tree)
    assert "CONFIG_PVSYNC=y" in lab.config.read_text()
    assert "CONFIG_PVSYNC" not in off.config.read_text()
    assert lab.config_hash != off.config_hash
    (sources / "overlay/kernel/new.c").write_text("int New;\n")
    assert compiled(kernel.build(tree=tree)) == ["kernel/new.o"]


@pytest.fixture
def proposal(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernel/rfc, and `rfc-02` is the variant that has it."""
    monkeypatch.setattr(rfc, "FOLDER", tmp_path / "rfc")
    folder = tmp_path / "rfc" / kconfig.variant("rfc-02").rfc
    folder.parent.mkdir()
    patch = fake.make_patch(tree, "kernel/lock.c", "line 30\n", "line 30\nproposed();\n")
    fake.add_patch(folder, 1, patch)
    (folder / "0000-cover-letter.patch").write_text("Subject: [RFC PATCH 0/1] A cover letter\n")
    return folder


def test_a_variant_has_a_proposal_and_nothing_else(tree: Path, proposal: Path) -> None:
    """Another cover letter makes no other kernel; another patch does."""
    image = kernel.build("rfc-02", tree=tree)
    text = image.bzimage.read_text()
    assert "proposed();" in text and "hook();" not in text and "int new;" not in text
    assert "proposed();" not in kernel.build("stock", tree=tree).bzimage.read_text()
    (proposal / "0000-cover-letter.patch").write_text("Subject: [RFC PATCH 0/1] Another one\n")
    assert kernel.build("rfc-02", tree=tree).hash == image.hash
    (patch,) = proposal.glob("0001*")
    patch.write_text(patch.read_text().replace("proposed", "changed"))
    assert "changed();" in kernel.build("rfc-02", tree=tree).bzimage.read_text()


def test_a_proposal_is_of_the_usual_base(
        tree: Path, proposal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "of_version", lambda version: "7.3")
    with pytest.raises(UsageError, match=r"kernel variant rfc-02 is of Linux .* alone"):
        kernel.build("rfc-02", tree=tree)


def test_a_proposal_is_for_the_plain_base(tmp_path: Path) -> None:
    listing = tmp_path / "variants.toml"
    listing.write_text('[two]\nabout = "both"\nfragments = []\nrfc = "01"\n')
    with pytest.raises(UsageError, match="two: its `rfc` is for the plain base"):
        kconfig.variants(listing)


def test_hash_follows_compiler_fragments_and_base(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {kernel.build(tree=tree).hash}
    extra = tmp_path / "extra.config"
    extra.write_text("CONFIG_EXTRA=y\n")
    seen.add(kernel.build(extra_fragments=[extra], tree=tree).hash)
    seen.add(kernel.build(tree=fake.make_tree(tmp_path / "later", 118)).hash)
    monkeypatch.setattr(kernel, "compiler_version", lambda *_: "gcc 99")
    seen.add(kernel.build(tree=tree).hash)
    assert len(seen) == 4


def test_types_for_bpf_take_pahole(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for only then, and its version goes into the hash."""
    types, found, said = tmp_path / "types.config", tools.find, kernel.compiler_version
    types.write_text("CONFIG_DEBUG_INFO_BTF=y\n")
    monkeypatch.setattr(tools, "find", lambda name: None if name == "pahole" else found(name))
    plain = kernel.build(tree=tree)
    with pytest.raises(UsageError, match=r"pahole is missing: .* package dwarves"):
        kernel.build(extra_fragments=[types], tree=tree)
    monkeypatch.setattr(tools, "find", lambda name: found("true" if name == "pahole" else name))
    monkeypatch.setattr(kernel, "compiler_version", lambda *more: f"{said()}; {more}")
    assert "pahole" in kernel.build(extra_fragments=[types], tree=tree).compiler
    assert "pahole" not in plain.compiler


def test_failed_make_names_log_and_error(tree: Path, sources: Path) -> None:
    (sources / "overlay/kernel/new.c").write_text("BROKEN\n")
    with pytest.raises(LabError) as caught:
        kernel.build(tree=tree)
    assert "kernel/new.c:1:1: error: BROKEN is no C" in str(caught.value)
    log = str(caught.value).split("see ")[1].split(":\n")[0]
    assert "BROKEN is no C" in Path(log).read_text()
    (sources / "overlay/kernel/new.c").write_text("int mended;\n")
    assert "int mended;" in kernel.build(tree=tree).bzimage.read_text()


def test_setting_that_does_not_hold_is_one_clear_error(tree: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra.config"
    extra.write_text("# a comment\nCONFIG_UNKNOWN=y\nCONFIG_FINE=y\n")
    with pytest.raises(
        LabError, match=r"6\.12\.117 .*CONFIG_UNKNOWN=y \(extra.config:2\) came out as n"
    ):
        kernel.build(extra_fragments=[extra], tree=tree)


def test_interrupt_leaves_no_result_and_goes_on_where_it_was(
    tree: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow, calls = tools.follow, list[object]()

    @contextmanager
    def second_time(command: list[str], **where: Any) -> Iterator[Any]:
        with follow(command, **where) as process:
            calls.append(command)
            if len(calls) > 1:
                raise KeyboardInterrupt
            yield process

    monkeypatch.setattr(tools, "follow", second_time)
    with pytest.raises(KeyboardInterrupt):
        kernel.build(tree=tree)
    cache = Path(os.environ["PVSYNC_CACHE"])
    assert not list(cache.glob("kernel-*[0-9a-f]"))
    assert not list((cache / "tmp").iterdir())
    monkeypatch.setattr(tools, "follow", follow)
    assert "hook();" in kernel.build(tree=tree).bzimage.read_text()


KILLED = """
import sys
from pathlib import Path
from lab.build import kernel, series
series.OVERLAY = Path(sys.argv[1]) / "overlay"
series.SERIES = Path(sys.argv[1]) / "series"
kernel.NEEDED = ()
kernel.build(tree=Path(sys.argv[2]))
"""


def test_killed_build_is_started_over(tree: Path, sources: Path) -> None:
    (sources / "overlay/kernel/slow.c").write_text("SLOW\n")
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(sources), str(tree)])
    cache = Path(os.environ["PVSYNC_CACHE"])
    wait_for(lambda: bool(list(cache.glob("work-*/obj-lab/kernel/slow.o"))))
    (half,) = cache.glob("work-*/obj-lab/kernel/slow.o")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not running(half.parents[1]))
    half.write_text("as a power failure leaves it\n")
    os.utime(half, (2e9, 2e9))
    assert not list(cache.glob("kernel-*[0-9a-f]"))
    (sources / "overlay/kernel/slow.c").write_text("int quick;\n")
    text = kernel.build(tree=tree).bzimage.read_text()
    assert "int quick;" in text
    assert "power failure" not in text


def wait_for(true: "object", seconds: float = 20) -> None:
    """Poll a condition."""
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def running(objects: Path) -> bool:
    """Whether a make on this build folder is left."""
    wanted = f"O={objects}".encode()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if wanted in process.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def test_usage_errors(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel variant 'fast': choose from lab, test,"):
        kernel.build("fast", tree=tree)
    with pytest.raises(UsageError, match="no Kconfig fragment"):
        kernel.build(extra_fragments=["missing"], tree=tree)
    with pytest.raises(UsageError, match="there is no tree"):
        kernel.build(tree=tmp_path / "missing")
    (tmp_path / "notes").write_text("VERSION = 6\n")
    with pytest.raises(UsageError, match="neither a folder nor a tarball of Linux"):
        kernel.build(tree=tmp_path / "notes")
    (tree / ".config").write_text("")
    with pytest.raises(UsageError, match="has been built in"):
        kernel.build(tree=tree)


def test_tarball_is_a_tree_too(tree: Path, tmp_path: Path) -> None:
    tarball = tmp_path / "linux.tar.xz"
    subprocess.run(["tar", "-C", str(tmp_path), "-cJf", str(tarball), "linux"], check=True)
    assert kernel.build(tree=tarball).base_version == "6.12.117"
    tarball.write_bytes(tarball.read_bytes()[:-20])
    with pytest.raises(LabError, match="could not be unpacked"):
        kernel.build(tree=tarball)


def test_damaged_entry_is_named(tree: Path) -> None:
    image = kernel.build(tree=tree)
    (image.directory / "kernel.json").write_text(json.dumps({"offsets": []}))
    with pytest.raises(LabError, match=f"{image.directory} is damaged"):
        kernel.build(tree=tree)


def test_fragments_merge_in_order() -> None:
    first = kconfig.parse_fragment("CONFIG_A=y\nCONFIG_B=m\n", "first")
    second = kconfig.parse_fragment('# CONFIG_A is not set\nCONFIG_C="x y"\n', "second")
    merged = first | second
    assert kconfig.allconfig(merged) == 'CONFIG_A=n\nCONFIG_B=m\nCONFIG_C="x y"\n'
    kconfig.check('CONFIG_B=m\nCONFIG_C="x y"\n# CONFIG_A is not set\n', merged, "6.12.1")
    kconfig.check('CONFIG_B=m\nCONFIG_C="x y"\n', merged, "6.12.1")
    with pytest.raises(LabError, match=r"CONFIG_A=n .second:1. came out as y"):
        kconfig.check('CONFIG_A=y\nCONFIG_B=m\nCONFIG_C="x y"\n', merged, "6.12.1")
    with pytest.raises(UsageError, match="first:1: `A=y` is no Kconfig setting"):
        kconfig.parse_fragment("A=y\n", "first")


def test_every_variant_has_its_fragments() -> None:
    known = kconfig.variants()
    assert {"lab", "test", "off", "stock", "lockdep", "kasan", "kcsan"} <= set(known)
    for variant in known.values():
        assert kconfig.merge(kconfig.fragment_files(variant))


def test_fault_lines_prefer_the_cause() -> None:
    log = (
        "  CC      a.o\na.c:3:1: error: expected ';'\n  CC      b.o\n"
        "make[2]: *** [Makefile:1: a.o] Error 1\nmake: *** [Makefile:2: all] Error 2\n"
    )
    assert logged.fault_lines(log) == ["a.c:3:1: error: expected ';'"]
    full = "  LD      x\nld: final link failed: No space left on device\nmake: *** [x] Error 1\n"
    assert logged.fault_lines(full) == ["ld: final link failed: No space left on device"]
    assert logged.fault_lines("make: *** [x] Killed\n") == ["make: *** [x] Killed"]
