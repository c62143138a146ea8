# SPDX-License-Identifier: GPL-2.0-only
"""A console inside the KVM host or a guest: `./pvsync shell`."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from lab.build import images
from lab.core.errors import UsageError
from lab.core.model import Backend, Scheme
from lab.core.progress import shown
from lab.core.scratch import Scratch
from lab.machine import acpi, tsc
from lab.machine import backend as backends
from lab.machine.guest import GuestSpec, clock_args, guest_command
from lab.machine.machine import IDLE_STATES, HostSpec, die_with_us, host_command
from lab.plan import machine_model
from lab.run import shell_vt
from lab.run.fleet import HOST_QEMU, HOST_WORK

MEMORY = 2048
GUEST_MEMORY = 512
TYPED = ("python3", "-S", "-E", "/usr/lib/pvsync/typed.py")
"""In the host, before what is on its terminal in virtual time."""


def interactive(argv: Sequence[str]) -> list[str]:
    """The same machine with its console on this terminal; Ctrl-A X ends it."""
    out: list[str] = []
    for word in argv:
        if out and out[-1] == "-serial":
            out += ["mon:stdio"]
        elif out and out[-1] == "-append":
            out += [f"{word} pvsync.shell=1"]
        else:
            out.append(word)
    return out


def inner_script(scheme: Scheme, vcpus: int, kernel_size: int, backend: Backend) -> str:
    """Shell commands that start one guest inside the host, on the host's terminal."""
    more, relay = (("lab.typed=1",), TYPED) if backend == "vt" else ((), ())
    arguments = (*clock_args(scheme.cpu, backend), *scheme.guest, *more)
    spec = GuestSpec("shell", vcpus, GUEST_MEMORY, arguments, scheme.cpu)
    argv = [*relay, *interactive(guest_command(HOST_QEMU, spec, HOST_WORK / "bzImage",
                                               PurePosixPath("/dev/vdb"), HOST_WORK))]
    return (f"mkdir -p {HOST_WORK}/guests/shell; "
            f"head -c {kernel_size} /dev/vdc >{HOST_WORK}/bzImage; "
            + shlex.join(argv) + "; echo o >/proc/sysrq-trigger; sleep 30")


def command(where: str, scheme: Scheme, backend: Backend, files: images.Images, *, vcpus: int,
            pcpus: int, run: Path, model: str = machine_model.DEFAULT) -> list[str]:
    """QEMU's argument list on this machine."""
    if backend == "local":
        if where == "host":
            raise UsageError("with --backend local this machine is the host: you are in it")
        spec = GuestSpec("shell", vcpus, GUEST_MEMORY, scheme.guest, scheme.cpu)
        (run / "guests" / "shell").mkdir(parents=True)
        return interactive(guest_command(
            files.emulator, spec, PurePosixPath(files.guest_kernel),
            PurePosixPath(files.guest_image), PurePosixPath(run)))
    virtual = backend == "vt"
    host = HostSpec(backend, pcpus, MEMORY, files.host_kernel, files.host_image,
                    files.guest_image, files.guest_kernel, files.emulator,
                    args=tsc.kernel_arguments(backend),
                    model=machine_model.load(model) if virtual else None)
    whole = host_command(host, run, run)
    argv = shell_vt.arguments(whole, run) if virtual else interactive(whole)
    if where == "guest":
        script = run / "script"
        size = files.guest_kernel.stat().st_size
        script.write_text(inner_script(scheme, vcpus, size, backend) + "\n")
        argv += ["-drive", f"id=script,file={script},format=raw,if=none,readonly=on",
                 "-device", "virtio-blk-pci,drive=script"]
    return argv


def run(where: str, scheme: Scheme, *, vcpus: int, pcpus: int, backend: str, model: str,
        tree: Path | None, packages: tuple[str, ...]) -> None:
    """Open the console; returns when the machine ends."""
    if not sys.stdin.isatty():
        raise UsageError("`shell` needs a terminal: run it from one")
    chosen = backends.choose(backend, emulated="tcg")
    with shown() as progress:
        variant = "test" if scheme.test_only else "lab"
        files = images.prepare(scheme.variant or variant, tree, packages, progress, variant)
    print("The console follows; Ctrl-A X ends the machine.", file=sys.stderr)
    with Scratch() as folder:
        argv = command(where, scheme, chosen, files, vcpus=vcpus, pcpus=pcpus, run=folder,
                       model=model)
        if chosen != "local":
            (folder / IDLE_STATES).write_bytes(acpi.idle_states(pcpus))
        if chosen == "vt":
            shell_vt.run(argv, folder)
            return
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            subprocess.run(argv, check=False, preexec_fn=die_with_us())
        finally:
            signal.signal(signal.SIGINT, before)
            os.system("stty sane 2>/dev/null")  # QEMU may leave it raw
