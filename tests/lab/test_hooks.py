# SPDX-License-Identifier: GPL-2.0-only
"""What docs/install.md installs: each command works, and a hook never stops a VM."""

import configparser
import os
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from lab.core import paths

DATA = paths.LAB / "operate/data"
INSTALL = re.compile(r"^    (install .*)$", re.M)
SYSTEMD = Path("/lib/systemd/system")
TARGET = re.compile(r" (/(?:etc|var)/\S+)$")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the page's commands have installed everything."""
    commands = INSTALL.findall((paths.ROOT / "docs/install.md").read_text())
    for command in commands:
        subprocess.run(["sh", "-ec", TARGET.sub(rf" {tmp_path}\1", command)], cwd=paths.ROOT,
                       check=True)
    return tmp_path


def test_all_of_it_is_installed(root: Path) -> None:
    assert {file.read_text() for file in root.rglob("*") if file.is_file()} == {
        file.read_text() for file in DATA.rglob("*") if file.is_file() and file.suffix != ".bt"}


LIBVIRT = tuple(("-web", *words) for words in (
    ("prepare", "begin", "-"), ("start", "begin", "-"), ("stopped", "end", "shutdown"),
    ("release", "end", "shutdown"), ("migrate", "begin", "-"), ("restore", "begin", "-"),
    ("reconnect", "begin", "-"), ("attach", "begin", "-")))
PROXMOX = (("100", "pre-start"), ("100", "pre-stop"), ("100", "post-stop"))
"""What else happens to a VM."""


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(("hook", "started", "others"), [
    ("etc/libvirt/hooks/qemu.d/pvsync", ("-web", "started", "begin", "-"), LIBVIRT),
    ("var/lib/vz/snippets/pvsync", ("100", "post-start"), PROXMOX)])
def test_a_hook(root: Path, hook: str, started: tuple[str, ...],
                others: tuple[tuple[str, ...], ...], status: int) -> None:
    """Called as libvirt's page of hooks says, for what happens to a VM from its start to its end,
    and as Proxmox VE does. What it prints when a VM migrates libvirt would take for its XML.
    """
    tools, called = root / "bin", root / "called"
    tools.mkdir()
    for name, lines in {"pvsync": f'echo "$@" >>{called}; echo said; exit {status}',
                        "logger": f'{{ echo "$@"; cat; }} >>{called}'}.items():
        (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tools / name).chmod(0o755)
    for words in (*others, started):
        done = subprocess.run(
            [root / hook, *words], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            input="<domain/>" * 100_000, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert called.exists() == (words == started)
    assert sorted(called.read_text().splitlines()) == sorted(
        [f"apply -- {started[0]}", "-t pvsync", "said"])


HANGS = """\
#!/bin/sh
trap '' TERM
(trap '' TERM; sleep 600) &
sleep 600
"""


@pytest.mark.parametrize(("script", "words"), [
    ("etc/libvirt/hooks/qemu.d/pvsync", ("web", "started", "begin", "-")),
    ("var/lib/vz/snippets/pvsync", ("100", "post-start")),
    ("etc/tuned/profiles/pvsync-host/script.sh", ("start",)),
    ("etc/tuned/profiles/pvsync-host/script.sh", ("stop",)),
    ("etc/tuned/profiles/pvsync-host/script.sh", ("verify",))])
def test_nothing_waits_for_a_pvsync_that_hangs(root: Path, script: str,
                                               words: tuple[str, ...]) -> None:
    """Not even for one that signals do not end, and that has children which hold its output."""
    tools, said = root / "bin", root / "said"
    tools.mkdir()
    for name, text in {"pvsync": HANGS, "logger": f"#!/bin/sh\ncat >>{said}\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    limits = re.compile(r"timeout -k (\d+) (\d+)")
    lines = (root / script).read_text()
    found = [(int(kill), int(end)) for kill, end in limits.findall(lines)]
    assert found and all(0 < kill + end <= 60 for kill, end in found)
    (root / script).write_text(limits.sub(
        lambda one: f"timeout -k 1 {1 if one[2] == '30' else 20}", lines))
    done = subprocess.run([root / script, *words], check=False, capture_output=True, text=True,
                          timeout=60, env={"PATH": f"{tools}:/usr/bin:/bin"})
    told = done.stderr if "tuned" in script else said.read_text()
    assert "was ended after 30 s" in told
    assert (done.returncode != 0) == ("tuned" in script)
    (root / script).write_text(limits.sub("timeout -k 1 1", lines))
    (tools / "logger").write_text(HANGS)
    done = subprocess.run([root / script, *words], check=False, capture_output=True, text=True,
                          timeout=60, env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert (done.returncode != 0) == ("tuned" in script)


HOOKS = pytest.mark.parametrize(("hook", "words"), [
    ("etc/libvirt/hooks/qemu.d/pvsync", ("web", "started", "begin", "-")),
    ("var/lib/vz/snippets/pvsync", ("100", "post-start"))])


@HOOKS
def test_a_hook_finds_what_a_checkout_has_installed(root: Path, hook: str,
                                                    words: tuple[str, ...]) -> None:
    """Proxmox's PATH has no /usr/local/bin."""
    local, called = root / "usr/local/bin", root / "called"
    local.mkdir(parents=True)
    (local / "pvsync").write_text(f"#!/bin/sh\necho $* >{called}\n")
    (local / "pvsync").chmod(0o755)
    text = (root / hook).read_text()
    (root / hook).write_text(text.replace("/usr/local", f"{root}/usr/local"))
    done = subprocess.run([root / hook, *words], check=False,
                          env={"PATH": "/sbin:/bin:/usr/sbin:/usr/bin"})
    assert done.returncode == 0 and called.read_text() == f"apply -- {words[0]}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without processes")
@HOOKS
def test_a_hook_that_cannot_fork(root: Path, hook: str, words: tuple[str, ...]) -> None:
    """Libvirt ends a VM whose hook fails."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to others
        place = Path(name)
        place.chmod(0o755)
        for file in (place / "pvsync", place / "hook"):
            shutil.copy(root / hook, file)
            file.chmod(0o755)

        def alone() -> None:
            os.setgroups([])
            os.setgid(54321)
            os.setuid(54321)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        done = subprocess.run([place / "hook", *words], preexec_fn=alone, check=False, cwd="/",
                              env={"PATH": f"{place}:/usr/bin:/bin"}, capture_output=True,
                              text=True)
    assert "fork" in done.stderr and done.returncode == 0


def test_a_hook_without_the_tools_says_nothing(root: Path) -> None:
    """Such as after `apt purge`: a hook that was installed by hand stays."""
    tools = root / "bin"
    tools.mkdir()
    for name in ("timeout", "logger"):
        (tools / name).write_text("#!/bin/sh\necho $0 is called; cat\n")
        (tools / name).chmod(0o755)
    for hook, words in (("etc/libvirt/hooks/qemu.d/pvsync", ("web", "started", "begin", "-")),
                        ("var/lib/vz/snippets/pvsync", ("100", "post-start"))):
        done = subprocess.run(["/bin/sh", root / hook, *words], check=False, capture_output=True,
                              text=True, env={"PATH": str(tools)})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def read(unit: Path) -> configparser.ConfigParser:
    """A unit; of a key that comes twice, the last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser


def verified(units: Path) -> tuple[int, str]:
    """What systemd says of a folder of units, in a root of their own with Debian's targets."""
    root = units.parent / "verified"
    place = root / "etc/systemd/system"
    shutil.copytree(units, place)
    for name in ("*.target", "*.slice"):
        for unit in SYSTEMD.glob(name):
            shutil.copy(unit, place, follow_symlinks=True)
    for unit in units.glob("*.service"):
        for command in re.findall(r"(?m)^Exec\w+=(/\S+)", unit.read_text()):
            (root / command[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / command[1:]).touch(0o755)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={root}",
                           *(place / unit.name for unit in sorted(units.iterdir()))],
                          capture_output=True, text=True, check=False)
    shutil.rmtree(root)
    return done.returncode, done.stderr


def test_units(root: Path) -> None:
    units = root / "etc/systemd/system"
    assert verified(units) == (0, "")
    (units / "pvsync-host.service").open("a").write("TimeoutStartSecs=3\n")
    assert "'TimeoutStartSecs' in section" in verified(units)[1]


def test_a_unit_that_is_stopped_while_it_works_has_not_failed(root: Path) -> None:
    """systemd takes SIGTERM for a success of other types only; but the host's is taken back."""
    for unit in root.glob("etc/systemd/system/*.service"):
        service = read(unit)["Service"]
        assert service["Type"] == "oneshot"
        assert service.get("SuccessExitStatus") == "SIGTERM" or "ExecStopPost" in service, unit


def test_no_unit_hangs_or_fails_on_a_stock_kernel(root: Path) -> None:
    for unit in root.glob("etc/systemd/system/*.service"):
        parser = read(unit)
        assert parser["Unit"]["Description"]
        for key in ("TimeoutStartSec", "TimeoutStopSec"):
            assert 0 < int(parser["Service"][key]) <= 60, unit
        need = "kvm" if "export" in unit.name else "pvsync"
        assert f"ConditionPathExists=/sys/module/{need}\n" in unit.read_text(), unit


def test_what_the_pages_say_of_the_units() -> None:
    """A plain reload does nothing for a unit that is not active."""
    for page in (paths.ROOT / "docs").rglob("*.md"):
        assert not re.search(r"systemctl (reload|restart) pvsync", page.read_text()), page
    assert "systemctl reload-or-restart pvsync-host" in (
        paths.ROOT / "docs/install.md").read_text()


def test_the_page_takes_all_back_before_the_tools_go() -> None:
    """In the order in which it is typed: without the tools nothing can be taken back."""
    page = (paths.ROOT / "docs/install.md").read_text()
    parts = re.findall(r"(?m)Back:\n\n((?:    .*\n)+)", page)
    assert len(parts) == 3
    for part in parts:
        gone = re.search(r"rm -r|apt purge|pipx uninstall", part)
        assert gone and "pvsync reset --all; pvsync reset --host" in part[:gone.start()]
    assert "systemctl disable --now" in parts[1].partition("pvsync reset")[0]
    folder, first = page.index("mkdir -p /etc/pvsync"), page.index("`pvsync apply --host` sets")
    assert folder < first, "no package has that folder"
