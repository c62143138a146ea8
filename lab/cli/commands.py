# SPDX-License-Identifier: GPL-2.0-only
"""The commands, each imported when it is called or listed.

Operators' commands need few packages and no checkout; `operators.txt` names them, a line each.
`./pvsync` reads it, too: it gives them a small environment.
"""

from importlib import import_module
from pathlib import Path

import click

from lab.core import paths
from lab.core.errors import UsageError

OPERATORS = frozenset(
    line for line in Path(__file__).with_name("operators.txt").read_text().splitlines()
    if not line.startswith("#"))
COMMANDS = {
    "apply": "lab.cli.settings:apply",
    "build": "lab.cli.build:build",
    "compare": "lab.cli.compare:compare",
    "completion": "lab.cli.completion:completion",
    "doctor": "lab.cli.doctor:doctor",
    "export": "lab.cli.export:export",
    "host": "lab.cli.host:host",
    "list": "lab.cli.listing:list_command",
    "package": "lab.cli.package:package",
    "publish": "lab.cli.publish:publish",
    "replay": "lab.cli.replay:replay",
    "report": "lab.cli.report:report",
    "reproduce": "lab.cli.reproduce:reproduce",
    "reset": "lab.cli.settings:reset",
    "run": "lab.cli.run:run",
    "sensitivity": "lab.cli.sensitivity:sensitivity_command",
    "series": "lab.cli.series:group",
    "set": "lab.cli.settings:set_command",
    "shell": "lab.cli.shell:shell",
    "show": "lab.cli.settings:show",
    "sweep": "lab.cli.sweep:sweep",
    "top": "lab.cli.top:top",
    "try": "lab.cli.trial:try_command",
}
"""Where each is: module and name."""


class Commands(click.Group):
    """All commands in a checkout; in an installation those of operators only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS if paths.is_checkout() else OPERATORS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if ctx.resilient_parsing and cmd_name not in self.list_commands(ctx):
            return None
        if cmd_name not in OPERATORS and not paths.is_checkout():
            raise UsageError(f"{cmd_name} needs the lab, which works in a checkout only: clone"
                             f" pvsync's sources and run `./pvsync {cmd_name}` there (installed"
                             f" are: {', '.join(sorted(OPERATORS))})")
        module, name = COMMANDS[cmd_name].split(":")
        found = getattr(import_module(module), name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str],
                        ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            raise click.NoSuchCommand(args[0], possibilities=self.list_commands(ctx),
                                      ctx=ctx) from None
