# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync export`: metrics for Prometheus, alerts for it, and a dashboard for Grafana."""

from pathlib import Path

import click

from lab.cli.params import PLACE
from lab.core.errors import UsageError
from lab.operate import watch
from lab.operate.settings import Host


@click.command(short_help="Metrics of this host's virtual machines for Prometheus.")
@click.option("--textfile", "folder", type=PLACE, metavar="DIR",
              help=f"Write {watch.NAME} there, for the node exporter, in place of printing it.")
@click.option("--print", "what", type=click.Choice(["metrics", "alerts", "dashboard"]),
              default="metrics", show_default=True, help="Rules for Prometheus, or JSON for"
              " Grafana, of the same list of metrics.")
@click.option("--debugfs", type=PLACE, default="/sys/kernel/debug", show_default=True,
              help="Where it is mounted.")
@click.option("--proc", type=PLACE, default="/proc", show_default=True,
              help="Where it is mounted.")
@click.option("--sys", "sysfs", type=PLACE, default="/sys", show_default=True,
              help="Where it is mounted.")
def export(folder: Path | None, what: str, debugfs: Path, proc: Path, sysfs: Path) -> None:
    """Print the metrics of this KVM host's virtual machines, with pvsync or without.

    Co-stop is counted from one --textfile to the next.
    """
    if what != "metrics":
        if folder is not None:
            raise UsageError("--textfile is for metrics")
        click.echo(watch.alerts() if what == "alerts" else watch.dashboard(), nl=False)
        return
    text = watch.export(Host(debugfs, proc, sysfs), folder)
    if folder is None:
        click.echo(text, nl=False)
