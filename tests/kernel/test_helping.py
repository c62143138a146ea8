# SPDX-License-Identifier: GPL-2.0-only
"""Helping: the guests' parameter, the hypercalls' answers, the host's yields."""

import re

import pytest

from tests.kernel.conftest import HERE, Lab, Result
from tests.kernel.hypercalls import (
    EINVAL,
    ENOSYS,
    FEATURES,
    HELP,
    SHORT,
    UNKNOWN,
    answers,
    call,
    command,
)
from tests.kernel.test_locks import TRACE_BEGINS, TRACE_ENDS

OFFERED = {
    call(HELP): 0,
    call(HELP, 1): EINVAL,
    call(FEATURES): 13,
    call(FEATURES, 1): EINVAL,
    call(UNKNOWN): ENOSYS,
    call(SHORT): ENOSYS,
}
"""What a host answers that offers all there is."""
PROBE = "\n".join(
    (
        "dmesg | grep -a 'pvsync:'",
        TRACE_BEGINS,
        "for i in 1 2; do hackbench -g 4 -l 50 >/dev/null; done",
        TRACE_ENDS,
        *map(command, OFFERED),
        "dmesg | grep -a 'hypercall torture'",
        "grep help_calls /sys/kernel/debug/pvsync/counters",
    )
)
SAID = {
    "ticket-help": "the host is asked for help after",
    "qspinlock-help": "the host is asked for help after",
    "tas-help": "the host is asked for help after",
    "pmt-help": "the host is asked for help after",
    "ticket-help-kvm": "the host is asked for help after",
    "help-own": "the host is asked for help after",
    "help-unwoken": "the host is asked for help after",
    "help-throttled": "the host is asked for help after",
}
STRONG = "ticket-help", "qspinlock-help", "tas-help", "pmt-help"
"""Those whose yields are."""
VCPUS = 4
"""Of all guests of a run."""
GAP_S = 0.010
"""Of help-throttled, for each vCPU."""


def asked(output: str) -> int:
    """Hypercalls that waiting locks made, without those of the torture module."""
    found = re.findall(r"help_calls (\d+)", output)
    assert found, output
    return sum(map(int, found))


@pytest.mark.sampled
def test_every_form_of_help(lab: Lab) -> None:
    result = lab(str(HERE / "helping.toml"), "--cmd", PROBE)
    assert result.status == 0, result.output
    for scheme, line in SAID.items():
        output = result.guest_output(scheme)
        assert line in output, f"{scheme}: {output}"
        assert answers(output) == OFFERED, f"{scheme}: {output}"
    for scheme in ("ticket-help", "qspinlock-help", "help-unwoken"):
        assert asked(result.guest_output(scheme)) > 0, f"{scheme} never asked for help"
    for scheme in STRONG:
        (waits,) = re.findall(r"^traced (\d+) begun", result.guest_output(scheme), re.MULTILINE)
        assert int(waits) > 0, f"{scheme} waits without a trace"
    check_host(result)


def followed(host: dict[str, int]) -> bool:
    """Some yields were, and none of those that were refused.

    What came of a yield from before the run may be among the rest, one for each vCPU.
    """
    ran = host["yield_picked"] + host["yield_moved"]
    return 0 < ran <= host["yield_attempted"] - host["yield_refused"] + VCPUS


def check_host(result: Result) -> None:
    """The host counted what the guests asked for, and its yields add up."""
    for scheme in ("ticket-help", "ticket-help-kvm"):
        host = result.cell(scheme)["observed"]["host"]
        assert host["spin_events"] > 100, f"{scheme}: {host}"
        assert followed(host), f"{scheme}: {host}"
    # With hints, the last of these.
    assert host["yield_denied"] == 0, host
    # Who gets strong ones again and again is far ahead of its share in the end.
    assert sum(result.cell(scheme)["observed"]["host"]["yield_denied"] for scheme in STRONG) > 0
    throttled = result.cell("help-throttled")["observed"]["host"]
    assert throttled["spin_throttled"] > throttled["spin_events"] > 0, throttled
    (run,) = result.runs("help-throttled")
    took_s = (max(guest["ended"] for guest in run["guests"])
              - min(guest["began"] for guest in run["guests"]))
    assert throttled["spin_events"] <= VCPUS * (took_s / GAP_S + 1), (throttled, took_s)
