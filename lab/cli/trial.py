# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync try`: what settings change for one VM, before they are kept."""

from pathlib import Path

import click

from lab.cli.params import PLACE
from lab.core.errors import UsageError
from lab.operate import trial
from lab.operate.settings import Host


@click.command("try", short_help="Try settings on one virtual machine, and take them back.")
@click.argument("vm")
@click.argument("words", nargs=-1, required=True, metavar="recommended|NAME=VALUE...")
@click.option("--for", "length", default="10min", show_default=True, metavar="TIME",
              help="How long it takes, such as 90s or 1h; half of it is with the settings.")
@click.option("--debugfs", type=PLACE, default="/sys/kernel/debug", show_default=True,
              help="Where it is mounted.")
@click.option("--proc", type=PLACE, default="/proc", show_default=True,
              help="Where it is mounted.")
def try_command(vm: str, words: tuple[str, ...], length: str, debugfs: Path, proc: Path) -> None:
    """Switch settings of VM on and off in turns, and say what changed, and how surely.

    Nothing is left of it, also if it is interrupted or killed. VM goes on all the time.
    """
    given = [word.partition("=") for word in words]
    presets = [name for name, sign, _ in given if not sign]
    if len(presets) > 1:
        raise UsageError(f"give one of {', '.join(trial.PRESETS)}, and NAME=VALUE besides")
    values = trial.wanted({name: value for name, sign, value in given if sign},
                          presets[0] if presets else None)
    seconds = trial.seconds(length)
    found = trial.run(Host(debugfs, proc), vm, values, seconds,
                      lambda line: click.echo(line, err=True))
    click.echo(trial.text(vm, values, seconds, found), nl=False)
