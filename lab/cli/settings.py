# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync set`, `show`, `reset` and `apply`: settings of single VMs, by name."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from lab.cli.options import DIRECTORY
from lab.cli.params import Setting
from lab.core.errors import UsageError
from lab.operate import actions, kept, settings
from lab.operate.settings import Host

F = TypeVar("F", bound=Callable[..., Any])


def of_this_host(command: F) -> F:
    """Options of where things are on the host."""
    for option in (
        click.option("--file", type=DIRECTORY, default=kept.FILE, show_default=True,
                     help="Where settings are kept."),
        click.option("--debugfs", type=DIRECTORY, default="/sys/kernel/debug", show_default=True,
                     help="Where it is mounted."),
        click.option("--proc", type=DIRECTORY, default="/proc", show_default=True,
                     help="Where it is mounted."),
    ):
        command = option(command)
    return command


@click.command("set", short_help="Set something for one virtual machine, now and at each start.")
@click.argument("vm")
@click.argument("wanted", nargs=-1, required=True, type=Setting(), metavar="NAME=VALUE...")
@of_this_host
def set_command(vm: str, wanted: tuple[tuple[str, str], ...], file: Path, debugfs: Path,
                proc: Path) -> None:
    """Set NAMEs for VM (its name, or its number in Proxmox), and keep them for its next starts.

    `pvsync show` lists what there is; the value `global` follows the host again. All are set, or
    nothing is. A start applies them if the host has a hook: docs/install.md.
    """
    if len(dict(wanted)) < len(wanted):
        raise UsageError("the same name is given twice")
    _print(actions.change(Host(debugfs, proc), file, vm, dict(wanted)))


@click.command(short_help="What is set for virtual machines of this host.")
@click.argument("vm", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@of_this_host
def show(vm: str | None, as_json: bool, file: Path, debugfs: Path, proc: Path) -> None:
    """What is set for VM, or for all of them, and what is kept for their next starts."""
    host = Host(debugfs, proc)
    found, of_host = actions.show(host, file, vm), settings.of_host(host)
    if as_json:
        click.echo(json.dumps({"host": of_host, "vms": [asdict(one) for one in found]}, indent=1))
    else:
        _print(actions.lines(found, of_host))


@click.command(short_help="Take back what was set.")
@click.argument("vm", required=False)
@click.option("--all", "everything", is_flag=True, help="For all virtual machines.")
@of_this_host
def reset(vm: str | None, everything: bool, file: Path, debugfs: Path, proc: Path) -> None:
    """Have VM follow the host again, at once, and keep nothing for its next starts."""
    if (vm is None) != everything:
        raise UsageError("give the name of a virtual machine, or --all")
    _print(actions.reset(Host(debugfs, proc), file, vm))


@click.command(short_help="Set what is kept for virtual machines that have started.")
@click.argument("vm", required=False)
@of_this_host
def apply(vm: str | None, file: Path, debugfs: Path, proc: Path) -> None:
    """Set for VM, or for all that run, what is kept for it; hooks call this at a start."""
    done, wrong = actions.apply(Host(debugfs, proc), file, vm)
    _print(done)
    for line in wrong:
        click.echo(f"pvsync: {line}.", err=True)
    if wrong:
        sys.exit(1)


def _print(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
