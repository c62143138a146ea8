# SPDX-License-Identifier: GPL-2.0-only
"""Userlands and images, with a mmdebstrap that needs no network."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.build import kernel, mmdebstrap, userland
from lab.core import tools
from lab.core.errors import LabError, UsageError

STATUS = """\
Package: kmod
Status: install ok installed
Version: 30-1

Package: gone
Status: deinstall ok config-files
Version: 1

Package: zlib1g
Status: install ok installed
Version: 1:1.2
"""

FAKE = """#!/bin/sh
# Instead of mmdebstrap: a small tar archive, or the given failure.
echo "$@" >>"{log}"
echo "I: installing essential packages..." >&2
{failure}
cd "{root}" && tar -cf - .
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "FakeDebian":
    return FakeDebian(tmp_path, monkeypatch)


class FakeDebian:
    """Stands in for mmdebstrap; `fail` makes it print an error and end with it."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        self._bin = tmp_path / "bin"
        self.log = tmp_path / "mmdebstrap.log"
        self._root = tmp_path / "debian"
        self._bin.mkdir()
        for folder in ("etc", "dev", "usr/lib", "usr/bin", "var/lib/dpkg"):
            (self._root / folder).mkdir(parents=True)
        (self._root / "lib").symlink_to("usr/lib")
        (self._root / "etc/hostname").write_text("this-machine\n")
        (self._root / "etc/resolv.conf").write_text("nameserver 192.0.2.1\n")
        (self._root / "dev/null").write_text("")
        (self._root / "usr/bin/tool").write_text("tool\n")
        (self._root / "usr/bin/tool").chmod(0o4755)
        (self._root / "var/lib/dpkg/status").write_text(STATUS)
        self.fail("")
        monkeypatch.setenv("PATH", f"{self._bin}:{os.environ['PATH']}")
        monkeypatch.delenv("PVSYNC_MIRROR", raising=False)

    def fail(self, *lines: str) -> None:
        failure = "".join(f"echo '{line}' >&2\n" for line in lines if line)
        failure += "exit 25\n" if failure else ""
        script = self._bin / "mmdebstrap"
        script.write_text(FAKE.format(log=self.log, failure=failure, root=self._root))
        script.chmod(0o755)

    def has(self, status: str) -> None:
        """What dpkg says in the userlands made from now on."""
        (self._root / "var/lib/dpkg/status").write_text(status)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def image(tmp_path: Path) -> kernel.KernelImage:
    """A kernel with one module."""
    release = "6.12.117-pvsync"
    modules = tmp_path / "kernel/modules/lib/modules" / release
    (modules / "kernel").mkdir(parents=True)
    (modules / "modules.order").write_text("kernel/fake.ko\n")
    (modules / "modules.builtin").write_text("")
    (modules / "kernel/fake.ko").write_text("not really\n")
    return kernel.KernelImage(
        tmp_path / "kernel", release, "6.12.117", "lab", "0" * 12, "1" * 12, "gcc", ()
    )


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of lab/target and one workload program."""
    for name in ("target", "src"):
        (tmp_path / name).mkdir()
    (tmp_path / "target/guest-init").write_text("#!/bin/sh\n")
    (tmp_path / "src/spin.c").write_text("int main(void) { return 42; }\n")
    monkeypatch.setattr(userland, "TARGET", tmp_path / "target")
    monkeypatch.setattr(userland, "PROGRAMS", tmp_path / "src")
    return tmp_path


def unpacked(image: Path, out: Path) -> Path:
    subprocess.run(
        [str(tools.find("fsck.erofs")), f"--extract={out}", "--overwrite", str(image)],
        check=True,
        capture_output=True,
    )
    return out


def test_guest_image_has_everything(
    fake: FakeDebian, image: kernel.KernelImage, target: Path, tmp_path: Path
) -> None:
    made = userland.guest_image(image, ["redis-server"])
    root = unpacked(made, tmp_path / "out")
    assert (root / "usr/bin/tool").read_text() == "tool\n"
    inside = root / "usr/lib/pvsync"
    assert (inside / "guest-init").stat().st_mode & 0o777 == 0o755
    assert subprocess.run([str(inside / "bin/spin")], check=False).returncode == 42
    modules = root / "usr/lib/modules/6.12.117-pvsync"
    assert (modules / "kernel/fake.ko").read_text() == "not really\n"
    assert (modules / "modules.dep").exists()
    assert not list((root / "dev").iterdir())
    assert not (root / "etc/resolv.conf").exists(), "nothing of the machine that made it"
    assert (root / "etc/hostname").read_text() == "pvsync\n"
    (call,) = fake.calls()
    wanted = sorted([*userland.GUEST_PACKAGES, "redis-server"])
    assert f"--include={','.join(wanted)}" in call
    assert call.endswith("bookworm - deb http://deb.debian.org/debian bookworm main")


def test_host_image_prefers_backports_and_uses_the_named_mirror(
    fake: FakeDebian, image: kernel.KernelImage, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PVSYNC_MIRROR", "http://mirror.example.org/debian")
    userland.host_image(image)
    (call,) = fake.calls()
    assert "--include=kmod,python3,qemu-system-x86" in call
    assert 'APT::Default-Release "trixie-backports"' in call
    assert "http://mirror.example.org/debian trixie-backports main" in call
    assert "deb.debian.org" not in call


def test_a_host_with_more_packages_is_an_image_of_its_own(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    usual = userland.host_image(image)
    assert userland.host_image(image, packages=["bpftrace"]) != usual
    assert "--include=bpftrace,kmod,python3,qemu-system-x86" in fake.calls()[-1]
    assert userland.host_image(image, packages=["kmod"]) == usual
    with pytest.raises(UsageError, match="cannot be a Debian package"):
        userland.host_image(image, packages=["a b"])


def test_an_image_has_what_is_named_besides(fake: FakeDebian, tmp_path: Path) -> None:
    suite, script = mmdebstrap.Suite(13, "trixie"), tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    first = userland.image_with("other", suite, ["systemd"], {"usr/lib/lab/init": script})
    root = unpacked(first, tmp_path / "out")
    assert (root / "usr/lib/lab/init").stat().st_mode & 0o777 == 0o755
    assert (root / "usr/bin/tool").read_text() == "tool\n"
    script.write_text("#!/bin/sh\ntrue\n")
    assert userland.image_with("other", suite, ["systemd"], {"usr/lib/lab/init": script}) != first
    with pytest.raises(LabError, match="has /usr/bin/tool already"):
        userland.image_with("other", suite, ["systemd"], {"usr/bin/tool": script})
    assert len(fake.calls()) == 1


def test_second_time_makes_nothing(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    first = userland.guest_image(image)
    stamp = first.stat().st_mtime_ns
    assert userland.guest_image(image, ["dbench"]) == first, "named twice is the same"
    assert first.stat().st_mtime_ns == stamp
    assert len(fake.calls()) == 1


def test_prepare_makes_both_userlands_and_finds_a_wrong_name(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    userland.prepare(["redis-server"])
    assert len(fake.calls()) == 2
    userland.guest_image(image, ["redis-server"])
    userland.host_image(image)
    assert len(fake.calls()) == 2
    fake.fail("E: Unable to locate package redis-sever")
    with pytest.raises(UsageError, match="no package redis-sever: correct the name"):
        userland.prepare(["redis-sever"])


def test_changed_parts_make_a_new_image_of_the_same_userland(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    seen = {userland.guest_image(image)}
    for name, text in (
        ("target/guest-init", "#!/bin/sh\ntrue\n"),
        ("src/spin.c", "int main(void) { return 43; }\n"),
        (f"kernel/modules/lib/modules/{image.release}/kernel/fake.ko", "changed\n"),
    ):
        (target / name).write_text(text)
        made = userland.guest_image(image)
        assert made not in seen
        seen.add(made)
    assert len(fake.calls()) == 1
    userland.guest_image(image, ["redis-server"])
    assert len(fake.calls()) == 2


def test_other_versions_are_another_userland_and_image(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    first, root = userland.guest_image(image), userland.emulator_root()
    fake.has(STATUS.replace("Version: 30-1", "Version: 30-2"))
    assert userland.guest_image(image) == first, "the mirror is not asked"
    assert len(fake.calls()) == 2
    fake.fail("W: Failed to fetch http://x  Could not resolve x")
    with pytest.raises(LabError, match="cannot be reached"):
        userland.prepare(update=True)
    assert userland.guest_image(image) == first, "what there was is there without a network"
    fake.fail("")
    userland.prepare(update=True)
    second = userland.guest_image(image)
    assert second != first and userland.emulator_root() != root and first.exists()
    fake.has(STATUS)
    userland.prepare(update=True)
    assert userland.guest_image(image) == first and userland.emulator_root() == root


def test_image_leaves_the_userland_alone(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    userland.guest_image(image)
    (entry,) = Path(os.environ["PVSYNC_CACHE"]).glob("userland-*[0-9a-f]")
    assert not (entry / "root/usr/lib/pvsync").exists()
    assert not (entry / "root/usr/lib/modules").exists()
    assert json.loads((entry / "packages.json").read_text()) == {"kmod": "30-1", "zlib1g": "1:1.2"}
    assert entry.stat().st_mode & 0o077 == 0, "its set-user-id programs are nobody else's"


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        (
            "E: Unable to locate package nosuch",
            UsageError,
            r"Debian 12 \(bookworm\) has no package nosuch",
        ),
        ("E: Package 'gone' has no installation candidate", UsageError, "no package gone"),
        ("E: Package gone has no installation candidate", UsageError, "no package gone"),
        ("W: Failed to fetch http://x  Could not resolve x", LabError, r"mirror .*PVSYNC_MIRROR"),
        (
            "E: mount failed" + " x" * 999,
            LabError,
            r"see .*userland-bookworm.log: mount failed[x ]{,150}$",
        ),
    ],
)
def test_failures_are_one_sentence(
    fake: FakeDebian,
    image: kernel.KernelImage,
    target: Path,
    line: str,
    error: type[LabError],
    message: str,
) -> None:
    fake.fail(line.replace("'", "'\\''"), "E: apt-get failed")
    with pytest.raises(error, match=message) as caught:
        userland.guest_image(image)
    assert type(caught.value) is error
    cache = Path(os.environ["PVSYNC_CACHE"])
    assert not list(cache.glob("userland-*[0-9a-f]"))
    fake.fail("")
    assert userland.guest_image(image).exists()


@pytest.mark.parametrize("name", ["", "-o", "Redis", "a b", "a,b", "?essential", "x"])
def test_impossible_package_names_never_reach_apt(
    fake: FakeDebian, image: kernel.KernelImage, name: str
) -> None:
    with pytest.raises(UsageError, match="cannot be a Debian package"):
        userland.guest_image(image, [name])
    assert fake.calls() == []


def test_broken_workload_program_is_named(
    fake: FakeDebian, image: kernel.KernelImage, target: Path
) -> None:
    (target / "src/spin.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(LabError, match=r"spin.c does not compile: .*nothing"):
        userland.guest_image(image)


def test_a_user_without_namespaces_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1)  # Debian's `daemon`, without a range
    with pytest.raises(UsageError, match="daemon cannot make a Debian userland here: run as root"):
        mmdebstrap.mode()
    monkeypatch.setattr(mmdebstrap, "_has_ids", lambda listing, user: True)
    assert mmdebstrap.mode() == "unshare"


def test_ids_are_read_from_the_listing(tmp_path: Path) -> None:
    listing = tmp_path / "subuid"
    listing.write_text(f"other:100000:65536\n{os.geteuid()}:200000:65536\n")
    assert mmdebstrap._has_ids(listing, "somebody")
    assert mmdebstrap._has_ids(listing, "other")
    assert not mmdebstrap._has_ids(tmp_path / "missing", "other")
    listing.write_text("othermore:100000:65536\n")
    assert not mmdebstrap._has_ids(listing, "other")


def test_sources_of_a_suite() -> None:
    assert mmdebstrap.Suite(13, "trixie", backports=True).sources("M") == [
        "deb M trixie main",
        "deb M trixie-backports main",
    ]
    proxied = mmdebstrap.command(userland.GUEST, ["kmod"], "M", "http://proxy.example.org")
    assert '--aptopt=Acquire::http::Proxy "http://proxy.example.org"' in proxied
