# SPDX-License-Identifier: GPL-2.0-only
"""What a Debian 13 with GRUB boots when a pvsync kernel comes, is chosen, and goes.

A copy of Debian's kernel stands in for the packaged one, under a name that sorts after it. Its
package does at installation and removal what one of the kernel's own build does: it runs the
hooks of /etc/kernel. The tests are steps on one machine.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.build import kernel_package, userland
from lab.core.model import Backend
from lab.core.progress import Plain, Silent
from tests import recorded
from tests.kernel import grub_host
from tests.kernel.debian_host import SESSION, SUITE
from tests.kernel.grub_host import LIMIT_S, Debian

pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]
OURS = "6.99.0-pvsync"
CONTROL = f"""\
Package: linux-image-{OURS}
Version: 1
Architecture: amd64
Maintainer: tests <tests@localhost>
Description: Debian's kernel under another name
"""
HOOKS = f"""\
#!/bin/sh
set -e
[ "$1" != WHEN ] || INITRD=No run-parts --arg={OURS} --arg=/boot/vmlinuz-{OURS} /etc/kernel/DURING
"""
"""An empty initial file system is in the package, so that none is made."""


def packages(folder: Path) -> list[Path]:
    """The kernel's, finished as `./pvsync package --kernel` does, and pvsync-boot's."""
    made = userland.entry(SUITE, userland.check_packages(grub_host.PACKAGES), Silent())
    stage, unfinished = folder / "stage", folder / "unfinished"
    for name in ("boot", "DEBIAN"):
        (stage / name).mkdir(parents=True)
    unfinished.mkdir()
    (kernel,) = (made / "root/boot").glob("vmlinuz-*")
    shutil.copy(kernel, stage / f"boot/vmlinuz-{OURS}")
    (stage / f"boot/initrd.img-{OURS}").touch()
    (stage / "DEBIAN/control").write_text(CONTROL)
    for script, when in (("postinst", "configure"), ("postrm", "remove")):
        file = stage / "DEBIAN" / script
        file.write_text(HOOKS.replace("WHEN", when).replace("DURING", f"{script}.d"))
        file.chmod(0o755)
    deb = unfinished / f"linux-image-{OURS}_1_amd64.deb"
    subprocess.run(["dpkg-deb", "-Zgzip", "--root-owner-group", "--build", stage, deb], check=True,
                   capture_output=True)
    return [kernel_package.finish(deb, folder, None), kernel_package.boot(folder)]


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory, played_by: Backend,
           pytestconfig: pytest.Config) -> Iterator[Debian]:
    """The machine, with GRUB on its disk and the packages in /root/packages."""
    folder = tmp_path_factory.mktemp("grub")
    captured = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert captured is not None
    with captured.global_and_fixture_disabled():
        print(f"\nwhat is typed and said: {folder}/{SESSION}", flush=True)
        with grub_host.up(packages(folder), played_by, Plain(), folder) as made:
            yield made


@pytest.fixture
def stock(debian: Debian) -> str:
    """The release of Debian's kernel."""
    return debian.host.sh("uname -r")


def test_installing_it_does_not_make_it_the_default(debian: Debian, stock: str) -> None:
    debian.host.sh("cd /root/packages && apt-get install -qqy -o Dpkg::Use-Pty=0 ./*.deb",
                   timeout=LIMIT_S)
    assert f"vmlinuz-{OURS}" in debian.host.sh("cat /boot/grub/grub.cfg")
    assert debian.host.sh("pvsync-boot show") == f"running: {stock}\nby default: {stock}"
    assert debian.boots(1) == [stock]


def test_once_is_once(debian: Debian, stock: str) -> None:
    """The boot after it would be that of a reset, if the kernel hung."""
    assert debian.host.sh("pvsync-boot once") == f"The next boot, and no other, is {OURS}."
    assert debian.boots(2) == [OURS, stock]
    debian.host.sh("grub-editenv - unset next_entry")


def test_always_until_told_otherwise(debian: Debian, stock: str) -> None:
    assert debian.host.sh("pvsync-boot always 2>/dev/null",
                          timeout=LIMIT_S) == f"From now on {OURS} is booted."
    assert f"by default: {OURS}" in debian.host.sh("pvsync-boot show")
    assert debian.boots(1) == [OURS]
    debian.host.sh("pvsync-boot stock 2>/dev/null", timeout=LIMIT_S)
    assert debian.boots(1) == [stock]


def test_nothing_of_it_is_left(debian: Debian, stock: str) -> None:
    """Not even of a kernel that was to be booted the next time, and from now on."""
    debian.host.sh("pvsync-boot always 2>/dev/null; pvsync-boot once", timeout=LIMIT_S)
    debian.host.sh(f"apt-get purge -qqy -o Dpkg::Use-Pty=0 linux-image-{OURS} pvsync-boot",
                   timeout=LIMIT_S)
    assert debian.boots(1) == [stock]
    assert "pvsync" not in debian.host.sh("cat /boot/grub/grub.cfg")
    assert debian.host.sh("find /boot /etc /usr /var/lib -xdev -name '*pvsync*'"
                          " ! -path '/var/lib/dpkg/*'") == ""


def test_the_page_has_this_session(debian: Debian) -> None:
    recorded.compare(recorded.DEBIAN, "A kernel: install, choose, take back",
                     recorded.said((debian.host.logs / SESSION).read_text()))
