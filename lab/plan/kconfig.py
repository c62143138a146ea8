# SPDX-License-Identifier: GPL-2.0-only
"""Kernel variants as lists of Kconfig fragments, and the check that they hold.

A fragment line is `CONFIG_X=value`, `CONFIG_X=n` or `# CONFIG_X is not set`.
The configuration is the kernel's `allnoconfig` with the fragments on top; a
later fragment overrides an earlier one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.core import paths
from lab.core.decode import DecodeError, decode, read_toml
from lab.core.errors import LabError, UsageError

CONFIGS = paths.KERNEL / "configs"
SETTING = re.compile(r"(CONFIG_[A-Za-z0-9_]+)=(.+)")
UNSET = re.compile(r"# (CONFIG_[A-Za-z0-9_]+) is not set")
SHOWN = 4
"""Unfulfilled settings that the error spells out."""


@dataclass(frozen=True)
class Variant:
    """One kernel that can be built, as kernel/configs/variants.toml lists it."""

    name: str
    about: str
    fragments: tuple[str, ...]
    """Names of kernel/configs/<name>.config, in order."""
    patched: bool = True
    """False: the plain base, without overlay and series."""
    rfc: str = ""
    """A folder of kernel/rfc whose patches the plain base has; on the usual base alone."""
    slowdown: float = 1.0
    """Its limits of time, in boots and runs, are so many times those of others."""
    memory: int = 0
    """MiB that a machine needs more than with others."""


@dataclass(frozen=True)
class Setting:
    """A value that a fragment asks for, `n` for off."""

    value: str
    origin: str
    """File and line."""


def variants(listing: Path = CONFIGS / "variants.toml") -> dict[str, Variant]:
    """All variants by name; UsageError names what is wrong in the file."""
    try:
        data = read_toml(listing.read_text(encoding="utf-8"))
        found = {
            name: decode(Variant, {**table, "name": name} if isinstance(table, Mapping) else table,
                         where=name)
            for name, table in data.items()
        }
    except (DecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{listing} cannot be read: {error}") from None
    for one in found.values():
        if one.rfc and one.patched:
            raise UsageError(f"{listing}: {one.name}: its `rfc` is for the plain base: say"
                             " `patched = false`")
    return found


def variant(name: str) -> Variant:
    """One variant; UsageError lists the names there are."""
    known = variants()
    if name not in known:
        raise UsageError(f"there is no kernel variant {name!r}: choose from {', '.join(known)}")
    return known[name]


def fragment_files(chosen: Variant, extra: Iterable[str | Path] = ()) -> list[Path]:
    """Files of a variant's fragments and of further ones, by name or path."""
    files = []
    for item in (*chosen.fragments, *extra):
        path = item if isinstance(item, Path) else CONFIGS / f"{item}.config"
        if not path.is_file():
            raise UsageError(f"variant {chosen.name}: there is no Kconfig fragment {path}")
        files.append(path)
    return files


def parse_fragment(text: str, name: str) -> dict[str, Setting]:
    """Settings of one fragment; UsageError names a line that is none."""
    found: dict[str, Setting] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        match = SETTING.fullmatch(line)
        unset = UNSET.fullmatch(line)
        if match:
            found[match[1]] = Setting(match[2], f"{name}:{number}")
        elif unset:
            found[unset[1]] = Setting("n", f"{name}:{number}")
        elif line and not line.startswith("#"):
            raise UsageError(f"{name}:{number}: `{line}` is no Kconfig setting")
    return found


def merge(files: Iterable[Path]) -> dict[str, Setting]:
    """Settings of all fragments; the last one counts."""
    merged: dict[str, Setting] = {}
    for path in files:
        merged |= parse_fragment(path.read_text(), path.name)
    return merged


def allconfig(settings: Mapping[str, Setting]) -> str:
    """The settings as a file for KCONFIG_ALLCONFIG."""
    return "".join(f"{name}={setting.value}\n" for name, setting in sorted(settings.items()))


def check(dot_config: str, settings: Mapping[str, Setting], release: str) -> None:
    """Raise one LabError when a setting does not hold in the kernel's .config."""
    have: dict[str, str] = {}
    for line in dot_config.splitlines():
        if match := SETTING.fullmatch(line):
            have[match[1]] = match[2]
    wrong = [
        f"{name}={setting.value} ({setting.origin}) came out as {have.get(name, 'n')}"
        for name, setting in settings.items()
        if have.get(name, "n") != setting.value
    ]
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise LabError(
            f"Linux {release} does not take {len(wrong)} setting(s) of the Kconfig fragments:"
            f" {'; '.join(wrong[:SHOWN])}{more}; check the symbols' dependencies and this compiler"
        )
