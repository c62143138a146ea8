# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync set`, `apply` and `reset` on the KVM host: a kernel that takes and refuses values."""

import subprocess
from pathlib import Path

import pytest

from lab.core import paths

pytestmark = pytest.mark.virtual

SCRIPT = Path(__file__).with_name("operate_host.py")
SAID = """\
{'candidate': 'hvs', 'mark': 'exit'} {'extend': 'ecs', 'extend_us': '500'}
the kernel does not take 'no' for mark: use one of: kvm yield exit
this kernel has no setting 'marks' for a virtual machine, did you mean 'mark'? (known: {known})
the kernel does not take '5' for extend_us: use a number from 10 to 10000
no virtual machine is called 'wep', did you mean 'web'? (these run: db, web)
{'candidate': 'hvs', 'mark': 'exit'}
{}
['web: mark=exit candidate=hvs'] []
{'candidate': 'hvs', 'mark': 'exit'}
{} {} {}
no virtual machine is called 'web' (none runs under KVM here)
"""


def test_settings_of_virtual_machines() -> None:
    done = subprocess.run(
        [paths.ROOT / "pvsync", "host", "--variant", "test", "--bring", paths.LAB, "--bring",
         SCRIPT, "--", "python3", SCRIPT.name],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    names, _, rest = done.stdout.partition("\n")
    assert done.returncode == 0, done
    known = names.strip("[]").replace("'", "")
    assert {"mark", "candidate", "yield", "extend"} <= set(known.split(", "))
    assert rest == SAID.replace("{known}", known), done.stdout
