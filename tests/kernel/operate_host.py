# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the KVM host: settings of VMs that have no guest, on a real kernel.

A VM is a process of this file that has opened /dev/kvm. `./pvsync` has no packages there, so
what it calls is called as it is.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab.core.errors import LabError
from lab.observe import vms
from lab.operate import actions, kept, settings

KVM_CREATE_VM = 0xAE01
HOST = settings.Host()
FILE = Path("/run/pvsync/vms.toml")
"""The lab's host has no /etc that can be written."""


def play() -> None:
    """Be a VM until standard input ends."""
    vm = fcntl.ioctl(os.open("/dev/kvm", os.O_RDWR), KVM_CREATE_VM, 0)
    print("ready", vm, flush=True)
    sys.stdin.read()


def start(name: str, number: str = "") -> subprocess.Popen[str]:
    words = ["-id", number] if number else []
    vm = subprocess.Popen([sys.executable, __file__, "play", *words, "-name", f"guest={name}"],
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
    actions.reset(HOST, FILE, None)
    print(own("web"), own("db"), kept.read(FILE))
    for vm in (web, db):
        stop(vm)
    print(refusal("web", mark="exit"))


if __name__ == "__main__":
    play() if sys.argv[1:2] == ["play"] else main()
