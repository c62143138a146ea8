# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync doctor`: what is wrong on a KVM host, and what cures it."""

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from lab.cli.params import PLACE, Seconds
from lab.core import files
from lab.core.errors import LabError, UsageError
from lab.observe import vms
from lab.operate import doctor as looking
from lab.operate.settings import Host

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@click.command(short_help="What is wrong on a KVM host, why, and what cures it.")
@click.option("-s", "--interval", type=Seconds(0.1, 3600), default=5.0,
              show_default=True, metavar="SECONDS", help="How long a look takes.")
@click.option("--once", is_flag=True, help="One look, and stop.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each look.")
@click.option("--csv", "as_csv", is_flag=True, help="A line for each VM and look.")
@click.option("-L", "--log-to-file", "file", type=PLACE,
              help="Append CSV to this file, for ever.")
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
    if as_json and (as_csv or file):
        raise UsageError("give --json or --csv, not both; -L is CSV")
    host = Host(where["debugfs"], where["proc"], where["sysfs"])
    with vms.counting(host.debugfs), _to(file) as out, contextlib.suppress(KeyboardInterrupt):
        fresh = (as_csv or file is not None) and (file is None or out.tell() == 0)
        if fresh:
            _put(out, looking.head(trace_s is not None, steal))
        for look in looking.looks(host, interval, trace_s=trace_s, steal=steal):
            if as_json:
                _put(out, looking.as_json(look) + "\n")
            elif as_csv or file:
                _put(out, looking.rows(look, time.time()))
            else:
                _put(out, ("" if once else "\n") + looking.text(look))
            if once:
                return


@contextlib.contextmanager
def _to(file: Path | None) -> Iterator[TextIO]:
    if file is None:
        yield sys.stdout
        return
    try:
        if file.exists():  # to open a device may do something
            _check(file, file.stat())
        descriptor = os.open(file, APPEND, 0o666)
    except OSError as error:
        raise LabError(f"{file} cannot be written ({error.strerror})") from None
    try:
        with os.fdopen(descriptor, "a", encoding="utf-8") as out:
            _check(file, os.fstat(descriptor))
            yield out
    except OSError as error:
        if error.filename is not None:
            raise
        raise LabError(f"{file} cannot be written ({error.strerror})") from None


def _check(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise LabError(f"{file} cannot be written (it is {files.kind(status)}): give -L the name"
                       " of a file")


def _put(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()
