# SPDX-License-Identifier: GPL-2.0-only
"""Parameters as the kernel sources have them, and schemes that ask for others."""

import re
from dataclasses import replace

import pytest

from lab.core import paths
from lab.core.errors import UsageError
from lab.core.model import Scheme
from lab.plan import config, known
from lab.run import disturb
from tests.lab.calls import Call, call

__all__ = ["call"]
OVERLAY = paths.KERNEL / "overlay"
BUSTED = {"busted_shootdown", "busted_await", "busted_mark", "assert_shootdown"}
"""For tests of the host itself."""
BUILT = """
static const struct lock_choice lock_choices[] __initconst = {
	{ "one",	NULL },
#ifdef CONFIG_MORE
	{ "two",	two_slowpath,	NULL, "one" },
#endif
};
static const char * const names[] = {
	[A] = "a",
	[B] = "b:",
};
static int __init lock_parse_choice(char *arg)
{
	choice = lock_find_choice(arg);
}
early_param("pvsync.lock", lock_parse_choice);
static int __init parse_more(char *arg)
{
	if (match_string(names, ARRAY_SIZE(names), arg) < 0 && strcmp(arg, "auto"))
		return kstrtouint(arg, 10, &n) && n;
}
__setup("pvsync.more=", parse_more);
static int __init flag(char *arg)
{
	return 0;
}
early_param("pvsync.flag", flag);
static int __init odd(char *arg)
{
	return memparse(arg, &arg);
}
early_param("pvsync.odd", odd);
"""
HOST = """
#define LEAST	BIT(3)
static const char * const names[] = {
	[A] = "a",
	[B] = "b:",
};
static const struct pvsync_number bound = {
	.name = "b", .least = LEAST, .most = U16_MAX,
};
struct pvsync_choice choice = {
	.name = "choice", .values = names, .nr = N, .number = &bound,
};
struct pvsync_number number = {
	.name = "number", .least = 1, .most = 0x10, .now = 2,
};
module_param_named(fixed, value, uint, 0444);
module_param_named(yes, value, bool, 0644);
module_param_cb(choice, &choice_ops, &choice, 0644);
module_param_cb(number, &number_ops, &number, 0644);
module_param_cb(other, &other_ops, &else, 0644);
"""
OWN = "OWN_CHOICE(choice);\nOWN_NUMBER(number);\n"


def test_idioms() -> None:
    assert known.parse_guest(BUILT) == {
        "lock": ("one", "two"), "flag": (), "odd": None,
        "more": ("a", "b:", "auto", ("", 1, known.U32))}
    host = known.parse_host(HOST)
    assert host == {"yes": known.BOOLS, "choice": ("a", ("b:", 8, 65_535)),
                    "number": (("", 1, 16),), "other": None}
    assert known.parse_own(OWN, host) == {
        "choice": ("a", ("b:", 8, 65_535), "global"), "number": (("", 1, 16), "global")}


def test_the_kernel_has_nothing_else() -> None:
    """Each parameter is found, and how it is read is understood."""
    guest = "".join(file.read_text() for file in (OVERLAY / "kernel/pvsync").rglob("*.c"))
    names = re.findall(r'^(?:early_param|__setup)\("pvsync\.([a-z_]+)', guest, re.M)
    assert set(names) == set(known.guest())
    assert {"lock", "tau", "halt_spins", "help", "tlb", "ecs", "park"} <= set(names)
    host = (OVERLAY / "kernel/pvsync/host.c").read_text()
    names = re.findall(r"module_param(?:_named|_cb)\((\w+),[^;]*0644\);", host)
    assert set(names) == set(known.host())
    for table in (known.guest(), known.host(), known.own()):
        assert None not in table.values(), table
    said = re.findall(r"is not known[^;]*; use ([a-z0-9, -]+ or [a-z0-9-]+)", guest)
    tables = [{value for value in values or () if isinstance(value, str)}
              for values in known.guest().values()]
    assert len(said) >= 4
    for line in said:
        assert any(set(re.split(", | or ", line)) == table - {"busted"} for table in tables), line


def test_bounds_are_those_of_the_kernel() -> None:
    host = (OVERLAY / "kernel/pvsync/host.c").read_text()
    said = {"LEAST_WINDOW": 128, "MOST_WINDOW": 1 << 22, "U16_MAX": 65_535}
    assert "#define LEAST_WINDOW\t128\n#define MOST_WINDOW\tBIT(22)\n" in host
    assert '.name = "window (fixed:N)", .least = LEAST_WINDOW, .most = MOST_WINDOW,' in host
    assert ("fixed:", 128, 1 << 22) in (known.own()["window"] or ())
    bounds = re.findall(r'\.name = "(\w+)", \.least = (\w+), \.most = (\w+)', host)
    assert len(bounds) >= 9
    for name, *ends in bounds:
        least, most = (said.get(end) or int(end) for end in ends)
        assert known.host()[name] == (("", least, most),)


def test_disturbances_have_every_value() -> None:
    assert set(known.host()) - BUSTED == {*disturb.HOST, *disturb.OFFERS}
    vm = (OVERLAY / "arch/x86/kvm/pvsync/control.c").read_text()
    assert set(re.findall(r"^OWN_(?:CHOICE|NUMBER)\((\w+)\);", vm, re.M)) == set(disturb.OWN)
    assert all(known.GLOBAL not in values for values in disturb.OWN.values())


@pytest.mark.parametrize(("values", "text", "taken"), [
    (("a", ("b:", 8, 16)), "a", True), (("a", ("b:", 8, 16)), "b:8", True),
    (("a", ("b:", 8, 16)), "b:7", False), (("a", ("b:", 8, 16)), "b:", False),
    (("a", ("b:", 8, 16)), "8", False), ((("", 0, 9),), "9", True), ((("", 0, 9),), "-1", False),
    ((("", 0, 9),), "9" * 50, False), ((("", 0, 9),), "\u0663", False), ((), "", False),
    (None, "x", True),
])
def test_takes(values: known.Values, text: str, taken: bool) -> None:
    assert known.takes(values, text) == taken


WRONG = {
    "pvsync.tlb=mix": "boot parameter pvsync.tlb does not take 'mix', did you mean 'mixed'?"
                      " (known: ipi, kvmtlb, shoot4u, mixed)",
    "pvsync.ecs=counts": "did you mean 'count'?",
    "pvsync.lock=cohort": "does not take 'cohort'",
    "pvsync.locks=ticket": "the kernel has no boot parameter pvsync.locks, did you mean"
                           " 'pvsync.lock'?",
    "pvsync.lock": "does not take ''",
    "pvsync.tau=2us": "(known: inf, N from 0 to 4294967295)",
    "pvsync.help=0": "N from 1 to",
    "pvsync.overrule=1": "(known: no value at all)",
    "pvsync.candidate=hsv": "did you mean 'hvs'?",
}


@pytest.mark.parametrize("argument", WRONG)
@pytest.mark.parametrize("where", ["guest", "neighbour"])
def test_unknown_boot_arguments(argument: str, where: str) -> None:
    scheme = Scheme("mine", "")
    given = ("quiet", argument)
    scheme = replace(scheme, guest=given) if where == "guest" else replace(scheme, neighbour=given)
    with pytest.raises(UsageError) as error:
        config.check_scheme(scheme, "--schemes")
    assert str(error.value).startswith("--schemes: scheme mine: ")
    assert WRONG[argument] in str(error.value)


@pytest.mark.parametrize(("name", "value", "words"), [
    ("candidate", "nobody", "host parameter candidate does not take 'nobody' (known: kvm, "),
    ("candidates", "hvs", "the kernel has no host parameter candidates, did you mean 'candidate'?"),
    ("pvsync.window", "fixed:7", "fixed:N from 128 to 4194304"),
    ("hypercalls", "maybe", "(known: Y, N, "),
    ("vm.yield", "harder", "parameter of a VM's own yield does not take 'harder'"),
    ("vm.spin_gap_us", "5", "the kernel has no parameter of a VM's own spin_gap_us"),
])
def test_unknown_host_parameters(name: str, value: str, words: str) -> None:
    wrong = Scheme("mine", "", host={name: value})
    with pytest.raises(UsageError) as error:
        config.check_scheme(wrong, "here")
    assert words in str(error.value)
    config.check_scheme(Scheme("mine", "", host={name: value}, refused=(name,)), "here")


def test_what_is_refused_on_purpose_has_to_be_wrong() -> None:
    with pytest.raises(UsageError, match="the kernel takes yield = 'strong', it is not refused"):
        config.check_scheme(Scheme("m", "", host={"yield": "strong"}, refused=("yield",)), "x")
    with pytest.raises(UsageError, match="refused names 'mark', which host does not have"):
        config.check_scheme(Scheme("m", "", refused=("mark",)), "x")


def test_good_ones() -> None:
    for scheme in config.schemes().values():
        config.check_scheme(scheme, "x")
    config.check_scheme(Scheme("m", "", ("nopvspin", "pvsync.overrule", "pvsync.yield=strong"),
                               {"kvm.halt_poll_ns": "0", "vm.window": "global"}), "x")


def test_nothing_boots(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    """With --dry-run or without, the status is that of wrong usage."""
    there = config.schemes() | {"mine": Scheme("mine", "", ("pvsync.lock=cohort",))}
    monkeypatch.setattr(config, "schemes", lambda: there)
    for more in (["--dry-run"], []):
        status, _, said = call("run", "smoke", "--schemes", "pvqspinlock,mine", *more)
        assert status == 2 and "does not take 'cohort'" in said
