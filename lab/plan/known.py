# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel sources here take for parameters: guests' boot arguments, a host's, a VM's own.

The lists are read from the C files that the kernel is built of, as `counters` reads its list, so
they are kept in one place. Each reader looks for the idioms of `kernel/overlay/kernel/pvsync`:
a parameter that is written in another way is known by name and takes any value.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from lab.core import paths
from lab.core.decode import suggest

Value = str | tuple[str, int, int]
"""A text, or what a number from one to another follows."""
Values = tuple[Value, ...] | None
"""All values of a parameter; () is one that takes none, None is one that takes any."""

GUEST = paths.KERNEL / "overlay/kernel/pvsync"
OWN = paths.KERNEL / "overlay/arch/x86/kvm/pvsync/control.c"
PREFIX = "pvsync."
OWN_PREFIX = "vm."
VCPU_PREFIX = "vcpu."
"""Of what the threads of guests' vCPUs are asked to have."""
VCPU: dict[str, Values] = {"slice_us": (("", 100, 100_000),)}
"""As far as EEVDF takes a slice, lab/target/slices.py."""
LAB_PREFIX = "lab."
"""Of what the lab's first process in a guest reads (lab/target/guest-init)."""
GOVERNOR = LAB_PREFIX + "steal_governor"
POLICY = re.compile(r"[1-9]\d{0,5},(?:0|[1-9]\d{0,5}),(?:0|[1-9]\d{0,5})", re.ASCII)
"""PERIOD_MS,HIGH,LOW, as lab/target/steal-governor takes it."""
GLOBAL = "global"
"""Value of a VM's own parameter that follows the host's."""
U32 = 2**32 - 1
WORDS = {"U16_MAX": 2**16 - 1, "U32_MAX": U32}
BOOLS: tuple[Value, ...] = ("Y", "N", "y", "n", "1", "0", "on", "off")

REGISTERED = re.compile(r'^(?:early_param|__setup)\("pvsync\.(\w+)=?", (\w+)\);', re.M)
PLAIN = re.compile(r"^module_param_named\((\w+), \w+, (\w+), 06\d\d\);", re.M)
CALLED = re.compile(r"^module_param_cb\((\w+), &(\w+), &(\w+), 06\d\d\);", re.M)
STRUCT = re.compile(r"^struct pvsync_(?:choice|number) (\w+) = \{(.*?)^\};", re.M | re.S)
STATIC = re.compile(r"^static const struct pvsync_number (\w+) = \{(.*?)^\};", re.M | re.S)
FIELD = re.compile(r"\.(\w+) = ([^,]+),")
DEFINE = re.compile(r"^#define\s+(\w+)\s+(.+)$", re.M)
BIT = re.compile(r"BIT\((\d+)\)")
TABLE = r"\b{name}\[\][^=]*= \{{(.*?)^\}};"
ENTRY = re.compile(r'^\s*(?:\[\w+\]\s*= |\{ )"([^"]*)"', re.M)
MATCHED = re.compile(r"match_string\((\w+),")
COMPARED = re.compile(r'strcmp\(arg, "([^"]+)"\)')
NUMBER = re.compile(r"kstrto(?:uint|u32)\(arg, 10, &(\w+)\)( && \1\b)?")


def _sources(folder: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.c")))


def _table(text: str, name: str) -> list[str]:
    """The strings of an array of names, or the first ones of an array of structures."""
    found = re.search(TABLE.format(name=re.escape(name)), text, re.M | re.S)
    return ENTRY.findall(found[1]) if found else []


def _body(text: str, function: str) -> str:
    found = re.search(rf"^static int __init {function}\(.*?^\}}", text, re.M | re.S)
    return found[0] if found else ""


def _number(text: str, word: str) -> int:
    """A C constant: a number, BIT(), or a macro of one."""
    defined = dict(DEFINE.findall(text)) | {name: str(value) for name, value in WORDS.items()}
    word = defined.get(word.strip(), word).strip()
    bit = BIT.fullmatch(word)
    return 1 << int(bit[1]) if bit else int(word, 0)


def _taken(text: str, function: str) -> Values:
    """What the function of a boot parameter takes."""
    body = _body(text, function)
    if not re.search(r"\barg\b", body.partition("{")[2]):
        return () if body else None
    values: list[Value] = []
    chosen = ["lock_choices"] if "lock_find_choice(arg)" in body else []
    for table in (*MATCHED.findall(body), *chosen):
        values += _table(text, table)
    number = NUMBER.search(body)
    values += COMPARED.findall(body)
    if number:
        values.append(("", 1 if number[2] else 0, U32))
    return tuple(dict.fromkeys(values)) or None


def parse_guest(text: str) -> dict[str, Values]:
    """Boot parameters of pvsync in C sources: name without its prefix, to its values."""
    return {name: _taken(text, function) for name, function in REGISTERED.findall(text)}


def _settings(text: str) -> dict[str, Values]:
    """Each structure of a parameter, to the values that it stands for."""
    fields = {name: dict(FIELD.findall(body))
              for pattern in (STATIC, STRUCT) for name, body in pattern.findall(text)}

    def span(name: str, before: str = "") -> Value:
        least, most = (_number(text, fields[name][key]) for key in ("least", "most"))
        return before, least, most

    found: dict[str, Values] = {}
    for name, have in fields.items():
        if "values" in have:
            found[name] = tuple(span(have["number"].lstrip("&"), word) if word.endswith(":")
                                else word for word in _table(text, have["values"]))
        else:
            found[name] = (span(name),)
    return found


def parse_host(text: str) -> dict[str, Values]:
    """Parameters of a host that can be written, in host.c's text."""
    kinds: dict[str, Values] = {"bool": BOOLS, "uint": (("", 0, U32),)}
    settings = _settings(text)
    return ({name: kinds.get(kind) for name, kind in PLAIN.findall(text)}
            | {name: settings.get(what) for name, _, what in CALLED.findall(text)})


def parse_own(text: str, host: Mapping[str, Values]) -> dict[str, Values]:
    """Parameters that a VM may have of its own, in control.c's text."""
    names = re.findall(r"^OWN_(?:CHOICE|NUMBER)\((\w+)\);", text, re.M)
    own = {name: host.get(name) for name in names}
    return {name: None if values is None else (*values, GLOBAL) for name, values in own.items()}


@cache
def guest() -> dict[str, Values]:
    """The same of the kernel sources here, as the next two; raise OSError without them."""
    return parse_guest(_sources(GUEST))


@cache
def host() -> dict[str, Values]:
    """Parameters of a host, all VMs'."""
    return parse_host((GUEST / "host.c").read_text(encoding="utf-8"))


@cache
def own() -> dict[str, Values]:
    """Parameters of one VM."""
    return parse_own(OWN.read_text(encoding="utf-8"), host())


def takes(values: Values, text: str) -> bool:
    """Whether one of the values is meant."""
    if values is None:
        return True
    for value in values:
        if isinstance(value, str):
            if text == value:
                return True
            continue
        before, least, most = value
        digits = text.removeprefix(before)
        if (text.startswith(before) and digits.isascii() and digits.isdecimal()
                and least <= int(digits[:20]) <= most):
            return True
    return False


def shown(values: Iterable[Value]) -> str:
    """The values for a message."""
    return ", ".join(value if isinstance(value, str) else
                     f"{value[0]}N from {value[1]} to {value[2]}" for value in values)


def _wrong(what: str, name: str, text: str, known: Mapping[str, Values]) -> str:
    """What is wrong with one setting, or nothing."""
    if name not in known:
        return (f"the kernel has no {what} {name}{suggest(name, known)}"
                f" (known: {', '.join(known)})")
    values = known[name]
    if values is None or takes(values, text):
        return ""
    words = [value for value in values if isinstance(value, str)]
    return (f"{what} {name} does not take '{text}'{suggest(text, words)}"
            f" (known: {shown(values) or 'no value at all'})")


def governor(arguments: Iterable[str]) -> str | None:
    """The policy of steal-governor that boot arguments ask for; the last one counts."""
    asked = [text for name, _, text in (one.partition("=") for one in arguments)
             if name == GOVERNOR]
    return asked[-1] if asked else None


def _wrong_of_lab(argument: str) -> str:
    """What is wrong with an argument for the lab's first process in a guest, or nothing."""
    name, _, text = argument.partition("=")
    if name != GOVERNOR:
        return f"the lab has no boot argument {name} for schemes (known: {GOVERNOR})"
    return "" if POLICY.fullmatch(text) else (
        f"{name} does not take '{text}': give PERIOD_MS,HIGH,LOW, such as 1000,5,2")


def wrong_argument(argument: str) -> str:
    """What is wrong with a boot argument of a guest, or nothing; it may be another's."""
    if argument.startswith(LAB_PREFIX):
        return _wrong_of_lab(argument)
    if not argument.startswith(PREFIX):
        return ""
    name, equals, text = argument.partition("=")
    known = {PREFIX + one: values for one, values in {**guest(), **host()}.items()}
    if not equals and known.get(name) == ():
        return ""
    return _wrong("boot parameter", name, text, known)


def wrong_parameter(name: str, text: str) -> str:
    """What is wrong with a parameter of the host, or nothing; "module.name" is another's."""
    if name.startswith(OWN_PREFIX):
        return _wrong("parameter of a VM's own", name.removeprefix(OWN_PREFIX), text, own())
    if name.startswith(VCPU_PREFIX):
        return _wrong("parameter of vCPUs", name.removeprefix(VCPU_PREFIX), text, VCPU)
    if "." in name.removeprefix(PREFIX):
        return ""
    return _wrong("host parameter", name.removeprefix(PREFIX), text, host())
