# SPDX-License-Identifier: GPL-2.0-only
"""The model of critical sections and borrowed time: exhaustive, and wrong after each mutation."""

from pathlib import Path

import pytest

from tests.models.spin import check, first_error, verify

MODEL = Path(__file__).with_name("ecs.pml")
# The states of each; other numbers mean that another model was searched.
BOUNDS: dict[str, tuple[tuple[str, ...], int]] = {
    "interrupts": (("-DTASKS=2", "-DROUNDS=2", "-DIRQ", "-DNMI"), 25_097_725),
    "migration": (("-DVCPUS=2", "-DROUNDS=2"), 1_880_137),
}
# What an assertion is about, by what stands in it and in no other.
UNTRUE = "&15)=="
NOT_NOTICED = "for_nmi["
IN_A_SECTION = "nmi_section[c])"
STILL_LENT = "given[c])||"
TAKEN_FOR_RETURNED = "returned["
LENT_TWICE = "lent["
LENT_WITHOUT_CPU = "violated !(granted["
REQUEST_LOST = "put_off["
REALTIME_LOST = "realtime["
MUTATIONS = [
    ("MARK_ONE", NOT_NOTICED), ("MARK_RUNNING", NOT_NOTICED), ("LOAD_ADD_STORE", NOT_NOTICED),
    ("NO_SWITCH", UNTRUE), ("SWITCH_STORES", NOT_NOTICED), ("UNLOCK_SWITCH", NOT_NOTICED),
    ("NO_TELL", NOT_NOTICED), ("TELL_ONE", NOT_NOTICED), ("CLEAR_LOOK", NOT_NOTICED),
    ("LEFT_IRQS_ON", NOT_NOTICED), ("LOOK_ONE", IN_A_SECTION), ("NO_CALL", NOT_NOTICED),
    ("CALL_FIRST", IN_A_SECTION), ("CALL_IGNORED", STILL_LENT), ("NO_TIMER", REQUEST_LOST),
    ("PUT_OFF_UNLOCKED", REALTIME_LOST), ("PUT_OFF_ALL", REALTIME_LOST),
    ("LEND_AGAIN", LENT_TWICE), ("KEEP_LOAN", LENT_WITHOUT_CPU), ("SPINNER_LAST", UNTRUE),
    ("STAY_REALTIME", REALTIME_LOST), ("DROP_QUIETLY", REQUEST_LOST),
    ("DROP_AND_LEND", LENT_TWICE),
]
# Of vCPUs that stay for an interrupt.
STAYING = [
    ("STAY_UNMARKED", NOT_NOTICED), ("STAY_RETURNED", TAKEN_FOR_RETURNED),
    ("STAY_FOREVER", REQUEST_LOST), ("STAY_BLIND", NOT_NOTICED),
]
HARMLESS = [("NMI_LEFT", 1_120_823), ("KEEP_MARK", 669_713)]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_words_are_true_and_loans_end(bounds: str, tmp_path: Path) -> None:
    defines, states = BOUNDS[bounds]
    check(bounds, verify(MODEL, tmp_path, *defines), states)


@pytest.mark.sampled
@pytest.mark.parametrize(("mutation", "error"), MUTATIONS)
def test_each_mutation_is_found(mutation: str, error: str, tmp_path: Path) -> None:
    assert error in first_error(f"ecs/{mutation}", MODEL, tmp_path, f"-D{mutation}")


@pytest.mark.sampled
@pytest.mark.parametrize(("mutation", "error"), STAYING)
def test_each_mutation_of_staying_is_found(mutation: str, error: str, tmp_path: Path) -> None:
    assert error in first_error(f"ecs/{mutation}", MODEL, tmp_path, "-DIRQ", f"-D{mutation}")


@pytest.mark.parametrize(("mutation", "states"), HARMLESS)
def test_harmless(mutation: str, states: int, tmp_path: Path) -> None:
    """The model says why."""
    found = verify(MODEL, tmp_path, "-DIRQ", "-DNMI", f"-D{mutation}")
    check(mutation, found, states)


def test_loans_for_nmi_handlers_are_not_covered(tmp_path: Path) -> None:
    """A limit of the mechanism, not of the model."""
    first = first_error("ecs/NMI_LOANS", MODEL, tmp_path, "-DNMI", "-DNMI_LOANS")
    assert "granted[" in first
