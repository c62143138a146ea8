# SPDX-License-Identifier: GPL-2.0-only
"""Each base but the usual one: it builds, and host and guests boot and do what they are asked to.

Long, as a kernel is built from nothing (5 minutes of two idle CPUs).
"""

import json

import pytest

from lab.build import base
from tests.kernel.conftest import HERE, Lab

RELEASES = [name for name in base.names() if name != base.USUAL]
COUNTED = {
    "ticket-help": ("spin_help", "yield_attempted"),
    "tlb-shoot4u": ("tlb_calls",),
    "ecs-count-eschdspin": ("extend_granted",),
    "ecs-free": ("extend_granted",),
}
"""What the host has to have counted for a scheme's guests, in all its cells together."""


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_a_base_runs_its_mechanisms(lab: Lab, release: str) -> None:
    """A run is valid only if each guest has in force what its scheme asks for."""
    result = lab(str(HERE / "bases.toml"), "--base", release, "--backend", "vt")
    assert result.status == 0, result.output
    manifest = json.loads((result.directory / "manifest.json").read_text())
    assert manifest["base_version"].startswith(f"{release}.")
    for scheme, names in COUNTED.items():
        cells = [cell for cell in result.summary["cells"] if cell["scheme"] == scheme]
        for name in names:
            counted = [cell["observed"]["host"][name] for cell in cells]
            assert sum(counted) > 0, f"{scheme}: {name} {counted}"
    result.check_log()
