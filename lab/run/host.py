# SPDX-License-Identifier: GPL-2.0-only
"""Any program in the KVM host: `./pvsync host -- COMMAND`.

The program's files are brought in as a read-only disk. Its output goes to a file in the
host, which is read while it grows.
"""

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.build import emulator, kernel, userland
from lab.core import tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Progress
from lab.core.scratch import Scratch
from lab.machine import backend as backends
from lab.machine import tsc
from lab.machine.control import Answer, Control, HostLost, Refused
from lab.machine.machine import HostSpec, Machine
from lab.plan import kconfig, machine_model
from lab.run.fleet import BOOT_LIMIT
from lab.run.parameters import parameter_file

MEMORY = 2048
"""MiB of the host, besides what its kernel needs more than others."""
FILES = "/run/files"
"""Where the files that were brought are in the host; the command's folder, if there are any."""
DISK = "PVSYNC_DISK"
"""Variable of the command's environment that names the disk's device."""
OUTPUT = "/run/output"
LOOK_S = 0.2
"""How often to look for more of the output."""
LIMIT_S = 3600.0
"""Seconds that a command may take, unless told."""
LATE, LOST = 124, 125
"""Exit statuses: the command was ended by its time limit; the lab, or the host, failed."""
SIGNALLED = 128
"""And the signal's number: a program that one ended."""


class NotHostError(LabError):
    """The host did not do its part: it was lost, refused a parameter, or has a splat."""


class LateError(LabError):
    """The command was ended by its time limit."""


@dataclass(frozen=True)
class Job:
    """What to run, and in which host."""

    command: tuple[str, ...]
    parameters: dict[str, str] = field(default_factory=dict)
    """Host parameters as in schemes: "name" of pvsync, "module.name" of another module."""
    bring: tuple[Path, ...] = ()
    """Files and folders to be found in the command's folder, by their last name."""
    disk: Path | None = None
    variant: str = "lab"
    fragments: tuple[Path, ...] = ()
    """Kconfig fragments on top of the variant."""
    backend: str = "auto"
    machine: str = machine_model.DEFAULT
    """What things cost in virtual time."""
    pcpus: int = 2
    memory: int = MEMORY
    limit_s: float = LIMIT_S
    args: tuple[str, ...] = ()
    """More boot arguments."""
    packages: tuple[str, ...] = ()
    """Debian packages that only this host has."""


def check(job: Job) -> None:
    """UsageError for what cannot be, before anything is built."""
    if backends.choose(job.backend) == "local":
        raise UsageError("with --backend local this machine is the host: run the command here")
    if not job.command:
        raise UsageError("say which command to run in the host, after `--`")
    for path in (*job.bring, *job.fragments, *((job.disk,) if job.disk else ())):
        if not path.exists():
            raise UsageError(f"{path} does not exist")
    names = [path.resolve().name for path in job.bring]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two of the files to bring are called {name}: they would be one")
    for name in job.parameters:
        if name.startswith("vm."):
            raise UsageError(f"--set {name} is a VM's own parameter, and the host has no VM yet")
    kconfig.variant(job.variant)
    userland.check_packages(job.packages)


@dataclass(frozen=True)
class Files:
    """What a host is made of, here."""

    emulator: tuple[str, ...]
    kernel: Path
    root: Path


def ready(job: Job, tree: Path | None, progress: Progress) -> Files:
    """Build what the cache lacks."""
    machine = emulator.prepare(progress)
    image = kernel.build(job.variant, job.fragments, tree=tree, progress=progress)
    root = userland.host_image(image, progress, job.packages)
    return Files(tuple(machine.command()), image.bzimage, root)


def spec(job: Job, files: Files, disks: Sequence[Path]) -> HostSpec:
    """The host; `disks` come after those of every host."""
    chosen = backends.choose(job.backend)
    extra = [word for number, path in enumerate(disks) for word in (
        "-drive", f"id=more{number},file={path},format=raw,if=none,readonly=on",
        "-device", f"virtio-blk-pci,drive=more{number}")]
    model = machine_model.load(job.machine) if chosen == "vt" else None
    # It runs no guest of the lab: its own kernel and root stand for theirs.
    return HostSpec(chosen, job.pcpus, job.memory + kconfig.variant(job.variant).memory,
                    files.kernel, files.root, files.root, files.kernel, files.emulator,
                    args=(*tsc.kernel_arguments(chosen), *job.args), extra=tuple(extra),
                    model=model)


def device(host: HostSpec, number: int) -> str:
    """The host's name of the disk with this number, from 0, of those that a job adds."""
    return f"/dev/vd{chr(ord('b') + 2 * len(host.guests) + number)}"


def pack(files: Sequence[Path], folder: Path) -> Path:
    """A read-only image of these files and folders, made in `folder`."""
    root = folder / "files"
    root.mkdir()
    for path in files:
        target = root / path.resolve().name
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copy(path, target)
    image = folder / "files.erofs"
    tools.require("mkfs.erofs")
    tools.run(["mkfs.erofs", "--quiet", image, root])
    return image


@contextmanager
def up(host: HostSpec, slowdown: float, logs: Path) -> Iterator[Machine]:
    """The host, booted; NotHostError when it does not come up."""
    with Machine(host, logs) as machine:
        try:
            hello = machine.start(BOOT_LIMIT * slowdown)
        except HostLost as lost:
            raise NotHostError(str(lost)) from lost
        if not hello.get("kvm"):
            raise NotHostError("the host came up without KVM")
        yield machine


def run(job: Job, files: Files, show: Callable[[bytes], None]) -> int:
    """Run the command in a host of its own; its status as a shell's.

    `show` is called with each piece of output as it comes. Raises LateError, and
    NotHostError for all that is not the command's doing.
    """
    with Scratch() as scratch:
        disks = [job.disk] if job.disk else []
        if job.bring:
            disks.append(pack(job.bring, scratch))
        host = spec(job, files, disks)
        with up(host, kconfig.variant(job.variant).slowdown, scratch / "logs") as machine:
            environment = {DISK: device(host, 0)} if job.disk else {}
            try:
                setup(machine.control, job.parameters,
                      device(host, len(disks) - 1) if job.bring else "")
                status = execute(machine.control, job.command, environment, job.limit_s, show)
            except (HostLost, Refused) as error:
                raise NotHostError(machine.trouble() or str(error)) from error
            if trouble := machine.trouble():
                raise NotHostError(trouble)
            machine.stop()
    return status


def setup(control: Control, parameters: dict[str, str], files: str) -> None:
    """Write the parameters, and mount the device with the files that were brought, if any."""
    for name, value in parameters.items():
        try:
            control.write_file(parameter_file(name), value)
        except Refused as refusal:
            raise NotHostError(f"host parameter {name} cannot be set: {refusal}") from None
    if files:
        mount(control, files, FILES)


def mount(control: Control, device_name: str, folder: str) -> None:
    """Mount an EROFS disk in the host."""
    script = 'mkdir -p "$1" && mount -t erofs -o ro "$0" "$1"'
    status, said = control.run("sh", "-c", script, device_name, folder)
    if status:
        raise NotHostError(f"{device_name} cannot be mounted in the host: {said.strip()}")


def execute(control: Control, command: Sequence[str], environment: dict[str, str],
            limit_s: float, show: Callable[[bytes], None]) -> int:
    """The status of a command that runs in the host, as a shell's; its output as it comes.

    Raises LateError after `limit_s` seconds; HostLost, Refused.
    """
    words = shlex.join(["env", *(f"{name}={value}" for name, value in environment.items()),
                        *command])
    script = f"cd {FILES} 2>/dev/null || cd /root; exec {words} >{OUTPUT} 2>&1"
    control.write_file(OUTPUT, "")
    future = control.submit("exec", argv=["sh", "-c", script], timeout=limit_s)
    shown = 0
    while True:
        ended = bool(wait_for([future], LOOK_S).done)
        while piece := control.read_file(OUTPUT, shown):
            show(piece)
            shown += len(piece)
        if ended:
            return _status(future, limit_s)


def _status(future: "Future[Answer]", limit_s: float) -> int:
    try:
        status = int(future.result()["status"])
    except Refused as refusal:
        if "did not end within" in str(refusal):
            raise LateError(f"the command did not end within {limit_s:g} s") from None
        raise
    return status if status >= 0 else SIGNALLED - status
