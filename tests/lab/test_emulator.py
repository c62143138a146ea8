# SPDX-License-Identifier: GPL-2.0-only
"""Building the emulator, from a source package that a test makes."""

import os
import subprocess
from pathlib import Path

import pytest

from lab.build import emulator, monitor, qemu, series, userland
from lab.core import paths, tools
from lab.core.errors import LabError, UsageError

DSC = "Format: 3.0\nSource: qemu\nVersion: 1:10.0.13+ds-0+deb13u1\n"
CONFIGURE = "#!/bin/sh\necho \"$@\"\n"
NINJA = """#!/bin/sh
echo '[1/2] Compiling C object lib/svm_helper.c.o'
cat ../svm_helper.c
{failure}
printf '#!/bin/sh\\necho QEMU emulator version 10.0.13 \\\\(test\\\\)\\n' >qemu-system-x86_64
chmod +x qemu-system-x86_64
echo '[2/2] Linking target qemu-system-x86_64'
"""
PATCH = """Subject: [PATCH] Cure

---
--- a/svm_helper.c
+++ b/svm_helper.c
@@ -1,1 +1,1 @@
-sick
+cured
"""


class Source:
    """A source package, and a ninja that does not compile."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self._bin = folder / "bin"
        self._tree = folder / "qemu-10.0.13"
        self.fetched = 0
        self.dsc = DSC
        for made in (self._bin, self._tree, folder / "series", folder / "overlay"):
            made.mkdir()
        (folder / "overlay/pvsync.mak").write_text("CONFIG_Q35=y\n")
        (folder / "series/0001-cure.patch").write_text(PATCH)
        (self._tree / "svm_helper.c").write_text("sick\n")
        (self._tree / "configure").write_text(CONFIGURE)
        (self._tree / "configure").chmod(0o755)
        self.ninja()
        monkeypatch.setenv("PATH", f"{self._bin}:{os.environ['PATH']}")
        monkeypatch.delenv(emulator.ENV_QEMU, raising=False)
        monkeypatch.setattr(emulator, "OVERLAY", folder / "overlay")
        monkeypatch.setattr(emulator, "SERIES", folder / "series")
        monkeypatch.setattr(qemu, "fetch", self.fetch)
        monkeypatch.setattr(userland, "emulator_root", lambda progress: folder / "root")

    def ninja(self, failure: str = "") -> None:
        (self._bin / "ninja").write_text(NINJA.format(failure=failure))
        (self._bin / "ninja").chmod(0o755)

    def fetch(self, folder: Path) -> Path:
        self.fetched += 1
        name = folder / "qemu_10.0.13+ds.orig.tar.xz"
        subprocess.run(["tar", "-C", self._tree.parent, "-cJf", name, self._tree.name], check=True)
        (folder / "qemu.dsc").write_text(self.dsc)
        return folder / "qemu.dsc"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path, monkeypatch)


def test_emulator_is_built_once(source: Source, tmp_path: Path) -> None:
    made = emulator.prepare()
    assert made.version == "10.0.13 (test)"
    assert made.command() == [
        str(made.program), "-L", str(tmp_path / "root/usr/share/qemu"),
        "-L", str(tmp_path / "root/usr/share/seabios"),
    ]
    assert emulator.prepare() == made
    assert source.fetched == 1
    assert [path.name for path in made.program.parent.iterdir()] == ["qemu-system-x86_64"]


def test_patches_are_in_what_is_built(source: Source) -> None:
    emulator.prepare()
    log = (paths.cache_dir() / "emulator.log").read_text()
    assert "cured" in log and "sick" not in log
    assert [line.split()[1] for line in log.splitlines() if line.startswith("$ ")] == [
        "../configure", "ninja"]


def test_a_monitor_is_another_program(source: Source, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same source, with what it is configured with besides, and a log of its own."""
    made = emulator.prepare()
    monkeypatch.setattr(monitor, "FOLDER", tmp_path)
    program = monitor.prepare()
    assert program.parent.name.startswith("monitor-") and program != made.program
    assert monitor.prepare() == program and emulator.prepare() == made and source.fetched == 2
    log = (paths.cache_dir() / "monitor.log").read_text()
    assert "--static --disable-tcg" in log and "cured" in log
    assert monitor.command("./qemu") == ["./qemu", "-L", "/usr/share/qemu", "-L",
                                         "/usr/share/seabios"]


def test_another_series_is_another_emulator(source: Source, tmp_path: Path) -> None:
    first = emulator.prepare()
    (tmp_path / "overlay/pvsync.mak").write_text("CONFIG_Q35=n\n")
    assert emulator.prepare().program != first.program
    assert source.fetched == 2


def test_another_version_of_the_source_is_another_emulator(source: Source) -> None:
    first = emulator.prepare()
    source.dsc = DSC.replace("deb13u1", "deb13u2")
    assert emulator.prepare() == first and source.fetched == 1, "the mirror is not asked"
    second = emulator.prepare(update=True)
    assert second.program != first.program and first.program.exists()
    assert emulator.prepare() == second and source.fetched == 2
    source.ninja("exit 1")
    assert emulator.prepare(update=True) == second, "what has not changed is not built"


def test_another_compiler_makes_another_emulator(source: Source,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    first = emulator.prepare()
    monkeypatch.setattr(qemu, "compiler_version", lambda: "gcc 99")
    assert emulator.prepare().program != first.program


def test_failed_build_tells_the_line_and_leaves_nothing(source: Source) -> None:
    source.ninja("echo \"svm_helper.c:1: error: unknown type name 'sick'\"; exit 1")
    with pytest.raises(LabError, match=r"ninja failed \(status 1\), see .*emulator.log:\n.*sick'"):
        emulator.prepare()
    assert not list(paths.cache_dir().glob("emulator-*"))
    source.ninja()
    assert emulator.prepare().program.exists()


def test_patch_that_does_not_apply_is_named(source: Source, tmp_path: Path) -> None:
    (tmp_path / "series/0001-cure.patch").write_text(PATCH.replace("-sick", "-hale"))
    with pytest.raises(LabError, match=r"0001-cure.patch"):
        emulator.prepare()


def test_missing_library_is_named_with_its_package(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "NEEDED", ("/usr/include/glib-2.0/glib.h.not",))
    monkeypatch.setattr(tools, "packages",
                        lambda: {"libglib2.0-dev": "/usr/include/glib-2.0/glib.h.not"})
    with pytest.raises(UsageError, match=r"libglib2.0-dev"):
        emulator.prepare()
    assert source.fetched == 0


def test_another_program_may_be_named(source: Source, monkeypatch: pytest.MonkeyPatch,
                                      tmp_path: Path) -> None:
    program = tmp_path / "mine"
    monkeypatch.setenv(emulator.ENV_QEMU, str(program))
    with pytest.raises(UsageError, match=r"PVSYNC_QEMU names .*mine, which is no program"):
        emulator.prepare()
    program.write_text("#!/bin/sh\necho QEMU emulator version 99.1\n")
    program.chmod(0o755)
    assert emulator.prepare().version == "99.1"
    assert source.fetched == 0


def test_version_is_read_from_the_source_package(tmp_path: Path) -> None:
    dsc = tmp_path / "qemu.dsc"
    dsc.write_text(DSC)
    assert qemu.version_of(dsc) == "1:10.0.13+ds-0+deb13u1"
    dsc.write_text("<html>blocked</html>")
    with pytest.raises(LabError, match=r"qemu.dsc names no version"):
        qemu.version_of(dsc)


def test_unreachable_mirror_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PVSYNC_MIRROR", "http://127.0.0.1:9/debian")
    with pytest.raises(LabError, match=r"127.0.0.1:9.*check the network.*PVSYNC_MIRROR"):
        qemu.fetch(tmp_path)


def test_our_own_series_parse() -> None:
    """What they do is shown by the kernel tests, which need hosts that survive."""
    assert series.count(emulator.SERIES).patches == 20
    assert series.count(monitor.FOLDER / "series").patches == 4
