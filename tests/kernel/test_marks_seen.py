# SPDX-License-Identifier: GPL-2.0-only
"""Marks of preempted vCPUs, counted by a guest's kernel; a host that loses them is found out."""

import base64

from lab.core.model import Scheme
from lab.observe import marks
from lab.observe.marks import Tally
from lab.run.parameters import parameter_file
from lab.run.session import Session
from tests.kernel.conftest import borrowed, written
from tests.kernel.test_loans import GUEST, VCPUS

PROMISED = Scheme("promised", "", host={"mark": "exit"})
STAT = "/sys/kernel/debug/pvsync/mark_stat"
BUSY = f"""
for i in {" ".join(map(str, range(VCPUS)))}
do
    timeout ${{seconds:-3}} sh -c 'while :; do :; done' &
done
wait
"""
"""As many threads as vCPUs, all of them in user mode: whoever loses a CPU is between two
instructions."""

OFF = f"""
cd /sys/kernel/debug/pvsync
echo 0 >mark_stat
before=$(grep ^mark_ counters)
seconds=2
{BUSY}
[ "$before" = "$(grep ^mark_ counters)" ] && echo same
"""


def in_guest(session: Session, tag: str, command: str) -> str:
    """What a command says there."""
    answer = session.machine.control.call("guest_exec", name=GUEST, tag=tag, command=command,
                                          timeout=120)
    return base64.b64decode(answer["out"]).decode()


def tallies(session: Session) -> dict[str, Tally]:
    """As a run of the lab takes them."""
    told = in_guest(session, "look", f"{marks.SWITCH}; {marks.READ}")
    return session._tally(PROMISED, {GUEST: told})


def seen(session: Session) -> tuple[Tally, Tally, str]:
    """The guest's tallies before and after it was busy, and what the lab makes of them."""
    before = tallies(session)
    in_guest(session, "busy", BUSY)
    after = tallies(session)
    print(before, after)
    return before[GUEST], after[GUEST], marks.unseen(before, after, VCPUS)


def test_a_host_that_loses_its_marks(common: Session) -> None:
    """The guest sees marks of a good host; of a broken one, which counts as many, none."""
    with borrowed(common), written(common, parameter_file("mark"), "exit"):
        common.machine.control.call("switch", run=[GUEST])
        for bad in ("2", "x"):
            assert "took" not in in_guest(common, "bad", f"echo {bad} >{STAT} && echo took")
        before, after, wrong = seen(common)
        assert after.seen > before.seen and after.marked > before.marked and not wrong
        with written(common, parameter_file("busted_mark"), "Y"):
            before, after, wrong = seen(common)
        assert after.seen == before.seen and after.marked > before.marked
        assert "its guests saw no mark in" in wrong, (before, after)
        assert in_guest(common, "off", OFF) == "same\n"
