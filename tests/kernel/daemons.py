# SPDX-License-Identifier: GPL-2.0-only
"""An SSH server, and a Slurm of one node: Debian's, started by hand, on the loopback.

All files are in a folder of the test, all ports are free ones. Where these packages' own services
run, they are left alone.
"""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lab.core import paths
from tests.lab.prometheus import free_port

LOCK = paths.ROOT / "requirements/clusters.txt"
SLURM = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/daemon.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
"""Two jobs of one CPU run at a time, on however many this machine has."""
LIMIT_S = 60


def install(folder: Path) -> Path:
    """What the classes need that a sweep does not, in this folder."""
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-input",
                    "--disable-pip-version-check", "--target", folder, "--require-hashes",
                    "--only-binary", ":all:", "-r", LOCK], check=True)
    return folder


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found, f"{name} is missing: run `lab/deps.sh tests/soak-packages.txt`"
    return found


@contextmanager
def daemon(log: Path, *words: str | Path, **environment: str) -> Iterator[None]:
    """It runs in the foreground, and ends with the block."""
    with log.open("wb") as out:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 env={**os.environ, **environment})
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def ssh(folder: Path) -> Iterator[dict[str, Any]]:
    """An SSH server that lets this user in; the options of a connection to it."""
    port = free_port()
    for name in ("host", "user"):
        subprocess.run([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
                       check=True)
    kind, key, *_ = (folder / "host.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # it asks for that
    with daemon(folder / "log", tool("sshd"), "-D", "-e", "-f", folder / "config"):
        until(lambda: "listening" in (folder / "log").read_text(), folder / "log")
        yield {"port": port, "username": getpass.getuser(), "known_hosts": str(folder / "known"),
               "client_keys": [str(folder / "user")]}


@contextmanager
def slurm(folder: Path) -> Iterator[Path]:
    """A Slurm with the partition `all` of two CPUs; the file of its settings."""
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    config = folder / "slurm.conf"
    config.write_text(SLURM.format(host=host, folder=folder, user=getpass.getuser(),
                                   controller=free_port(), daemon=free_port()))
    munge = [f"--{name}={folder}/{file}" for name, file in (
        ("key-file", "key"), ("socket", "munge"), ("pid-file", "munge.pid"), ("seed-file", "seed"),
        ("log-file", "munge.log"))]
    with ExitStack() as stack:
        stack.enter_context(daemon(folder / "munged.out", tool("munged"), "--foreground",
                                   "--force", *munge))
        until((folder / "munge").exists, folder / "munged.out")
        for name in ("slurmctld", "slurmd"):
            stack.enter_context(daemon(folder / f"{name}.out", tool(name), "-D",
                                       SLURM_CONF=str(config)))
        until(lambda: said(config, "sinfo", "-h", "-o", "%T") == "idle", folder / "slurmctld.log")
        yield config


def said(config: Path, *command: str) -> str:
    """What a command of Slurm says."""
    done = subprocess.run(command, env={**os.environ, "SLURM_CONF": str(config)}, text=True,
                          capture_output=True, check=False)
    return done.stdout.strip()


def until(what: Any, log: Path) -> None:
    end = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < end, log.read_text(errors="replace")
        time.sleep(0.1)
