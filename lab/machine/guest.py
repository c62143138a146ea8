# SPDX-License-Identifier: GPL-2.0-only
"""Command line and boot arguments of one guest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lab.core.model import Backend
from lab.machine import tsc

BOOT_ARGS = (
    "console=ttyS0", "root=/dev/vda", "rootfstype=erofs", "ro",
    "init=/usr/lib/pvsync/guest-init",
    "loglevel=5",           # warnings and worse: a splat shows, chatter does not
    "panic=-1", "oops=panic", "reboot=t",
    # A guest has no VMs; to patch in what KVM calls took 9 of the 15 s of a boot with 4 vCPUs.
    "initcall_blacklist=svm_init,vmx_init",
    "no_timer_check",       # the check times the PIT, which emulation delays
    "tsc=reliable",         # runs on while a guest is stopped; kvm-clock, in use, does not
    # User space reads the clock of vCPU 0, which after a stop may sleep on with the old one:
    # the time went ahead by 0.3 s and back again. Each vCPU's own is right when it runs.
    "no-kvmclock-vsyscall",
    "mitigations=off", "random.trust_cpu=on",
)
"""What every guest's kernel is given, before the scheme's own arguments."""
NO_KVM = "kvm=off"
"""Of a CPU that has no kvm-clock either."""
IRQCHIP = "kernel-irqchip=on,ioapic2=off"
"""All interrupt controllers in KVM. microvm leaves the I/O APIC to QEMU otherwise, and QEMU 10.0
takes note of the end of an interrupt without its lock (kvm_arch_handle_exit()). A device that
raises the same level meanwhile finds the interrupt not ended yet, and nobody delivers it again: the
guest waits for its disk for ever."""


@dataclass(frozen=True)
class GuestSpec:
    """One virtual machine."""

    name: str
    vcpus: int
    memory: int
    """MiB."""
    args: tuple[str, ...]
    """The scheme's boot arguments."""
    cpu: tuple[str, ...] = ()
    """The scheme's changes to the CPU, such as kvm-pv-unhalt=off."""


def boot_args(spec: GuestSpec) -> str:
    """The kernel's command line."""
    return " ".join((*BOOT_ARGS, *spec.args))


def clock_args(cpu: Sequence[str], backend: Backend) -> tuple[str, ...]:
    """What a guest's kernel is told of its TSC if no kvm-clock tells it.

    It would measure the rate by the PIT. Linux gives up if one read of the PIT takes ten times as
    long as another, as the emulator's do. Then it waits for ever for a tick of the PIT.
    """
    return tsc.kernel_arguments(backend) if NO_KVM in cpu else ()


def guest_folder(work: PurePosixPath, name: str) -> PurePosixPath:
    """Where hostd keeps the guest's sockets and console."""
    return work / "guests" / name


def guest_group(name: str) -> str:
    """The guest's CPU group in the host, relative to the root of the groups."""
    return f"pvsync-{name}"


def guest_command(emulator: tuple[str, ...], spec: GuestSpec, kernel: PurePosixPath,
                  image: PurePosixPath, work: PurePosixPath) -> list[str]:
    """QEMU's argument list, for the machine that runs hostd.

    `emulator` is QEMU's own command there, `kernel`, `image` and `work` are
    paths there.
    """
    folder = guest_folder(work, spec.name)
    return [
        *emulator, "-name", spec.name, "-nodefaults", "-no-user-config", "-display", "none",
        "-no-reboot", "-enable-kvm", "-cpu", ",".join(("host", *spec.cpu)),
        "-M", f"microvm,{IRQCHIP},x-option-roms=on,isa-serial=on,rtc=on,memory-backend=ram",
        "-smp", str(spec.vcpus), "-m", f"{spec.memory}M",
        "-object", f"memory-backend-ram,id=ram,size={spec.memory}M,prealloc=on",
        "-kernel", str(kernel), "-append", boot_args(spec),
        "-drive", f"id=root,file={image},format=raw,if=none,readonly=on",
        "-device", "virtio-blk-device,drive=root",
        "-chardev", f"file,id=console,path={folder}/console,append=on",
        "-serial", "chardev:console",
        "-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off",
        "-device", "virtio-serial-device",
        "-device", "virtserialport,chardev=agent,name=pvsync.agent",
        "-qmp", f"unix:{folder}/qmp,server=on,wait=off",
    ]
