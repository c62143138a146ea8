# SPDX-License-Identifier: GPL-2.0-only
"""The tools in a Debian 13 without a kernel of its own: installed, looked at, taken away.

Once by the package, once by Debian's pipx from sources. Debian's systemd reads the units as they
are installed, and Debian's tuned the profile. Neither runs: test_debian_host.py has both at work.
PVSYNC_RECORD=1 writes what is said into docs/sessions-debian.md.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.build import package, userland
from lab.core import paths
from lab.core.progress import Plain
from tests import recorded
from tests.kernel.debian_host import ENVIRONMENT, SUITE
from tests.lab.test_doctor import Fake

pytestmark = pytest.mark.soak

PACKAGES = ("dbus", "pipx", "python3", "systemd", "tuned")
TITLE = "The tools: install, look, purge"
INSTALL = "apt-get install -qqy -o Dpkg::Use-Pty=0 ./pvsync-tools_*.deb"
PURGE = "apt-get purge -qqy -o Dpkg::Use-Pty=0 pvsync-tools"
LOOK = ("pvsync --version", "systemctl list-unit-files --no-legend 'pvsync*'",
        "systemd-analyze verify --man=no /usr/lib/systemd/system/pvsync-*",
        "tuned-adm profile_info pvsync-host 2>/dev/null | grep -v '^$'")
ENABLE = "systemctl enable pvsync-apply.path pvsync-export.timer pvsync-host.service"
BY_PIPX = "The tools, by pipx"
SOURCES = ("LICENSE", "kernel", "lab", "pyproject.toml", "requirements")
"""All that an installation needs of them."""
BUILD = ("setuptools>=77", "pip")
COME = ("pipx install ./pvsync 2>/dev/null", "rm -r pvsync/build pvsync/pvsync.egg-info",
        "ln -s ~/.local/bin/pvsync /usr/local/bin/pvsync", "pvsync --version")
GO = ("pipx uninstall pvsync", "rm /usr/local/bin/pvsync")
OF_PIPX = ("/root/.cache", "/root/.local")
"""Folders in which pipx keeps something of its own; nothing of pvsync's name is left there."""
LEFT = "find / -xdev -name '*pvsync*' ! -path '/root/pvsync*'"
ENTER = ('mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" sh -c'
         f' "export {ENVIRONMENT} PATH=/usr/local/bin:/usr/sbin:/usr/bin; cd /root; $1" 2>&1')
OWN = ("/etc/machine-id", "/run/", "/tmp/", "/var/cache/", "/var/lib/apt/", "/var/lib/dpkg/",
       "/var/lib/systemd/", "/var/log/")
"""Of apt, dpkg and systemd themselves."""
LOAD = """
import json
from tuned import consts, profiles
from tuned.utils.global_config import GlobalConfig
config = GlobalConfig()
locator = profiles.Locator(config.get_list(consts.CFG_PROFILE_DIRS, consts.CFG_DEF_PROFILE_DIRS))
loader = profiles.Loader(locator, profiles.Factory(), profiles.Merger(), config,
                         profiles.variables.Variables())
one = loader.load(["virtual-host", "pvsync-host"])
print(json.dumps({name: dict(unit.options) for name, unit in one.units.items()}))
"""


@dataclass
class Debian:
    """A root, and what was typed there."""

    root: Path
    session: list[tuple[str, str]] = field(default_factory=list)

    def sh(self, command: str, status: int = 0) -> str:
        """Type a command there, which ends with this status; what it says."""
        own = [] if os.geteuid() == 0 else ["--map-root-user"]
        done = subprocess.run(
            ["unshare", *own, "--mount", "--pid", "--fork", "sh", "-c", ENTER, self.root, command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == status, (command, done)
        self.session += recorded.said(f"# {command}\n{done.stdout}")
        return done.stdout

    def files(self) -> dict[str, tuple[int, str]]:
        """All of it, but for what tools of Debian keep of themselves: mode, and where links go."""
        found = {f"/{one.relative_to(self.root)}": one for one in self.root.rglob("*")}
        return {name: (one.lstat().st_mode, str(one.readlink()) if one.is_symlink() else "")
                for name, one in found.items() if not name.startswith(OWN)}


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """A copy of its own, with the package in /root."""
    user = userland.entry(SUITE, userland.check_packages(PACKAGES), Plain())
    root = tmp_path_factory.mktemp("debian") / "root"
    subprocess.run(["cp", "-a", user / "root", root], check=True)
    # What mmdebstrap has dpkg leave out, a host has.
    (root / "etc/dpkg/dpkg.cfg.d/99mmdebstrap").unlink(missing_ok=True)
    package.build(root / "root")
    yield Debian(root)
    subprocess.run(["rm", "-rf", root], check=True)


def test_it_comes_and_goes(debian: Debian) -> None:
    """As the page has it; afterwards all files are as before, also what was enabled and set."""
    before = debian.files()
    debian.sh(INSTALL)
    came = debian.files().keys() - before.keys()
    assert not [name for name in came if name.startswith("/etc/")], "nothing is switched on"
    for command in LOOK:
        debian.sh(command)
    debian.sh(f"{ENABLE}; mkdir /etc/pvsync; echo 'mark = \"exit\"' >/etc/pvsync/host.toml")
    assert len({name for name in debian.files() if ".wants/pvsync" in name}) == 3
    debian.sh(PURGE)
    assert debian.sh(LEFT) == ""
    assert debian.files() == before
    recorded.compare(recorded.DEBIAN, TITLE, debian.session)


def test_systemd_and_tuned_read_what_is_installed(debian: Debian) -> None:
    """And both find a fault, if there is one."""
    debian.sh(INSTALL)
    loaded = json.loads(debian.sh(f"python3 - <<'END'{LOAD}END").splitlines()[-1])
    (script,) = loaded["script"]["script"]
    assert script == "/usr/lib/tuned/profiles/pvsync-host/script.sh"
    assert (debian.root / script[1:]).stat().st_mode & 0o111 == 0o111
    assert "cpu" in loaded, "virtual-host is beside it"
    unit = debian.root / "usr/lib/systemd/system/pvsync-host.service"
    text = unit.read_text()
    unit.write_text(text.replace("ExecStart=/usr/bin/pvsync", "ExecStart=/usr/bin/pvsinc"))
    assert "pvsinc is not executable" in debian.sh(LOOK[2], 1)
    unit.write_text(text)
    profile = debian.root / "usr/lib/tuned/profiles/pvsync-host/tuned.conf"
    profile.write_text("summary=outside of any section\n")
    assert "InvalidProfileException" in debian.sh(f"python3 - <<'END'{LOAD}END", 1)
    debian.sh(PURGE)


@pytest.fixture(scope="module")
def fetched(debian: Debian) -> None:
    """The sources in /root/pvsync, and what pip would fetch for them in /root/wheels."""
    sources = debian.root / "root/pvsync"
    sources.mkdir()
    subprocess.run(["cp", "-a", *SOURCES, "-t", sources], cwd=paths.ROOT, check=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d",
                    debian.root / "root/wheels", "-r", paths.ROOT / "requirements/operate.in",
                    *BUILD], check=True)


def test_by_pipx_it_comes_and_goes(debian: Debian, fetched: None,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """As the page has it. pipx has no network; the host that is looked at is made up."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "/root/wheels")
    host = Fake(debian.root / "root/fake")
    where = " ".join(f"--{name} /root/fake/{folder.relative_to(debian.root / 'root/fake')}" for
                     name, folder in (("debugfs", host.host.debugfs), ("proc", host.host.proc)))
    before, typed = debian.files(), len(debian.session)
    for command in COME:
        debian.sh(command)
    assert "a-rather-long-name" in debian.sh(f"pvsync top --once -s 0.1 {where}")
    assert "2 vCPUs on 2 CPUs" in debian.sh(
        f"pvsync doctor --once -s 0.1 {where} --sys /root/fake/sys")
    assert "no virtual machine" in debian.sh(f"pvsync set web mark=exit {where}", 2)
    for command in GO:
        debian.sh(command)
    assert debian.sh(LEFT) == ""
    after = debian.files()
    assert {name for name in after.items() ^ before.items()
            if not name[0].startswith(OF_PIPX)} == set()
    recorded.compare(recorded.DEBIAN, BY_PIPX, debian.session[typed:])
