# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync top`: who is held up on this host, and why."""

from pathlib import Path

import click
from rich.console import Console

from lab.cli.params import LIST_WIDTH, PLACE, Seconds


@click.command(short_help="How much this host's virtual machines are held up, and why.")
@click.option("-s", "--interval", type=Seconds(0.1, 3600), default=2.0, show_default=True,
              metavar="SECONDS", help="How often to look.")
@click.option("--once", is_flag=True, help="Show one interval, and stop.")
@click.option("--debugfs", type=PLACE, default="/sys/kernel/debug", show_default=True,
              help="Where it is mounted.")
@click.option("--proc", type=PLACE, default="/proc", show_default=True,
              help="Where it is mounted.")
def top(interval: float, once: bool, debugfs: Path, proc: Path) -> None:
    """How much this KVM host's virtual machines are held up, and why; Ctrl-C ends it."""
    from lab.observe import top as viewer
    from lab.observe import vms

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = LIST_WIDTH
    with vms.counting(debugfs):
        viewer.run(viewer.views(debugfs, proc, interval), console, once)
