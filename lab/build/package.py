# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync package`: a Debian package of operators' tools, for hosts without a checkout.

    /usr/bin/pvsync                         operators' commands
    /usr/lib/pvsync                         the lab's modules, and the Python packages of
                                            requirements/operate.txt
    /usr/lib/systemd/system                 units; none of them is switched on
    /usr/lib/tuned/profiles/pvsync-host     a profile of tuned, which Debian 12's finds by the
                                            link /usr/lib/tuned/pvsync-host
    /usr/share/pvsync                       hooks of libvirt and Proxmox, to be installed, and
                                            scripts for bpftrace
    /usr/share/doc/pvsync-tools             the operators' pages, licences

The same sources give the same bytes.
"""

import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from lab.build import pages
from lab.core import paths, scratch
from lab.core.errors import LabError, UsageError

DATA = paths.LAB / "build/data"
"""What dpkg runs when the package comes and goes."""
LOCKED = re.compile(r"(?m)^([a-z0-9-]+)==([^ \\]+)")
LOCAL, PACKAGED = "/usr/local/bin/pvsync", "/usr/bin/pvsync"
"""Where units look for it in a checkout's way, and in the package's."""
PROFILES = "usr/lib/tuned/profiles"
"""Where tuned looks for them from its version 2.23 on; before, it did in the folder above."""
SCRIPT = ".bt"
"""How files end that bpftrace runs."""
PROGRAM = """\
#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
PYTHONPATH=/usr/lib/pvsync exec python3 -P -m lab "$@"
"""
CONTROL = """\
Package: pvsync-tools
Version: {version}
Architecture: all
Section: admin
Priority: optional
Maintainer: {maintainer}
Depends: python3 (>= 3.11)
Installed-Size: {size}
Description: why virtual machines wait on an overcommitted KVM host
 Diagnoses KVM hosts on any kernel of the last years, exports metrics for
 Prometheus, and sets what single virtual machines have on a pvsync kernel.
"""
COPYRIGHT = """\
pvsync is free software: GPL-2.0-only, see /usr/share/common-licenses/GPL-2.
The Python packages beside it have their licences in /usr/lib/pvsync/*.dist-info.
"""
EPOCH = 1_700_000_000
"""Time of all files, seconds since 1970."""


def build(folder: Path) -> Path:
    """Make the package in a folder; LabError if dpkg-deb cannot."""
    if shutil.which("dpkg-deb") is None:
        raise UsageError("dpkg-deb is missing: install the Debian package dpkg")
    rooms = [name.removeprefix("lab.") for name in _project()["tool"]["setuptools"]["packages"]
             if name not in {"lab", "lab.kernel"}]
    out = folder / f"pvsync-tools_{version()}_all.deb"
    with scratch.Scratch() as place:
        stage = place / "root"
        _fill(stage, version(), rooms)
        pack(stage, out)
    return out


def _project() -> Any:
    return tomllib.loads((paths.ROOT / "pyproject.toml").read_text())


def version() -> str:
    """Of pvsync, as pyproject.toml says."""
    return str(_project()["project"]["version"])


def pack(stage: Path, out: Path) -> None:
    """Make a package of a folder that has DEBIAN; LabError if dpkg-deb cannot."""
    done = subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", stage, out],
                          capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(EPOCH)})
    if done.returncode:
        raise LabError(f"{out} cannot be made: {done.stderr.strip().splitlines()[-1]}")


def _fill(stage: Path, version: str, rooms: list[str]) -> None:
    library, share = stage / "usr/lib/pvsync", stage / "usr/share"
    for room in rooms:
        shutil.copytree(paths.LAB / room, library / "lab" / room,
                        ignore=shutil.ignore_patterns("__pycache__", "data"))
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(paths.LAB / name, library / "lab")
    about = library / f"pvsync-{version}.dist-info/METADATA"
    put(about, f"Metadata-Version: 2.1\nName: pvsync\nVersion: {version}\n")
    locked = (paths.ROOT / "requirements/operate.txt").read_text()
    for name, wanted in LOCKED.findall(locked):
        _vendor(library, name, wanted)
    put(stage / "usr/bin/pvsync", PROGRAM, 0o755)
    data = paths.LAB / "operate/data"
    for file in sorted(file for file in data.rglob("*") if file.is_file()):
        text = file.read_text().replace(LOCAL, PACKAGED)
        if file.parent != data:
            put(stage / PROFILES / file.relative_to(data), text,
                0o755 if file.suffix == ".sh" else 0o644)
        elif file.suffix and file.suffix != SCRIPT:
            put(stage / "usr/lib/systemd/system" / file.name, text)
        else:
            put(share / "pvsync" / file.name, text, 0o755)
    for profile in (stage / PROFILES).iterdir():
        (stage / PROFILES).with_name(profile.name).symlink_to(f"profiles/{profile.name}")
    for page in pages.PAGES:
        put(share / "doc/pvsync-tools" / page, pages.installed(page, version))
    put(share / "doc/pvsync-tools/copyright", COPYRIGHT)
    size = sum(file.stat().st_size for file in stage.rglob("*") if file.is_file())
    put(stage / "DEBIAN/control", CONTROL.format(
        version=version, maintainer=maintainer(), size=-(-size // 1024)))
    for script in ("postinst", "prerm", "postrm"):
        put(stage / "DEBIAN" / script, (DATA / f"pvsync-tools.{script}").read_text(), 0o755)
    for one in stage.rglob("*"):
        one.chmod(0o755 if one.is_dir() or one.stat().st_mode & 0o100 else 0o644)


def _vendor(library: Path, name: str, wanted: str) -> None:
    """Copy a Python package from our own environment, which has the locked ones."""
    found = metadata.distribution(name)
    if found.version != wanted:
        raise LabError(f"{name} is {found.version} here and {wanted} in requirements/operate.txt")
    for file in found.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = library / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), target)
    for left in (*library.glob("*.dist-info/RECORD"), *library.glob("*.dist-info/INSTALLER"),
                 *library.glob("*.dist-info/REQUESTED")):
        left.unlink()


def maintainer() -> str:
    """Who makes it, as git knows them."""
    who = [subprocess.run(["git", "config", f"user.{key}"], cwd=paths.ROOT, capture_output=True,
                          text=True, check=False).stdout.strip() for key in ("name", "email")]
    return f"{who[0] or 'unknown'} <{who[1] or 'unknown@localhost'}>"


def put(file: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of a package, and the folders that it is in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
