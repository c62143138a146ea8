# SPDX-License-Identifier: GPL-2.0-only
"""The whole command line, with guests that are fakes and this machine as their host.

Takes the arguments of `./pvsync`; nothing is built, and no KVM is needed.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lab.build import images
from lab.build.images import PLACEHOLDERS, Images
from lab.cli import main as cli
from lab.machine import backend
from lab.machine.machine import Machine

QEMU = Path(__file__).with_name("qemu.py")
NOTHING = Path("/dev/null")
start = Machine.start


def prepare(*_: Any) -> Images:
    """Images of nothing, and the fake for QEMU."""
    return Images(NOTHING, NOTHING, NOTHING, NOTHING, (sys.executable, str(QEMU)),
                  "fake 0", "6.12", "", PLACEHOLDERS.qemu)


def start_anywhere(machine: Machine, timeout: float = 20) -> dict[str, Any]:
    """As on a host with KVM, without CPU groups."""
    return {**start(machine, timeout), "kvm": True, "cgroups": False}


if __name__ == "__main__":
    backend.choose = lambda *_, **__: "local"
    vars(images)["prepare"] = prepare
    setattr(Machine, "start", start_anywhere)  # noqa: B010 (mypy has it that methods stay)
    cli.main()
