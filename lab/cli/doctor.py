# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync doctor`: what is wrong on a KVM host, and what cures it."""

import contextlib
import time
from pathlib import Path

import click

from lab.cli import told
from lab.cli.params import PLACE, Seconds
from lab.observe import vms
from lab.operate import doctor as looking
from lab.operate.settings import Host


@click.command(short_help="What is wrong on a KVM host, why, and what cures it.")
@click.option("-s", "--interval", type=Seconds(0.1, 3600), default=5.0,
              show_default=True, metavar="SECONDS", help="How long a look takes.")
@told.options
@click.option("--co-stop", "trace_s", type=Seconds(0.1, 600), metavar="SECONDS",
              help="Trace the scheduler so long in each look, for an estimate of co-stop.")
@click.option("--steal", is_flag=True,
              help="Ask the guests' agents what they take for stolen, by virsh or Proxmox's qm.")
@click.option("--debugfs", type=PLACE, default="/sys/kernel/debug", show_default=True,
              help="Where it is mounted.")
@click.option("--proc", type=PLACE, default="/proc", show_default=True,
              help="Where it is mounted.")
@click.option("--sys", "sysfs", type=PLACE, default="/sys", show_default=True,
              help="Where it is mounted.")
def doctor(interval: float, once: bool, as_json: bool, as_csv: bool, file: Path | None,
           trace_s: float | None, steal: bool, **where: Path) -> None:
    """Look at this KVM host, with pvsync or without: who waits, why, what it costs, what helps.

    Changes nothing, but that a pvsync kernel counts meanwhile, that --co-stop has a folder of its
    own in tracefs, and that --steal has each guest asked. Ctrl-C ends it.
    """
    told.check(as_json, as_csv, file)
    host = Host(where["debugfs"], where["proc"], where["sysfs"])
    head = looking.head(trace_s is not None, steal) if as_csv or file else ""
    with vms.counting(host.debugfs), told.to(file, head) as put, \
            contextlib.suppress(KeyboardInterrupt):
        for look in looking.looks(host, interval, trace_s=trace_s, steal=steal):
            if as_json:
                put(looking.as_json(look) + "\n")
            elif as_csv or file:
                put(looking.rows(look, time.time()))
            else:
                put(("" if once else "\n") + looking.text(look))
            if once:
                return
