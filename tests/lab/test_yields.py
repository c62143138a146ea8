# SPDX-License-Identifier: GPL-2.0-only
"""What a trace of directed yields says."""

import pytest

from tests.kernel import yields

HEAD = "# tracer: nop\n#\n"


def asked(at: str, target: int, cpu: int, accepted: int = 1) -> str:
    """A directed yield, as tracefs shows it."""
    return (f"       CPU 0/KVM-101     [000] d..4. {at}: sched_yield_to: comm=CPU 1/KVM"
            f" pid={target} cpu={cpu} accepted={accepted}\n")


def switched(at: str, cpu: int, following: int) -> str:
    """A switch."""
    return (f"       CPU 0/KVM-101     [{cpu:03}] d..2. {at}: sched_switch: prev_comm=CPU 0/KVM"
            f" prev_pid=101 prev_prio=120 prev_state=R ==> next_comm=CPU 1/KVM"
            f" next_pid={following} next_prio=120\n")


def test_a_yield_lands_if_its_target_is_next_on_its_cpu() -> None:
    found = yields.outcomes(HEAD + asked("5.000010", 102, 1) + switched("5.000011", 0, 104)
                            + switched("5.000015", 1, 102))
    assert (found.asked, found.accepted, found.landed) == (1, 1, 1)
    assert found.waited_us == pytest.approx((5,))
    assert found.share == 1
    assert "1 landed (100.0%)" in str(found)


def test_it_does_not_if_another_is_or_if_it_runs_elsewhere() -> None:
    other = switched("5.000015", 1, 103) + switched("5.000040", 1, 102)
    found = yields.outcomes(asked("5.000010", 102, 1) + other)
    assert (found.accepted, found.landed) == (1, 0)
    assert found.waited_us == pytest.approx((30,))
    moved = yields.outcomes(asked("5.000010", 102, 1) + switched("5.000015", 0, 102)
                            + switched("5.000020", 1, 103))
    assert (moved.accepted, moved.landed) == (1, 0)


def test_what_is_refused_or_never_runs_again_does_not_count() -> None:
    found = yields.outcomes(asked("5.000010", 102, 1, accepted=0) + asked("5.000011", 103, 1)
                            + switched("5.000015", 1, 102))
    assert (found.asked, found.accepted, found.landed) == (2, 0, 0)


def test_each_of_several_yields_to_a_task_counts() -> None:
    found = yields.outcomes(asked("5.000010", 102, 1) + asked("5.000012", 102, 1)
                            + switched("5.000015", 1, 102))
    assert (found.accepted, found.landed) == (2, 2)
    assert found.waited_us == pytest.approx((3, 5))
