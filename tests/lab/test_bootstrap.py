# SPDX-License-Identifier: GPL-2.0-only
"""./pvsync and lab/deps.sh: what a fresh machine meets first. No network."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.core import paths
from lab.core.errors import UsageError

PROGRAMS = ("bash", "sh", "dirname", "readlink", "mkdir", "cat", "cut", "sha256sum", "flock", "rm",
            "touch", "tee", "grep", "tail", "sed", "sort", "env", "printf", "sleep")
PYTHON = """#!/bin/sh
case "$*" in
*sys.version_info*) exit {old} ;;
*"import ensurepip"*) exit {no_venv} ;;
*sys.base_prefix*) echo fake 3.11 ;;
*"-m venv"*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
*"-m pip"*) echo "Collecting click==1"; echo "$*" >"$HOME/pip"; {pip} ;;
*"-m lab"*) shift 3; echo "lab in $PWD, $PYTHONPATH:" "$@" ;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
"""


class Machine:
    """A PATH with only what we put there, and an own cache."""

    def __init__(self, folder: Path):
        self.bin, self.cache, self.folder = folder / "bin", folder / "cache", folder
        self.bin.mkdir()
        for name in (*PROGRAMS, "cp"):
            found = shutil.which(name)
            if found:
                self.script(name, f'#!/bin/sh\nexec {found} "$@"\n')

    def script(self, name: str, text: str) -> None:
        # Never through a link: that would write to the machine's own program.
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def python(self, old: int = 0, no_venv: int = 0, pip: str = "exit 0") -> None:
        self.script("python3", PYTHON.format(old=old, no_venv=no_venv, pip=pip))

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, check=False, capture_output=True, text=True, timeout=60,
            env={"PATH": str(self.bin), "HOME": str(self.folder),
                 "PVSYNC_CACHE": str(self.cache), **environment},
        )

    def pvsync(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(paths.ROOT / "pvsync"), *arguments, **environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_first_and_second_use(machine: Machine) -> None:
    machine.python()
    first = machine.pvsync("list", "a b")
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"lab in {machine.folder}, {paths.ROOT}: list a b\n"
    assert "Setting up the Python environment" in first.stderr
    assert "package 1: click==1" in first.stderr
    second = machine.pvsync("list", "a b")
    assert (second.stdout, second.stderr) == (first.stdout, "")


def test_nothing_of_the_callers_folder_is_run(machine: Machine) -> None:
    """Root may call it in /tmp, where others put what is called like modules of Python."""
    for name in ("ensurepip", "venv", "pip", "subprocess", "logging", "shutil"):
        (machine.folder / f"{name}.py").write_text(
            f"open({str(machine.folder / 'was-run')!r}, 'w')\n")
    machine.script("python3", f"""#!/bin/sh
case "$*" in
*"-m venv"*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; set -- "$1" "$2" "$3" --help ;;
*"-m pip"*) set -- "$1" "$2" "$3" --version ;;
*"-m lab"*) exit 0 ;;
esac
exec {sys.base_prefix}/bin/python3 "$@"
""")
    found = machine.pvsync("list")
    assert not (machine.folder / "was-run").exists()
    assert found.returncode == 0, found.stderr


def test_called_through_a_link(machine: Machine) -> None:
    machine.python()
    (machine.folder / "link").symlink_to(paths.ROOT / "pvsync")
    assert f", {paths.ROOT}: x" in machine.run("./link", "x").stdout


def test_half_made_environment_is_made_again(machine: Machine) -> None:
    machine.python(pip="kill -9 $PPID; exit 1")
    assert machine.pvsync("list").returncode != 0
    (half,) = (path for path in machine.cache.glob("venv-*") if path.is_dir())
    (half / "left-over").touch()
    machine.python()
    found = machine.pvsync("list")
    assert found.returncode == 0 and "Setting up" in found.stderr
    assert not (half / "left-over").exists()


def test_development_has_an_environment_of_its_own(machine: Machine) -> None:
    machine.python()
    plain, dev = machine.pvsync("venv"), machine.pvsync("venv", PVSYNC_DEV="1")
    assert plain.stdout != dev.stdout
    assert (Path(plain.stdout.strip()) / "complete").exists()


def test_operators_have_a_small_environment(machine: Machine) -> None:
    machine.python()
    first = machine.pvsync("top")
    assert (machine.folder / "pip").read_text().endswith("requirements/operate.txt\n")
    assert "Setting up" in first.stderr and first.stdout.endswith(": top\n")
    assert "Setting up" in machine.pvsync("list", "top").stderr
    assert (machine.folder / "pip").read_text().endswith("requirements/lab.txt\n")
    (small,) = (path for path in machine.cache.glob("venv-*") if path.name not in
                machine.pvsync("venv").stdout and path.is_dir())
    shutil.rmtree(small)
    again = machine.pvsync("top")
    assert again.stderr == "", "the lab's will do"


def test_sweeps_have_more_packages(machine: Machine) -> None:
    machine.python()
    assert machine.pvsync("sweep", "FILE").stdout.endswith(": sweep FILE\n")
    assert (machine.folder / "pip").read_text().endswith("requirements/sweep.txt\n")
    assert machine.pvsync("venv", "sweep").stderr == ""
    assert machine.pvsync("venv").stdout != machine.pvsync("venv", "sweep").stdout


def test_hashes_are_required(machine: Machine) -> None:
    machine.python()
    machine.pvsync("list")
    assert "--require-hashes --only-binary :all:" in (machine.folder / "pip").read_text()


def locked(name: str) -> dict[str, frozenset[str]]:
    """What a lock has of each release, such as click==8.5.1: its hashes."""
    text = (paths.ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = (line.split() for line in text.splitlines() if line and line[0] not in "# ")
    return {words[0]: frozenset(word for word in words if word.startswith("--hash="))
            for words in lines}


def test_locks_have_what_is_wanted_and_agree() -> None:
    wanted: set[str] = set()
    before: dict[str, frozenset[str]] = {}
    for name in ("operate", "lab", "sweep", "dev"):
        text = (paths.ROOT / "requirements" / f"{name}.in").read_text()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert all("  # " in line for line in lines), "one line says why"
        wanted |= {line.split()[0].replace("qemu.qmp", "qemu-qmp") for line in lines}
        found = locked(name)
        assert wanted <= set(found) and all(found.values())
        assert before.items() <= found.items()
        before = found
    for name in ("htmldocs", "b4", "clusters"):
        lines = (paths.ROOT / f"requirements/{name}.in").read_text().splitlines()
        assert {line.split()[0] for line in lines if line[0] != "#"} <= set(locked(name))
    versions = dict(one.split("==") for one in locked("sweep"))
    for name, version in (one.split("==") for one in locked("clusters")):
        assert versions.get(name, version) == version, "a class has a sweep's own packages"
    small = {release.partition("==")[0] for release in locked("operate")}
    assert small == {"click", "rich", "markdown-it-py", "mdurl", "pygments"}


def test_two_at_once_set_up_once(machine: Machine) -> None:
    machine.python(pip="sleep 1; echo made >>$HOME/log; exit 0")
    command, environment = [str(paths.ROOT / "pvsync"), "venv"], {
        "PATH": str(machine.bin), "HOME": str(machine.folder), "PVSYNC_CACHE": str(machine.cache)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL) for _ in "ab"]
    assert [child.wait(30) for child in both] == [0, 0]
    assert (machine.folder / "log").read_text() == "made\n"


@pytest.mark.parametrize(
    ("old", "no_venv", "pip", "message"),
    [
        (1, 0, "exit 0", "Python 3.11 or later is missing"),
        (0, 1, "exit 0", "python3-venv is missing: run `make deps`"),
        (0, 0, "echo NewConnectionError; exit 1", "the package index is out of reach"),
        (0, 0, "echo 'ERROR: no such version'; exit 1", "ERROR: no such version (log: "),
    ],
)
def test_refusals(machine: Machine, old: int, no_venv: int, pip: str, message: str) -> None:
    machine.python(old, no_venv, pip)
    repository = machine.folder / "repository"
    repository.mkdir()
    shutil.copy(paths.ROOT / "pvsync", repository)
    shutil.copytree(paths.ROOT / "requirements", repository / "requirements")
    # The script also tries the system's own Python; here that must not help.
    script = repository / "pvsync"
    script.write_text(script.read_text().replace("/usr/bin/python3", "/none"))
    found = machine.run(str(script), "list")
    assert found.returncode == 2
    last = found.stderr.splitlines()[-1]
    assert last.startswith("pvsync: ") and message in last
    assert not list(machine.cache.glob("venv-*/complete"))


def test_cache_that_cannot_be_written(machine: Machine) -> None:
    machine.python()
    machine.cache.write_text("a file")
    found = machine.pvsync("list")
    assert found.returncode == 2 and "cannot be written: set PVSYNC_CACHE" in found.stderr


def test_a_service_has_no_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd sets none, nor does libvirt for its hooks: the user's own is taken."""
    machine.python()
    home = machine.folder / "home"
    machine.script("getent", f'#!/bin/sh\n[ "$*" = "passwd {os.geteuid()}" ] &&'
                             f' echo root:x:0:0:a root:{home}:/bin/sh\n')
    for unset in (("env", "-u", "HOME"), ("env", "HOME=")):
        found = machine.run(*unset, str(paths.ROOT / "pvsync"), "venv", PVSYNC_CACHE="")
        assert (found.returncode, Path(found.stdout.strip()).parent) == (
            0, home / ".cache/pvsync"), found.stderr
    monkeypatch.setattr(pwd, "getpwuid", lambda user: SimpleNamespace(pw_dir=str(home)))
    for name in ("PVSYNC_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert paths.cache_dir() == home / ".cache/pvsync"
    monkeypatch.setenv("HOME", "")
    assert paths.cache_dir() == home / ".cache/pvsync"

    def nobody(user: int) -> None:
        raise KeyError(user)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(UsageError, match="no place for the cache: set HOME or PVSYNC_CACHE"):
        paths.cache_dir()


def test_nowhere_for_a_cache(machine: Machine) -> None:
    machine.python()
    machine.script("getent", "#!/bin/sh\nexit 2\n")
    found = machine.pvsync("list", PVSYNC_CACHE="", HOME="")
    assert (found.returncode, found.stdout, found.stderr) == (
        2, "", "pvsync: there is no place for the cache: set HOME or PVSYNC_CACHE.\n")


LIST = "# comment\nhere  x  # why\nmissing-a  y  # why\nmissing-b z\n"
DPKG = '#!/bin/sh\nfor last; do :; done\n[ "$last" = here ] && printf installed\n'
APT = '#!/bin/sh\necho "apt-get $*" >>"$HOME/log"\n'


def deps(machine: Machine, text: str = LIST) -> subprocess.CompletedProcess[str]:
    (machine.folder / "list.txt").write_text(text)
    machine.script("dpkg-query", DPKG)
    return machine.run(str(paths.LAB / "deps.sh"), "list.txt")


def test_deps_installs_only_what_is_missing(machine: Machine) -> None:
    machine.script("id", "#!/bin/sh\necho 0\n")
    machine.script("apt-get", APT)
    assert deps(machine).returncode == 0
    update, install = (machine.folder / "log").read_text().splitlines()
    assert update.startswith("apt-get update")
    assert install.endswith("--no-install-recommends missing-a missing-b")


def test_deps_with_nothing_missing_does_nothing(machine: Machine) -> None:
    machine.script("apt-get", APT)
    found = deps(machine, "here x\n")
    assert (found.returncode, found.stdout) == (0, "")
    assert not (machine.folder / "log").exists()


def test_deps_uses_sudo_for_others(machine: Machine) -> None:
    machine.script("id", "#!/bin/sh\necho 1000\n")
    machine.script("apt-get", APT)
    found = deps(machine)
    assert found.returncode == 2 and "become root and install: apt-get install" in found.stderr
    machine.script("sudo", '#!/bin/sh\necho sudo >>"$HOME/log"\nexec "$@"\n')
    assert deps(machine).returncode == 0
    assert (machine.folder / "log").read_text().count("sudo\n") == 2


def test_deps_refusals(machine: Machine) -> None:
    machine.script("id", "#!/bin/sh\necho 0\n")
    found = deps(machine)
    assert found.returncode == 2 and "this is no Debian" in found.stderr
    machine.script("apt-get", "#!/bin/sh\nexit 100\n")
    found = deps(machine)
    assert found.returncode == 2 and "apt-get update failed" in found.stderr


def test_ci_begins_without_make(machine: Machine) -> None:
    machine.script("id", "#!/bin/sh\necho 0\n")
    machine.script("dpkg-query", "#!/bin/sh\nexit 1\n")
    machine.script("is-make", '#!/bin/sh\necho made "$@" in "$PWD"\n')
    machine.script("apt-get", '#!/bin/sh\ncase "$*" in *install*" make "*)\n'
                              '\tcp "${0%/*}/is-make" "${0%/*}/make" ;;\nesac\n')
    found = machine.run(str(paths.ROOT / ".ci/run"))
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[-1] == f"made test in {paths.ROOT}"


def test_listed_packages_have_a_line_each() -> None:
    lines = (paths.LAB / "packages.txt").read_text().splitlines()
    for line in lines:
        assert line.startswith("#") or len(line.partition("#")[0].split()) == 2, line
    assert os.access(paths.LAB / "deps.sh", os.X_OK)
