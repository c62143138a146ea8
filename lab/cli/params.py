# SPDX-License-Identifier: GPL-2.0-only
"""Values on the command line, such as lists. Operators' commands load fast with this module."""

import glob
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import click
from click.shell_completion import CompletionItem

from lab.core.model import Disturbance
from lab.plan import config

DIRECTORY = click.Path(path_type=Path)
PLACE = click.Path(path_type=Path, readable=False)
"""What only root may read: the command itself says so, and what to do."""
LIST_WIDTH = 160
"""Of listings that go to a pipe or a file."""


class Seconds(click.FloatRange):
    """A number from a range; click itself takes `nan` for one."""

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"'{value}' is no number", param, ctx)
        return found


class Setting(click.ParamType[tuple[str, str]]):
    """NAME=VALUE"""

    name = "name=value"

    def convert(self, value: object, param: click.Parameter | None,
                ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, rest = str(value).partition("=")
        if not sign or not name:
            self.fail(f"'{value}' is not NAME=VALUE, such as mark=exit", param, ctx)
        return name, rest


class Names(click.ParamType[tuple[str, ...]]):
    """a,b,c; `known` gives the names that a shell may complete."""

    name = "a,b,..."

    def __init__(self, known: Callable[[], Iterable[str]] = tuple) -> None:
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str,
                       ) -> list[CompletionItem]:
        """The last name in the list."""
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in sorted(self._known())
                if name.startswith(last)]

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in value.split(","))
        if value and not all(names):
            self.fail(f"'{value}' has an empty name in it", param, ctx)
        return names if value else ()


def experiments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names that a shell may complete; it knows files itself."""
    found = config.EXPERIMENTS.glob(f"{glob.escape(incomplete)}*.toml")
    return sorted(file.stem for file in found)


class Disturbances(Names):
    """kill,restore"""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = super().convert(value, param, ctx)
        known = get_args(Disturbance)
        for name in names:
            if name not in known:
                self.fail(f"'{name}' is not one of {', '.join(known)}", param, ctx)
        return names


class Observing(click.Command):
    """A command whose option --observe may have a value, always after an equals sign.

    Click would take the next word for it, as in `--observe EXPERIMENT`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spelled = [f"{word}=all" if word == "--observe" else word for word in args]
        return super().parse_args(ctx, spelled)


class Counts(click.ParamType[tuple[int, ...]]):
    """1,2,3"""

    name = "1,2,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"'{value}' is no list of numbers such as 1,2,3", param, ctx)
