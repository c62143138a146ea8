# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync set`, `apply`, `reset` and `doctor` on the KVM host, whose kernel answers."""

import json
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


def test_settings_and_diagnosis_of_virtual_machines() -> None:
    done = subprocess.run(
        [paths.ROOT / "pvsync", "host", "--variant", "test", "--bring", paths.LAB, "--bring",
         SCRIPT, "--", "python3", SCRIPT.name],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    names, _, rest = done.stdout.partition("\n")
    assert done.returncode == 0, done
    known = names.strip("[]").replace("'", "")
    assert {"mark", "candidate", "yield", "extend"} <= set(known.split(", "))
    settings, title, told = rest.rstrip("\n").rsplit("\n", 2)
    assert settings + "\n" == SAID.replace("{known}", known), done.stdout
    assert title.startswith("2 VMs, 4 vCPUs on 2 CPUs: 2.0 each; CPUs idle 0"), title
    look = json.loads(told)
    assert look["pvsync"] and {vm["name"] for vm in look["vms"]} == {"one", "two"}
    for vm in look["vms"]:
        assert vm["held_up"] == pytest.approx(0.5, abs=0.1), vm
        assert vm["busy"] == pytest.approx(0.5, abs=0.1), vm
        assert vm["costop"] == pytest.approx(0.25, abs=0.05) and vm["lost_per_s"] > 50, vm
        assert "held-up" in [one["key"] for one in look["findings"] if one["vm"] == vm["name"]]
