# SPDX-License-Identifier: GPL-2.0-only
import pytest

from lab.core.errors import UsageError
from lab.machine import backend

PLAIN = "processor\t: 0\nflags\t\t: fpu vme lm\nflags\t\t: svm\n"
SVM = "processor\t: 0\nflags\t\t: fpu svm lm\n"


def choose(wanted: str, cpuinfo: str, trial: bool, nested: bool) -> str:
    return backend.choose(wanted, cpuinfo=cpuinfo, trial=lambda: trial, nested=lambda: nested)


@pytest.mark.parametrize(("cpuinfo", "trial", "nested", "expected"), [
    (PLAIN, True, True, "vt"),      # a /dev/kvm that answers, but no svm
    (SVM, False, True, "vt"),
    (SVM, True, False, "vt"),
    (SVM, True, True, "kvm"),
])
def test_auto(cpuinfo: str, trial: bool, nested: bool, expected: str) -> None:
    assert choose("auto", cpuinfo, trial, nested) == expected


def test_a_console_is_of_real_time_unless_it_says_so() -> None:
    assert backend.choose("auto", cpuinfo=PLAIN, emulated="tcg") == "tcg"
    assert backend.choose("vt", cpuinfo=PLAIN, emulated="tcg") == "vt"


def test_named() -> None:
    assert choose("vt", PLAIN, False, False) == "vt"
    assert choose("tcg", PLAIN, False, False) == "tcg"
    assert choose("local", SVM, True, False) == "local"
    assert choose("kvm", SVM, True, True) == "kvm"


@pytest.mark.parametrize(("wanted", "cpuinfo", "trial", "words"), [
    ("local", PLAIN, True, "neither vmx nor svm"),
    ("kvm", SVM, False, "cannot make a virtual machine"),
    ("kvm", SVM, True, "nested"),
    ("xen", SVM, True, "no backend xen"),
])
def test_refused_with_a_reason(wanted: str, cpuinfo: str, trial: bool, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose(wanted, cpuinfo, trial, nested=False)


def test_flags_of_the_first_cpu_only() -> None:
    assert backend.cpu_flags(PLAIN) == {"fpu", "vme", "lm"}
    assert backend.cpu_flags("") == frozenset()


def test_the_trial_never_raises() -> None:
    assert backend.can_create_vm() in (True, False)
