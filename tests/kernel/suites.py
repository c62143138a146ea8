# SPDX-License-Identifier: GPL-2.0-only
"""Suites that boot VMs of their own, run in the KVM host: the verdict of each program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.build import selftests
from lab.machine.control import Control, Refused
from lab.run import host
from lab.run.parameters import parameter_file

ABI, MSR, STATS = selftests.OWN
SHORT = (
    ABI, MSR, STATS, "kvm_binary_stats_test", "steal_time", "x86_64/kvm_pv_test",
    "x86_64/set_sregs_test", "x86_64/svm_vmcall_test",
    "x86_64/svm_int_ctl_test", "x86_64/state_test", "x86_64/cpuid_test",
    "x86_64/fix_hypercall_test", "x86_64/set_boot_cpu_id", "x86_64/tsc_msrs_test",
    "x86_64/kvm_clock_test", "x86_64/xapic_ipi_test",
)
"""Each takes a second, the last one 5: APICs, hypercalls, statistics, steal time, state, clocks."""
FOLDER = "/run/selftests"
SKIPPED = 4
"""Exit status of a selftest that the machine cannot run."""
OFF = {"mark": "kvm", "extend": "off", "window": "kvm", "candidate": "kvm", "yield": "hint",
       "pause": "kvm"}
ON = {"mark": "exit", "extend": "ecs", "window": "aple", "candidate": "hvs", "yield": "strong",
      "pause": "soft"}
"""Host parameters with nothing of pvsync on, and with everything."""
SHOWN = 600
"""Characters of a program's output that are kept: its end."""


@dataclass(frozen=True)
class Verdict:
    """What a program said."""

    name: str
    how: str
    """pass, skip, fail or late."""
    said: str


def verdict(name: str, status: int | None, said: str) -> Verdict:
    """Of an exit status, None where its time was over."""
    how = {None: "late", 0: "pass", SKIPPED: "skip"}.get(status, "fail")
    return Verdict(name, how, said.strip()[-SHOWN:])


def run(control: Control, programs: Iterable[str], limit_s: float,
        column: str = "") -> list[Verdict]:
    """Run these of the mounted suite, one after the other; HostLost passes through.

    Each verdict is printed when it is there, where `column` names whose it is.
    """
    found = []
    for name in programs:
        try:
            status, said = control.run(
                "sh", "-c", f"cd /root && exec {FOLDER}/{name}", timeout=limit_s)
        except Refused as refusal:
            found.append(verdict(name, None, str(refusal)))
        else:
            found.append(verdict(name, status, said))
        if column:
            print(f"{column}: {name}: {found[-1].how}", flush=True)
    return found


def switch(control: Control, values: dict[str, str]) -> None:
    """Write host parameters, and look that the host has them."""
    for name, value in values.items():
        control.write_file(parameter_file(name), value)
        assert control.read_file(parameter_file(name)).decode().strip() == value, name


def mount(control: Control, disk: str) -> list[str]:
    """Mount the suite; the programs that it has."""
    host.mount(control, disk, FOLDER)
    return control.read_file(f"{FOLDER}/list").decode().split()


def differences(one: Sequence[Verdict], other: Sequence[Verdict]) -> list[str]:
    """Programs whose verdicts are not the same, with both, and what they said."""
    assert [verdict.name for verdict in one] == [verdict.name for verdict in other]
    return [f"{a.name}: {a.how} ({a.said}), {b.how} ({b.said})"
            for a, b in zip(one, other, strict=True) if a.how != b.how]


def differing(columns: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """Programs that have not the same verdict in all columns."""
    return [row[0].name for row in zip(*columns.values(), strict=True)
            if len({one.how for one in row}) > 1]


def replaced(columns: Mapping[str, Sequence[Verdict]],
             again: Mapping[str, Sequence[Verdict]]) -> dict[str, list[Verdict]]:
    """The columns with the verdicts of programs that ran again in place of the first ones."""
    later = {(head, one.name): one for head, found in again.items() for one in found}
    return {head: [later.get((head, one.name), one) for one in found]
            for head, found in columns.items()}


def table(columns: Mapping[str, Sequence[Verdict]]) -> str:
    """A row for each program, a column for each host, and how many of each verdict."""
    heads = list(columns)
    rows = ["| program | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for place, one in enumerate(columns[heads[0]]):
        rows.append(f"| `{one.name}` | " + " | ".join(
            columns[head][place].how for head in heads) + " |")
    for how in ("pass", "skip", "fail", "late"):
        rows.append(f"| {how}, all | " + " | ".join(
            str(sum(one.how == how for one in columns[head])) for head in heads) + " |")
    return "\n".join(rows)
