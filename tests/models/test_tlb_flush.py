# SPDX-License-Identifier: GPL-2.0-only
"""The model of TLB shootdown by hypercall: exhaustive as it is, and wrong after each mutation."""

import re
from pathlib import Path

import pytest

from tests.models.spin import check, first_error, verify

MODEL = Path(__file__).with_name("tlb_flush.pml")
# The states of each; other numbers mean that another model was searched.
BOUNDS: dict[str, tuple[tuple[str, ...], int]] = {
    "merged": (("-DTARGETS=1", "-DCALLERS_FROM=1"), 2_565_010),
    "merged-room": (("-DTARGETS=1", "-DCALLERS_FROM=1", "-DCAPACITY=2"), 2_629_340),
    "merged-relaxed": (("-DTARGETS=1", "-DCALLERS_FROM=1", "-DRELAXED_SET_BIT"), 2_938_088),
    "two-targets": (("-DTARGETS=2", "-DCALLERS_FROM=2"), 3_022_370),
    "mutual": (("-DVCPUS=2", "-DTARGETS=2", "-DCALLERS_FROM=0"), 502_781),
    "chain": (("-DTARGETS=2", "-DCALLERS_FROM=1", "-DCALLS=1"), 8_591_091),
    "migrating": (("-DTARGETS=1", "-DCALLERS_FROM=1", "-DMIGRATE"), 5_943_662),
    "migrating-asid": (("-DTARGETS=1", "-DCALLERS_FROM=1", "-DMIGRATE", "-DASID"), 11_881_002),
    "mixed": (("-DVCPUS=2", "-DTARGETS=1", "-DCALLERS_FROM=1", "-DMIXED"), 18_291),
    "mixed-two-callers": (("-DTARGETS=1", "-DCALLERS_FROM=1", "-DCALLS=1", "-DMIXED"), 755_279),
    "mixed-two-targets": (("-DTARGETS=2", "-DCALLERS_FROM=2", "-DCALLS=1", "-DMIXED"), 1_121_982),
    "emulating": (("-DVCPUS=2", "-DTARGETS=1", "-DCALLERS_FROM=1", "-DEMULATION"), 44_536),
    "emulating-mixed": (("-DVCPUS=2", "-DTARGETS=1", "-DCALLERS_FROM=1", "-DEMULATION", "-DMIXED"),
                        121_549),
    "emulating-two-callers": (("-DTARGETS=1", "-DCALLERS_FROM=1", "-DCALLS=1", "-DEMULATION"),
                              3_646_150),
}
BOTH = "a stale translation, and the kernel's check sees it"
STALE = "a stale translation that the kernel's check does not see"
FALSE_ALARM = "the kernel's check fires, and nothing is stale"
# What has fired when the other check is left out.
SEEN = {"SEQUENCE": "stale", "STALE": "check"}
MUTATIONS = [
    ("merged", "NO_MB_ENTRY", BOTH), ("mutual", "NO_MB_ENTRY", BOTH),
    ("merged-relaxed", "NO_MB_CALLER", BOTH),
    ("merged", "NO_RECHECK", BOTH), ("mutual", "NO_RECHECK", BOTH),
    ("merged", "NO_WAIT", BOTH), ("mutual", "NO_WAIT", BOTH), ("two-targets", "NO_WAIT", BOTH),
    ("merged", "IPI_ONLY_RUNNING_NO_MARK", BOTH), ("mutual", "IPI_ONLY_RUNNING_NO_MARK", BOTH),
    ("merged", "CLEAR_AFTER", BOTH),
    ("merged", "LIST_AFTER_REQUEST", BOTH), ("mutual", "LIST_AFTER_REQUEST", BOTH),
    ("merged", "DROP_MERGED", STALE),
    ("merged", "ACK_EARLY", BOTH), ("mutual", "ACK_EARLY", BOTH),
    ("merged", "IN_GUEST_ONLY", BOTH),
    ("migrating", "CPU_EARLY", BOTH), ("migrating-asid", "CPU_EARLY", BOTH),
    ("migrating-asid", "FLUSH_ANYWHERE", STALE),
    ("merged", "CHECK_LATE", FALSE_ALARM),
    ("mixed", "NOTE_ANYWAY", STALE), ("mixed", "NO_INTERRUPT", STALE),
    ("mixed", "LOAD_STORE_MARK", STALE), ("mixed", "MARK_LATE", STALE),
    ("emulating", "NO_AWAIT", STALE), ("emulating", "LOOK_EARLY", STALE),
    ("emulating", "OLD_DONE", STALE), ("emulating", "SETTLED_STAYS", STALE),
    ("emulating", "SETTLED_LATE", STALE), ("emulating", "EXIT_SETTLES", STALE),
    ("emulating", "SETTLE_ANY", STALE), ("emulating-mixed", "MARK_EMULATING", STALE),
]
HARMLESS = [
    ("merged", "NO_MB_CALLER", 1_889_270), ("mutual", "WAIT_IRQS_OFF", 461_933),
    ("migrating", "FLUSH_ANYWHERE", 5_943_662),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_stale_translation_no_wait_for_ever_no_false_alarm(bounds: str, tmp_path: Path) -> None:
    defines, states = BOUNDS[bounds]
    check(bounds, verify(MODEL, tmp_path, *defines), states)


@pytest.mark.sampled
@pytest.mark.parametrize(("bounds", "mutation", "kind"), MUTATIONS)
def test_each_mutation_is_found(bounds: str, mutation: str, kind: str, tmp_path: Path) -> None:
    for other, fires in (("SEQUENCE", kind != FALSE_ALARM), ("STALE", kind != STALE)):
        folder = tmp_path / f"no-{other}"
        folder.mkdir()
        defines = (*BOUNDS[bounds][0], f"-D{mutation}", f"-DNO_{other}")
        if fires:
            kept = f"tlb/{bounds}-{mutation}-{SEEN[other]}"
            first = first_error(kept, MODEL, folder, *defines)
            assert first.startswith("assertion violated")
        else:
            found = verify(MODEL, folder, *defines)
            assert found.errors == 0 and found.complete, (other, found)


def test_a_wait_for_a_preempted_target_is_found(tmp_path: Path) -> None:
    first = first_error("tlb/merged-WAIT_FLUSH", MODEL, tmp_path, *BOUNDS["merged"][0],
                        "-DWAIT_FLUSH")
    assert first == "invalid end state"


@pytest.mark.parametrize(("bounds", "mutation", "states"), HARMLESS)
def test_harmless(bounds: str, mutation: str, states: int, tmp_path: Path) -> None:
    """The model says why."""
    assert re.search(rf"\b{mutation}\b", MODEL.read_text()), "it changes nothing"
    check(mutation, verify(MODEL, tmp_path, *BOUNDS[bounds][0], f"-D{mutation}"), states)
