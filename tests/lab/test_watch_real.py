# SPDX-License-Identifier: GPL-2.0-only
"""Prometheus on what a host of the lab has exported: each query of dashboard and alerts.

tests/kernel/test_export.py has made the looks: two VMs of two vCPUs each on two CPUs.
"""

import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from lab.operate import metrics, watch
from tests.lab import exported
from tests.lab.prometheus import Server, prometheus, tool

LOOKS = exported.looks(exported.FILE.read_text())
WHOLE = f"[{1000 * (LOOKS[-1][exported.AT] - LOOKS[0][exported.AT]) + 2:.0f}ms]"
"""For as long as the looks took."""
OF = re.compile(r"by \(instance, ([\w, ]+)\) \(rate\((\w+)")
"""Labels and counter of a panel."""
NOT_THERE = "Held back by a limit"
"""The lab's kernel has no limits of CPU time."""
SLACK = 1.02
"""Rates of Prometheus are of a little more than what was seen."""
Bounds = dict[str, tuple[float, float]]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has these looks as if it had scraped them just now, each at its own time."""
    root = tmp_path_factory.mktemp("real")
    late = time.time() - LOOKS[-1][exported.AT]
    samples = sorted((*key, look[exported.AT] + late, value + late * (key == exported.AT))
                     for look in LOOKS for key, value in look.items())
    text = "".join(f"{metrics.text({(name, (*labels, ('instance', 'host'))): value})}"
                   .splitlines()[-1] + f" {at:.3f}\n" for name, labels, at, value in samples)
    (root / "looks").write_text(f"{text}# EOF\n")
    subprocess.run([tool("promtool"), "tsdb", "create-blocks-from", "openmetrics",
                    root / "looks", root / "data"], check=True, capture_output=True)
    with prometheus(root, "pvsync_host_cpus", at=f"{LOOKS[-1][exported.AT] + late:.3f}") as running:
        yield running


def grown(query: str) -> Bounds:
    """Of a panel's counter the lowest and the highest growth a second between two looks, by its
    labels."""
    found = OF.search(query)
    assert found, query
    by, name = found[1].split(", "), found[2]
    each: dict[str, list[float]] = {}
    for old, new in pairwise(LOOKS):
        sums: defaultdict[str, float] = defaultdict(float)
        for (metric, labels), value in new.items():
            if metric == name:
                sums[" ".join(dict(labels)[one] for one in by)] += value - old[metric, labels]
        for key, growth in sums.items():
            each.setdefault(key, []).append(growth / (new[exported.AT] - old[exported.AT]))
    return {key: (min(rates), max(rates)) for key, rates in each.items()}


@pytest.mark.parametrize("panel", json.loads(watch.dashboard())["panels"],
                         ids=lambda panel: str(panel["title"]))
def test_a_panel_of_a_real_host(real: Server, panel: dict[str, Any]) -> None:
    """It shows what the looks themselves say, for each of the virtual machines; and what it shows
    is possible."""
    query = panel["targets"][0]["expr"].replace("[$__rate_interval]", WHOLE)
    told = real.labelled(query)
    if panel["title"] == "vCPUs for each CPU":
        assert told == {"": 2}
        return
    bounds = grown(query)
    if panel["title"] == NOT_THERE:
        assert not bounds and not told
        return
    assert {key.split()[0] for key in bounds} == {"web", "db"}
    vcpus = 2
    for key, (low, high) in bounds.items():
        if "pvsync_unmarked_total" in query:
            assert 0 <= told[key] <= 1
        elif "pvsync_domain_vcpus" in query:
            assert low <= told[key] * vcpus * SLACK and told[key] * vcpus <= high * SLACK
            assert 0 <= told[key] <= 1, "a share of its vCPUs' time"
        else:
            assert low <= told[key] * SLACK and told[key] <= high * SLACK
    assert told.keys() == bounds.keys()


def test_what_two_cpus_can_give(real: Server) -> None:
    (ran,) = real.ask(f"sum(rate(pvsync_vcpu_run_seconds_total{WHOLE}))")
    (waited,) = real.ask(f"sum(rate(pvsync_vcpu_wait_seconds_total{WHOLE}))")
    assert 1 < ran <= 2 * SLACK and ran + waited <= 4 * SLACK


def test_alerts_of_a_real_host(real: Server) -> None:
    """Four vCPUs that want two CPUs wait. A lock that is held for ever makes all loans expire."""
    firing = {alert.name for alert in watch.ALERTS
              if real.ask(alert.expression.replace("[5m]", WHOLE))}
    assert firing == {"PvsyncHeldUp", "PvsyncHeldUpBadly", "PvsyncCostop", "PvsyncLoansExpire"}
