# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the KVM host: settings of VMs and the doctor, on a real kernel.

A VM is a process of this file that has opened /dev/kvm; its vCPUs spin, or there are none.
`operate_host.py claim FILE VCPUS` is one whose memory is that file, with the firmware claims.S.
`operate_host.py export FILE LOOKS` prints what `pvsync export` writes, look after look.
`./pvsync` has no packages there, so what it calls is called as it is.
"""

import ctypes
import fcntl
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab.core.errors import LabError
from lab.observe import vms
from lab.operate import actions, doctor, kept, sched_events, settings, watch

KVM_CREATE_VM, KVM_CREATE_VCPU, KVM_RUN = 0xAE01, 0xAE41, 0xAE80
KVM_SET_USER_MEMORY_REGION, KVM_SET_REGS = 0x4020AE46, 0x4090AE82
PR_SET_THP_DISABLE = 41
START, PAGE = 0xFFFFF000, 4096
"""The page in which a vCPU starts, and where in it."""
SPIN = b"\xf3\x90\xeb\xfc"
"""PAUSE, and a jump to it."""
ROM, TOP = 0xF0000, 0xFFFF0000
"""Where a firmware lies in a guest's memory, and where it is once more."""
HOST = settings.Host()
FILE = Path("/run/pvsync/vms.toml")
"""The lab's host has no /etc that can be written."""
INSTANCES = HOST.debugfs / "tracing/instances"
TRACE_S = 2.0
TEXTS = Path("/run/texts")
PAUSE_S = 0.5
"""Between two looks."""


class Memory(ctypes.Structure):
    """struct kvm_userspace_memory_region"""

    _fields_ = (("slot", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("physical", ctypes.c_uint64), ("size", ctypes.c_uint64),
                ("address", ctypes.c_uint64))


def play(vcpus: int) -> None:
    """Be a VM whose vCPUs spin, until standard input ends."""
    page = mmap.mmap(-1, PAGE)
    page[0xFF0:0xFF0 + len(SPIN)] = SPIN
    be_vm(page, ((START, 0),), vcpus)


def claim(file: str, vcpus: int) -> None:
    """Be a VM whose memory is this file, with a firmware at its end, until standard input ends."""
    with open(file, "r+b") as opened:
        be_vm(mmap.mmap(opened.fileno(), 0), ((0, 0), (TOP, ROM)), vcpus)


def be_vm(memory: mmap.mmap, slots: Iterable[tuple[int, int]], vcpus: int) -> None:
    """Be a VM: `slots` says from which address on the guest has the memory, from which byte on.

    Each vCPU starts with its number in rbx. khugepaged leaves the VM alone: it would hold its
    memory lock without a CPU, see found.md.
    """
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    vm = fcntl.ioctl(os.open("/dev/kvm", os.O_RDWR), KVM_CREATE_VM, 0)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for slot, (at, begin) in enumerate(slots):
        fcntl.ioctl(vm, KVM_SET_USER_MEMORY_REGION,
                    bytes(Memory(slot, 0, at, len(memory) - begin, address + begin)))
    for number in range(vcpus):
        vcpu = fcntl.ioctl(vm, KVM_CREATE_VCPU, number)
        fcntl.ioctl(vcpu, KVM_SET_REGS, struct.pack("<8x Q 112x 2Q", number, 0xFFF0, 2))
        threading.Thread(target=fcntl.ioctl, args=(vcpu, KVM_RUN, 0), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


def start(name: str, number: str = "", vcpus: int = 0, memory: str = "") -> subprocess.Popen[str]:
    words = ["claim", memory] if memory else ["play"]
    numbered = ["-id", number] if number else []
    vm = subprocess.Popen([sys.executable, __file__, *words, str(vcpus), *numbered, "-name",
                           f"guest={name}"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert vm.stdout is not None and vm.stdout.readline().startswith("ready")
    return vm


def stop(vm: subprocess.Popen[str]) -> None:
    vm.communicate()


def own(name: str) -> dict[str, str]:
    return settings.own(HOST, settings.one(vms.find(), name))


def refusal(word: str, **wanted: str) -> str:
    try:
        actions.change(HOST, FILE, word, wanted)
    except LabError as error:
        return str(error)
    return "nothing"


def reset_killed_after_a_write() -> None:
    """`pvsync reset --all`, killed by SIGKILL when one setting is written."""
    child = os.fork()
    if not child:
        put = settings.put

        def last(host: settings.Host, folder: Path, name: str, value: str) -> None:
            put(host, folder, name, value)
            os.kill(os.getpid(), signal.SIGKILL)
        settings.put = last
        actions.reset(HOST, FILE, None)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def main() -> None:
    web, db = start("web"), start("db", "100")
    print(settings.names(HOST, settings.one(vms.find(), "web")))
    actions.change(HOST, FILE, "web", {"mark": "exit", "candidate": "hvs"})
    actions.change(HOST, FILE, "100", {"extend": "ecs", "extend_us": "500"})
    print(own("web"), own("db"))
    print(refusal("web", mark="no"))
    print(refusal("web", marks="exit"))
    print(refusal("web", candidate="kvm", extend_us="5"))
    print(refusal("wep", mark="exit"))
    print(own("web"))
    stop(web)
    web = start("web")
    print(own("web"))
    print(*actions.apply(HOST, FILE, "web"))
    print(own("web"))
    reset_killed_after_a_write()
    print(own("web"), own("db"))
    print(*actions.apply(HOST, FILE, None))
    print(own("web"), own("db"))
    reset_killed_after_a_write()
    actions.reset(HOST, FILE, None)
    print(own("web"), own("db"), kept.read(FILE))
    for vm in (web, db):
        stop(vm)
    print(refusal("web", mark="exit"))
    diagnose()


def diagnose() -> None:
    """Four vCPUs that spin, on two CPUs."""
    running = [start(name, vcpus=2) for name in ("one", "two")]
    with vms.counting(HOST.debugfs):
        look = next(doctor.looks(HOST, 4.0))
    print(doctor.text(look).partition("\n")[0], doctor.as_json(look), sep="\n")
    print(json.dumps({"own CPU each": traced(running, [0, 1]), "one CPU": traced(running, [0, 0]),
                      "left": [one.name for one in INSTANCES.iterdir()]}))
    for vm in running:
        stop(vm)


def waits(task: Path) -> tuple[int, int]:
    """Nanoseconds in which a thread had a CPU, and in which it waited for one."""
    ran, waited, _ = (task / "schedstat").read_text().split()
    return int(ran), int(waited)


def switches(tasks: list[Path]) -> int:
    """How often these threads gave up their CPU, or lost it."""
    return sum(int(line.split()[1]) for task in tasks
               for line in (task / "status").read_text().splitlines()
               if "ctxt_switches:" in line)


def traced(running: list[subprocess.Popen[str]], cpus: list[int]) -> dict[str, object]:
    """Co-stop of both VMs by the tracer, and their vCPUs' times by the scheduler's own account.

    VM one's vCPUs are on these CPUs. VM two's have both on CPU 1.
    """
    tasks = {vm.pid: vms.threads(vm) for vm in vms.find()}
    for pid, places in zip([vm.pid for vm in running], [cpus, [1, 1]], strict=True):
        for task, cpu in zip(tasks[pid], places, strict=True):
            os.sched_setaffinity(int(task.name), {cpu})
    before = {pid: [waits(task) for task in tasks[pid]] for pid in tasks}
    every = [task for found in tasks.values() for task in found]
    cpu_s, switched = time.process_time(), switches(every)
    found = sched_events.collect(HOST, TRACE_S)
    said: dict[str, object] = {"cpu_s": time.process_time() - cpu_s,
                               "switches": switches(every) - switched}
    after = {pid: [waits(task) for task in tasks[pid]] for pid in tasks}
    for name, vm in zip(("one", "two"), running, strict=True):
        account = [[new - old for new, old in zip(now, then, strict=True)]
                   for now, then in zip(after[vm.pid], before[vm.pid], strict=True)]
        said[name] = {"traced": asdict(found[vm.pid]), "account": account}
    return said


def export(memory: str, looks: int) -> None:
    """Two VMs of two vCPUs: `web` borrows time; `db` spins, and has a mark of its own."""
    web = start("web", vcpus=2, memory=shutil.copy(memory, "/run/web"))
    db = start("db", vcpus=2)
    actions.change(HOST, FILE, "db", {"mark": "exit"})
    TEXTS.mkdir()
    with vms.counting(HOST.debugfs):
        for _ in range(looks):
            time.sleep(PAUSE_S)
            print(watch.export(HOST, TEXTS))
    for vm in (web, db):
        stop(vm)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["play", vcpus, *_]:
            play(int(vcpus))
        case ["claim", file, vcpus, *_]:
            claim(file, int(vcpus))
        case ["export", file, looks]:
            export(file, int(looks))
        case _:
            main()
