# SPDX-License-Identifier: GPL-2.0-only
"""What `pvsync doctor` names as cures of co-stop, and the figures beside them."""

import re
from dataclasses import replace

import pytest

from lab.core import paths
from lab.operate.figures import VmFigures
from tests.lab.test_doctor import ALL, FACTS, QUIET, found

COSTOP = replace(QUIET, held_up=0.5, costop=0.2, yields_per_s=5000.0)
APART = frozenset({0}), frozenset({2})


@pytest.mark.parametrize(("vm", "idle", "tie"), [
    (COSTOP, 0.01, True), (replace(COSTOP, allowed=()), 0.01, True),
    (replace(COSTOP, allowed=(frozenset({0}),) * 2), 0.01, True),
    (replace(COSTOP, allowed=APART), 0.01, False),
    (replace(COSTOP, vcpus=5, allowed=(ALL,) * 5), 0.01, False), (COSTOP, 0.3, False)])
def test_vcpus_are_to_be_tied_where_that_takes_nothing_away(vm: VmFigures, idle: float,
                                                            tie: bool) -> None:
    """No CPU idles, there are enough for the VM, and its vCPUs do share some."""
    one = found(vm, idle=idle)["co-stop"]
    assert ("vcpupin" in one.today) == tie and "one VM less" in one.today


def test_what_pvsync_has_against_co_stop() -> None:
    """Not what is set already; and the figures are those that were measured."""
    assert "extend=kernel mark=exit, for any guest" in found(COSTOP)["co-stop"].pvsync
    own = replace(FACTS, pvsync={"mark": "exit", "extend": "kernel"})
    assert "is set for all VMs already" in found(COSTOP, own)["co-stop"].pvsync
    redis, rivals = ((paths.ROOT / f"docs/results/{name}.md").read_text()
                     for name in ("redis", "rivals"))
    one = found(COSTOP)["co-stop"]
    for figure in re.findall(r"[\d,]{6}", one.today):
        assert f"| pvqspinlock | {figure} ±" in redis
    ours, others = re.findall(r"([\d.]+ )(?:times as fast )?(\[.*?\])", one.pvsync)
    assert f"| recommended-host | x{''.join(ours)}" in redis
    assert "".join(others) in rivals.replace("is at ", "").replace("\n", " ")
