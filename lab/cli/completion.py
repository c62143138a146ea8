# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync completion`: what makes a shell complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_PVSYNC_COMPLETE"
"""Says that a shell asks; click answers, before anything else is looked at."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete pvsync's commands.

    For bash: eval "$(./pvsync completion bash)"
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(click.Group(), {}, "pvsync", VARIABLE).source())
