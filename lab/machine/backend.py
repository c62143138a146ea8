# SPDX-License-Identifier: GPL-2.0-only
"""Chooses what plays the KVM host: by the CPU's flags and a trial.

A /dev/kvm node alone says nothing: some machines have it and no vmx or svm.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from lab.core.errors import UsageError
from lab.core.model import Backend

KVM_GET_API_VERSION = 0xAE00
KVM_CREATE_VM = 0xAE01
CPUINFO = Path("/proc/cpuinfo")
KVM_NODE = Path("/dev/kvm")


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Flags of the first CPU in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def can_create_vm() -> bool:
    """The trial: whether KVM really makes a virtual machine here."""
    with contextlib.suppress(OSError):
        node = os.open(KVM_NODE, os.O_RDWR | os.O_CLOEXEC)
        try:
            if fcntl.ioctl(node, KVM_GET_API_VERSION, 0) != 12:
                return False
            os.close(fcntl.ioctl(node, KVM_CREATE_VM, 0))
            return True
        finally:
            os.close(node)
    return False


def nested_enabled() -> bool:
    """Whether this machine's KVM gives its guests virtualization of their own."""
    for module in ("kvm_amd", "kvm_intel"):
        with contextlib.suppress(OSError):
            if Path(f"/sys/module/{module}/parameters/nested").read_text().strip() in ("1", "Y"):
                return True
    return False


def usable_kvm(cpuinfo: str, trial: Callable[[], bool]) -> str:
    """Empty when hardware virtualization works, else one sentence why not."""
    if not cpu_flags(cpuinfo) & {"vmx", "svm"}:
        return "this machine's CPU offers neither vmx nor svm"
    if not trial():
        return "KVM cannot make a virtual machine here (no access to /dev/kvm, or it is in use)"
    return ""


def choose(wanted: str, *, cpuinfo: str | None = None, emulated: Backend = "vt",
           trial: Callable[[], bool] = can_create_vm,
           nested: Callable[[], bool] = nested_enabled) -> Backend:
    """The backend for `--backend wanted`; UsageError when it cannot work here.

    `auto` takes `kvm` where nesting on hardware works and `emulated` elsewhere. Neither emulator
    needs anything of the machine. `local` is only taken when asked for. What a scheme sets of the
    host needs the pvsync kernel there, and is refused else.
    """
    if wanted in ("vt", "tcg"):
        return "vt" if wanted == "vt" else "tcg"
    why_not = usable_kvm(CPUINFO.read_text() if cpuinfo is None else cpuinfo, trial)
    if wanted == "auto":
        return "kvm" if not why_not and nested() else emulated
    if wanted not in ("kvm", "local"):
        raise UsageError(f"there is no backend {wanted}: use auto, vt, tcg, kvm or local")
    if why_not:
        raise UsageError(f"--backend {wanted} cannot work: {why_not}; use --backend vt")
    if wanted == "kvm":
        if not nested():
            raise UsageError("--backend kvm cannot work: KVM's parameter `nested` is off;"
                             " reload kvm_amd or kvm_intel with nested=1, or use --backend vt")
        return "kvm"
    return "local"
