# SPDX-License-Identifier: GPL-2.0-only
"""Values on the command line that are lists."""

from typing import Any, get_args

import click

from lab.core.model import Disturbance


class Setting(click.ParamType[tuple[str, str]]):
    """NAME=VALUE"""

    name = "name=value"

    def convert(self, value: object, param: click.Parameter | None,
                ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, rest = str(value).partition("=")
        if not sign or not name:
            self.fail(f"'{value}' is not NAME=VALUE", param, ctx)
        return name, rest


class Names(click.ParamType[tuple[str, ...]]):
    """a,b,c"""

    name = "a,b,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in value.split(","))
        if value and not all(names):
            self.fail(f"'{value}' has an empty name in it", param, ctx)
        return names if value else ()


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
