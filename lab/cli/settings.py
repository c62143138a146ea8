# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync set`, `show`, `reset` and `apply`: settings of single VMs, by name."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from lab.cli.params import PLACE, Setting
from lab.core.errors import LabError, UsageError
from lab.operate import actions, host_parameters, kept, settings
from lab.operate.settings import Host

F = TypeVar("F", bound=Callable[..., Any])
RUN = click.option("--run", type=PLACE, default="/run/pvsync", show_default=True,
                   help="Where it is noted what the host's parameters were before.")


def of_this_host(command: F) -> F:
    """Options of where things are on the host."""
    for option in (
        click.option("--file", type=PLACE, default=kept.FILE, show_default=True,
                     help="Where settings are kept."),
        click.option("--sys", "sysfs", type=PLACE, default="/sys", show_default=True,
                     help="Where it is mounted."),
        click.option("--debugfs", type=PLACE, default="/sys/kernel/debug", show_default=True,
                     help="Where it is mounted."),
        click.option("--proc", type=PLACE, default="/proc", show_default=True,
                     help="Where it is mounted."),
    ):
        command = option(command)
    return command


def or_the_host(command: F) -> F:
    """Options of commands that are for the host's parameters, too."""
    for option in (
        RUN,
        click.option("--host", "of_host", is_flag=True,
                     help=f"The host's parameters in place of virtual machines' settings; --file"
                          f" is {kept.HOST_FILE} then."),
    ):
        command = option(command)
    return command


def _host_file(file: Path) -> Path:
    return kept.HOST_FILE if file == kept.FILE else file


@click.command("set", short_help="Set something for one virtual machine, now and at each start.")
@click.argument("vm")
@click.argument("wanted", nargs=-1, required=True, type=Setting(), metavar="NAME=VALUE...")
@of_this_host
def set_command(vm: str, wanted: tuple[tuple[str, str], ...], file: Path, debugfs: Path,
                proc: Path, sysfs: Path) -> None:
    """Set NAMEs for VM (its name, or its number in Proxmox), and keep them for its next starts.

    `pvsync show` lists what there is; the value `global` follows the host again. All are set, or
    nothing is. A start applies them if the host has a hook, see install.md.
    """
    if len(dict(wanted)) < len(wanted):
        raise UsageError("the same name is given twice")
    _print(actions.change(Host(debugfs, proc, sysfs), file, vm, dict(wanted)))


@click.command(short_help="What is set for virtual machines of this host.")
@click.argument("vm", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@RUN
@of_this_host
def show(vm: str | None, as_json: bool, file: Path, debugfs: Path, proc: Path, sysfs: Path,
         run: Path) -> None:
    """What is set for VM, or for all of them, and what is kept for their next starts.

    Also which file has set the host's parameters, and what they were before.
    """
    host = Host(debugfs, proc, sysfs, run=run)
    found, of_host = actions.show(host, file, vm), settings.of_host(host)
    by, wrong = None, [one.wrong for one in found if one.wrong][:1]
    try:
        by = host_parameters.record_of(host)
    except LabError as error:
        wrong.append(str(error))
    if as_json:
        click.echo(json.dumps({"host": of_host, "host_set": by and asdict(by),
                               "vms": [asdict(one) for one in found]}, indent=1))
    else:
        _print(actions.lines(found, of_host, by))
    _complain(wrong)


@click.command(short_help="Take back what was set.")
@click.argument("vm", required=False)
@click.option("--all", "everything", is_flag=True, help="For all virtual machines.")
@or_the_host
@of_this_host
def reset(vm: str | None, everything: bool, of_host: bool, file: Path, debugfs: Path, proc: Path,
          sysfs: Path, run: Path) -> None:
    """Have VM follow the host again, at once, and keep nothing for its next starts.

    With --host, have the host's parameters as they were before `pvsync apply --host`.
    """
    host = Host(debugfs, proc, sysfs, run=run)
    if of_host:
        if vm is not None or everything:
            raise UsageError("give --host alone: it is for the host's parameters")
        _print(host_parameters.reset(host, _host_file(file)))
        return
    if (vm is None) != everything:
        raise UsageError("give the name of a virtual machine, or --all")
    _print(actions.reset(host, file, vm))


@click.command(short_help="Set what is kept for virtual machines that have started.")
@click.argument("vm", required=False)
@click.option("--check", is_flag=True,
              help="With --host: change nothing, and exit with 1 if something differs.")
@or_the_host
@of_this_host
def apply(vm: str | None, check: bool, of_host: bool, file: Path, debugfs: Path, proc: Path,
          sysfs: Path, run: Path) -> None:
    """Set for VM, or for all that run, what is kept for it; hooks call this at a start.

    With --host, set the host's parameters as a file says: lines such as mark = "exit".
    """
    host = Host(debugfs, proc, sysfs, run=run)
    if (of_host and vm is not None) or (check and not of_host):
        raise UsageError("give --host without a virtual machine, and --check with --host only")
    if check:
        done, wrong = [], host_parameters.differs(host, _host_file(file))
    elif of_host:
        done, wrong = host_parameters.apply(host, _host_file(file)), []
    else:
        done, wrong = actions.apply(host, file, vm)
    _print(done)
    _complain(wrong)


def _complain(wrong: list[str]) -> None:
    """Ends the command if anything is wrong."""
    for line in wrong:
        click.echo(f"pvsync: {line}.", err=True)
    if wrong:
        sys.exit(1)


def _print(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
