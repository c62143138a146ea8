# SPDX-License-Identifier: GPL-2.0-only
"""A Debian 13 whose kernel is a packaged one of pvsync, and Linux guests with the same kernel.

The kernel is what `./pvsync package --kernel cloud-amd64` makes. Of Debian's modules it has those
of packaged/lsmod, as on a machine whose owner gave `--lsmod`.
"""

import shutil
from pathlib import Path

from lab.build import kernel_package, userland
from lab.build.kernel_package import Wanted
from lab.core import tools
from lab.core.progress import Progress
from tests.kernel.debian_host import LAB, Booted, archive, image, initial

FILES = Path(__file__).parent / "packaged"
FLAVOUR = "cloud-amd64"
PROGRAM = "tlb-loop"
"""What a guest runs: a thread that unmaps what another one has touched."""
GUESTS = ("one", "two")
"""Their names for libvirt; the file below has NAME in place of it."""
BOOT = "boot"
"""Where the guests' kernel is: AppArmor lets libvirt give them none from below /usr/lib."""
DOMAIN = FILES / "linux.xml"


def booted(folder: Path, progress: Progress) -> Booted:
    """One with a packaged kernel, which is built unless the cache has its objects."""
    debs = folder / "packages"
    debs.mkdir()
    kernel, *_ = kernel_package.build(Wanted(FLAVOUR, lsmod=FILES / "lsmod"), debs, progress)
    unpacked = folder / "unpacked"
    tools.run(["dpkg-deb", "--extract", kernel, unpacked])
    (bzimage,) = (unpacked / "boot").glob("vmlinuz-*")
    release = bzimage.name.removeprefix("vmlinuz-")
    tools.run(["depmod", "-b", unpacked, release])
    files = {f"{BOOT}/vmlinuz": bzimage, f"{BOOT}/guest.cpio": guest(folder)}
    for name in GUESTS:
        domain = folder / f"{name}.xml"
        domain.write_text(DOMAIN.read_text().replace("NAME", name))
        files[f"{LAB}/{name}.xml"] = domain
    modules = unpacked / "lib/modules" / release
    files |= {f"usr/lib/modules/{release}/{file.relative_to(modules)}": file
              for file in modules.rglob("*") if file.is_file() and not file.is_symlink()}
    return Booted(image(progress, more=files), bzimage, initial(folder, unpacked, release))


def guest(folder: Path) -> Path:
    """The initial file system of the guests: all that they have."""
    place = folder / "guest"
    place.mkdir()
    shutil.copy("/bin/busybox", place)
    shutil.copy(FILES / "guest-init", place / "init")
    userland.compile_program(userland.PROGRAMS / f"{PROGRAM}.c", place / PROGRAM)
    return archive(place, folder / "guest.cpio")
