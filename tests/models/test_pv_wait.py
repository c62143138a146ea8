# SPDX-License-Identifier: GPL-2.0-only
"""The model of wait and kick: exhaustive as it is, and wrong after each mutation."""

from pathlib import Path

import pytest

from tests.models.spin import check, first_error, verify

MODEL = Path(__file__).with_name("pv_wait.pml")
# 3 CPUs by 2 rounds, and the states of each.
BOUNDS = {
    "pv-pmt": (("-DTICKET=0", "-DFIRST=1"), 4_983_416),
    "pv-pmt-one-look": (("-DTICKET=0", "-DONE_LOOK"), 32_931_201),
    "pv-ticket": (("-DTICKET=1",), 932_241),
    "pv-pmt-nested": (("-DTICKET=0", "-DNESTED", "-DFIRST=1", "-DOTHERS=1"), 219_689),
    "pv-pmt-nested-one-look": (("-DTICKET=0", "-DNESTED", "-DFIRST=1", "-DONE_LOOK",
                                "-DSAME_BUCKET"), 14_190_173),
    "pv-ticket-nested": (("-DTICKET=1", "-DNESTED"), 4_446_378),
    "pv-pmt-probed": (("-DTICKET=0", "-DPROBED", "-DOTHERS=1"), 3_949_054),
    "pv-ticket-probed": (("-DTICKET=1", "-DPROBED"), 6_497_352),
}
ANY_ORDER = {"pv-pmt": 337_834, "pv-ticket": 279_172}
SMALL = ("-DFIRST=1", "-DOTHERS=1")
LOST = "invalid end state"
TWO_OWNERS = "assertion violated (owners==1)"
MUTATIONS = [
    ("pv-pmt", "NO_MB1", LOST), ("pv-ticket", "NO_MB1", LOST),
    ("pv-pmt", "NO_MB2", LOST), ("pv-ticket", "NO_MB2", LOST),
    ("pv-pmt", "NO_ANNOUNCE", LOST), ("pv-ticket", "NO_ANNOUNCE", LOST),
    ("pv-pmt", "TAKE_FAST", LOST), ("pv-ticket", "TAKE_FAST", LOST),
    ("pv-pmt", "NO_KICK", LOST), ("pv-ticket", "NO_KICK", LOST),
    ("pv-pmt", "NO_RECHECK", LOST), ("pv-ticket", "NO_RECHECK", LOST),
    ("pv-pmt", "KEEP_MARK", LOST), ("pv-ticket", "WAKE_ANY", LOST),
    ("pv-ticket-nested", "WAKE_FIRST", LOST),
    ("pv-pmt", "KICK_FIRST", LOST),
    ("pv-pmt", "NO_BIT", LOST), ("pv-ticket", "NO_BIT", LOST),
    ("pv-pmt", "LATE_BIT", LOST), ("pv-ticket", "LATE_BIT", LOST),
    ("pv-pmt-nested", "OLD_BIT", LOST), ("pv-ticket-nested", "OLD_BIT", LOST),
    ("pv-pmt-probed", "NO_LAST_LOOK", LOST), ("pv-ticket-probed", "NO_LAST_LOOK", LOST),
    ("pv-pmt", "TAKE_OWNED", TWO_OWNERS), ("pv-ticket", "TAKE_OWNED", TWO_OWNERS),
]


@pytest.mark.parametrize("lock", BOUNDS)
def test_no_waiter_sleeps_for_ever(lock: str, tmp_path: Path) -> None:
    defines, states = BOUNDS[lock]
    check(lock, verify(MODEL, tmp_path, *defines), states)


@pytest.mark.parametrize("lock", ANY_ORDER)
def test_slots_may_be_stored_in_any_order(lock: str, tmp_path: Path) -> None:
    """Each pair of stores swapped, that is: the model says why it is harmless."""
    found = verify(MODEL, tmp_path, *BOUNDS[lock][0], *SMALL, "-DANY_ORDER")
    check(f"{lock}, any order", found, ANY_ORDER[lock])


@pytest.mark.sampled
@pytest.mark.parametrize(("lock", "mutation", "error"), MUTATIONS)
def test_each_mutation_is_found(lock: str, mutation: str, error: str, tmp_path: Path) -> None:
    assert error == first_error(f"pv/{lock}-{mutation}", MODEL, tmp_path, *BOUNDS[lock][0], *SMALL,
                                f"-D{mutation}")
