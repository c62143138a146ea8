# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync top`: who is held up on this host, and why."""

import contextlib
import time
from pathlib import Path

import click
from rich.console import Console

from lab.cli import told
from lab.cli.params import LIST_WIDTH, PLACE, Seconds


@click.command(short_help="How much this host's virtual machines are held up, and why.")
@click.option("-s", "--interval", type=Seconds(0.1, 3600), default=2.0, show_default=True,
              metavar="SECONDS", help="How often to look.")
@told.options
@click.option("--debugfs", type=PLACE, default="/sys/kernel/debug", show_default=True,
              help="Where it is mounted.")
@click.option("--proc", type=PLACE, default="/proc", show_default=True,
              help="Where it is mounted.")
def top(interval: float, once: bool, as_json: bool, as_csv: bool, file: Path | None,
        debugfs: Path, proc: Path) -> None:
    """How much this KVM host's virtual machines are held up, and why; Ctrl-C ends it."""
    from lab.observe import top as viewer
    from lab.observe import top_told, vms

    told.check(as_json, as_csv, file)
    table = not (as_json or as_csv or file)
    head = "" if table or as_json else top_told.head()
    with vms.counting(debugfs), told.to(file, head) as put:
        looked = viewer.looks(debugfs, proc, interval)
        if table:
            console = Console(highlight=False)
            if not console.is_terminal:
                console.width = LIST_WIDTH
            viewer.run(viewer.views(looked), console, once)
            return
        with contextlib.suppress(KeyboardInterrupt):
            for found, seconds in looked:
                put(top_told.as_json(found, seconds) + "\n" if as_json
                    else top_told.as_csv(found, time.time()))
                if once:
                    return
