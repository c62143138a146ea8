# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync package`: what is in the Debian package, and that it works on its own."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from lab.build import package, pages
from lab.cli import commands
from lab.core import paths
from lab.operate.host_parameters import Record
from tests import recorded
from tests.lab.test_docs import anchors
from tests.lab.test_doctor import Fake

TOOLS = {
    "usr/bin/pvsync", "usr/share/pvsync/libvirt-hook", "usr/share/pvsync/proxmox-hookscript",
    "usr/share/doc/pvsync-tools/copyright",
    *(f"usr/share/doc/pvsync-tools/{page}" for page in pages.PAGES),
    "usr/lib/systemd/system/pvsync-apply.path",
    "usr/lib/systemd/system/pvsync-apply.service", "usr/lib/systemd/system/pvsync-export.service",
    "usr/lib/systemd/system/pvsync-export.timer", "usr/lib/systemd/system/pvsync-host.service",
    "usr/share/pvsync/held-up.bt", "usr/share/pvsync/yielded-to.bt",
    *(f"usr/lib/tuned/profiles/pvsync-host/{name}"
      for name in ("host.toml", "script.sh", "tuned.conf"))}
PYTHON = {"click", "lab", "markdown_it", "mdurl", "pygments", "rich"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.build(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def root(made: Path) -> Path:
    """What it installs."""
    folder = made.parent / "root"
    subprocess.run(["dpkg-deb", "-x", made, folder], check=True)
    return folder


def field(made: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", made, name], check=True, capture_output=True,
                          text=True).stdout.strip()


def test_its_files(made: Path, root: Path) -> None:
    files = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    assert {name for name in files if not name.startswith("usr/lib/pvsync/")} == TOOLS
    inside = {file.name for file in (root / "usr/lib/pvsync").iterdir()}
    assert {name for name in inside if not name.endswith(".dist-info")} == PYTHON
    assert not [name for name in files if name.endswith((".pyc", ".so"))]
    assert (field(made, "Package"), field(made, "Depends")) == (
        "pvsync-tools", "python3 (>= 3.11)")
    script = root / "usr/lib/tuned/pvsync-host/script.sh"  # where Debian 12's tuned looks
    assert script.stat().st_mode & 0o111 == 0o111
    for unit in (root / "usr/lib/systemd/system").iterdir():
        assert "/usr/local" not in unit.read_text()


def test_each_link_of_its_pages_leads_somewhere(root: Path) -> None:
    """To another page, or to a head; what the package does not have is named by its path."""
    folder = root / "usr/share/doc/pvsync-tools"
    named, followed = set(), 0
    for page in folder.glob("*.md"):
        text = page.read_text()
        assert text.count(pages.NOTE[:20]) == 1 and "\n![" not in text
        assert not {*re.findall(r"\./pvsync ([a-z]+)", text)} & commands.OPERATORS
        for link in re.findall(r"\]\(([^)]+)\)", text):
            target, _, anchor = link.partition("#")
            there = folder / (target or page.name)
            assert there.parent == folder and there.is_file(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(there.read_text()), f"{page.name}: {link}"
            followed += 1
        named |= set(re.findall(r"(?:docs|kernel)/[\w/.-]+\.(?:md|rst|config)", text))
    assert followed > 20 and len(named) > 20
    assert all((paths.ROOT / path).is_file() for path in named), named


def test_the_same_sources_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    assert package.build(tmp_path).read_bytes() == made.read_bytes()


SCRIPTS = ("postinst", "prerm", "postrm")


def dpkg(root: Path, *words: str | Path) -> str:
    """Debian's own, on an empty root without systemd, whose scripts it runs with DPKG_ROOT; what
    it warns of."""
    (root / "var/lib/dpkg/updates").mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    done = subprocess.run(["dpkg", f"--root={root}", "--force-script-chrootless", "--log=/dev/null",
                           "--force-depends", "--force-not-root", *words],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def left(root: Path) -> set[str]:
    """Files and links, but for dpkg's own."""
    return {str(one.relative_to(root)) for one in root.rglob("*")
            if one.is_symlink() or one.is_file()
            if not one.is_relative_to(root / "var/lib/dpkg")}


def test_nothing_is_left_after_a_purge(made: Path, tmp_path: Path) -> None:
    """Nor is anything enabled; an upgrade leaves enabled what is."""
    root = tmp_path / "root"
    units = tuple(sorted(Path(name).name for name in TOOLS if "/systemd/" in name))
    dpkg(root, "-i", made)
    assert not {name for name in left(root) if name.startswith("etc/")}, "nothing is switched on"
    subprocess.run(["systemctl", "--quiet", f"--root={root}", "enable", *units], check=True)
    enabled = {name for name in left(root) if name.startswith("etc/")}
    assert enabled == {"etc/systemd/system/multi-user.target.wants/pvsync-apply.path",
                       "etc/systemd/system/multi-user.target.wants/pvsync-host.service",
                       "etc/systemd/system/timers.target.wants/pvsync-export.timer"}
    exported = root / "var/lib/prometheus/node-exporter/pvsync.prom"
    for file in (root / "etc/pvsync/host.toml", exported):
        file.parent.mkdir(parents=True)
        file.touch()
    dpkg(root, "-i", made)
    assert enabled < left(root)
    assert called(root, "--version").returncode == 0
    assert list(root.rglob("__pycache__")), "Python has written what dpkg does not know"
    dpkg(root, "-i", made)
    assert not list(root.rglob("__pycache__")), "of an older version it could be"
    assert called(root, "--version").returncode == 0
    assert "not removed" not in dpkg(root, "--remove", "pvsync-tools")
    assert left(root) == {"etc/pvsync/host.toml"}
    dpkg(root, "--purge", "pvsync-tools")
    assert left(root) == set()


def run_script(script: Path, word: str, root: Path) -> str:
    """One of the package's, as if that folder were the root; what it says on standard error."""
    text = re.sub("/(etc|var|usr/lib|run/systemd|run/pvsync)/", rf"{root}/\1/",
                  script.read_text()).replace("/run/pvsync\"", f"{root}/run/pvsync\"")
    return subprocess.run(["sh", "-c", text, script, word], check=True, capture_output=True,
                          text=True, env={"PATH": f"{root}/bin:/usr/bin:/bin"}).stderr


@pytest.mark.parametrize("taken_back", [True, False])
def test_the_host_is_as_before_whoever_has_set_it(made: Path, tmp_path: Path,
                                                  taken_back: bool) -> None:
    """Also by tuned, which is told of; what cannot be taken back stays noted."""
    control, record = tmp_path / "control", tmp_path / "run/pvsync/host.json"
    subprocess.run(["dpkg-deb", "-e", made, control], check=True)
    for name in ("bin", "run/pvsync", "etc/tuned", "usr/lib/pvsync"):
        (tmp_path / name).mkdir(parents=True)
    file = "/usr/lib/tuned/profiles/pvsync host/host.toml"
    record.write_text(json.dumps(asdict(Record(file, {"mark": "kvm"}, {"mark": "exit"})), indent=1))
    (tmp_path / "bin/pvsync").write_text(
        f'#!/bin/sh\nprintf "%s;" "$@" >{tmp_path}/said\n'
        + (f"rm {record}\n" if taken_back else "exit 1\n"))
    (tmp_path / "bin/systemctl").symlink_to("/bin/true")
    (tmp_path / "bin/pvsync").chmod(0o755)
    (tmp_path / "etc/tuned/active_profile").write_text("virtual-host pvsync-host\n")
    assert "tuned still has the profile" in run_script(control / "prerm", "remove", tmp_path)
    assert (tmp_path / "said").read_text() == f"reset;--host;--file;{file};"
    run_script(control / "postrm", "remove", tmp_path)
    assert record.parent.exists() != taken_back
    (tmp_path / "said").unlink()
    (tmp_path / "etc/tuned/active_profile").write_text("virtual-host\n")
    (tmp_path / "usr/lib/pvsync").mkdir()
    assert run_script(control / "prerm", "upgrade", tmp_path) == ""
    record.unlink(missing_ok=True)
    assert run_script(control / "prerm", "remove", tmp_path) == ""
    assert not (tmp_path / "said").exists()


@pytest.mark.parametrize("fails", ["", "exit 1"])
def test_its_units_are_stopped(made: Path, tmp_path: Path, fails: str) -> None:
    """Before they go, also when systemd refuses; and systemd reads units that came and went."""
    control, tools = tmp_path / "control", tmp_path / "bin"
    subprocess.run(["dpkg-deb", "-e", made, control], check=True)
    for folder in (tools, tmp_path / "run/systemd/system"):
        folder.mkdir(parents=True)
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/said\n{fails}\n')
    (tools / "systemctl").chmod(0o755)

    def said(script: str, word: str) -> list[str]:
        (tmp_path / "said").write_text("")
        run_script(control / script, word, tmp_path)
        return (tmp_path / "said").read_text().splitlines()
    units = {Path(name).name for name in TOOLS if "/systemd/" in name}
    stop, disable = said("prerm", "remove")
    assert stop.split()[0] == "stop" and set(stop.split()[1:]) == units
    assert "disable" in disable.split() and units >= set(disable.split()[3:])
    assert said("prerm", "upgrade") == []
    wants = tmp_path / "etc/systemd/system/a.wants"
    wants.mkdir(parents=True)
    for unit in disable.split()[3:]:
        (wants / unit).symlink_to("/nowhere")
    (tmp_path / "usr/lib/pvsync/lab/__pycache__").mkdir(parents=True)  # by whoever typed pvsync
    assert said("postinst", "configure") == ["daemon-reload"]
    assert said("postrm", "remove") == ["daemon-reload", "reset-failed pvsync-*"]
    assert list(wants.iterdir()) == [], "also where systemctl could not"
    assert not (tmp_path / "usr/lib/pvsync").exists()
    for script, words in {"prerm": "failed-upgrade deconfigure", "postrm": "upgrade abort-install"
                          " failed-upgrade abort-upgrade disappear"}.items():
        assert [said(script, word) for word in words.split()] == [[]] * len(words.split())
    for word in ("abort-upgrade", "abort-remove", "abort-deconfigure"):
        assert said("postinst", word) == ["daemon-reload"]
    shutil.rmtree(tmp_path / "run")
    assert [said(script, "remove") for script in SCRIPTS] == [[], [disable], []]


def called(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Debian's own Python with what is installed, and nothing else of this machine."""
    program = (root / "usr/bin/pvsync").read_text().replace("/usr/lib", f"{root}/usr/lib")
    return subprocess.run(
        ["sh", "-c", program.partition("\n")[2].replace("python3 -P", "/usr/bin/python3 -sP"),
         "pvsync", *words], check=False, capture_output=True, text=True, timeout=60, cwd=root,
        env={"PATH": os.environ["PATH"]})


@pytest.mark.parametrize("command", sorted(commands.OPERATORS))
def test_its_commands(root: Path, command: str) -> None:
    done = called(root, command, "--help")
    assert (done.returncode, done.stderr) == (0, "") and f"pvsync {command}" in done.stdout


def test_it_diagnoses(root: Path, tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    done = called(root, "doctor", "--once", "-s", "0.1", "--debugfs", str(fake.host.debugfs),
                  "--proc", str(fake.host.proc), "--sys", str(fake.host.sys))
    assert (done.returncode, done.stderr) == (0, "") and "a-rather-long-name" in done.stdout
    assert called(root, "--version").stdout.endswith(", installed\n")
    assert called(root, "run", "demo").returncode == 2


def test_what_hooks_and_timers_call_loads_no_more_than_it_needs(root: Path) -> None:
    """They are called often, and VMs wait for them: what draws on terminals costs a third more."""
    code = ("import sys, lab.cli.main, lab.cli.settings, lab.cli.export;"
            "print({'rich', 'lab.build'} & set(sys.modules))")
    done = subprocess.run(["/usr/bin/python3", "-sP", "-c", code], check=True, text=True,
                          capture_output=True, env={"PYTHONPATH": str(root / "usr/lib/pvsync")})
    assert done.stdout == "set()\n"


def test_what_the_page_says_of_it() -> None:
    page = (paths.ROOT / "docs/install.md").read_text()
    assert "./pvsync package" in page and "apt purge pvsync-tools" in page


def test_the_page_lists_its_files(made: Path) -> None:
    files = ("dpkg-deb --fsys-tarfile pvsync-tools_*.deb | tar -t |"
             " grep -v -e '/$' -e /usr/lib/pvsync/")
    said = subprocess.run(["sh", "-c", files], cwd=made.parent, capture_output=True, text=True,
                          check=True).stdout
    recorded.compare(recorded.DEBIAN, "The files of the tools' package", [(files, said)])
