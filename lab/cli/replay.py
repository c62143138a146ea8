# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync replay`: a run in virtual time once more, to look into it."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli.options import kernel_options, remembered_packages
from lab.cli.params import DIRECTORY, Seconds
from lab.core.errors import UsageError
from lab.core.progress import shown

if TYPE_CHECKING:
    from lab.build.images import Images
    from lab.run.replay import Part

GDB = 1234
"""The port unless told, as QEMU's own."""
MOST_SECONDS = 1e6
"""Of virtual time that a debugger may wait for."""


class Optional(click.Command):
    """A command whose --gdb and --trace may have a value, always after an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from lab.machine import qemu_trace

        usual = {"--gdb": f"--gdb={GDB}", "--trace": f"--trace={qemu_trace.EVENTS}"}
        return super().parse_args(ctx, [usual.get(word, word) for word in args])


@click.command(cls=Optional, short_help="Play a run in virtual time again, and look into it.")
@click.argument("directory", type=DIRECTORY, metavar="DIR")
@click.argument("run")
@click.option("--gdb", type=click.IntRange(1, 65535), metavar="[=PORT]",
              help=f"Let a debugger stop the host; port {GDB} unless told.")
@click.option("--at", "at_s", type=Seconds(0, MOST_SECONDS), default=0.0,
              metavar="SECONDS", help="With --gdb: when the host first waits, in virtual time"
              " since its start; before its first instruction unless told.")
@click.option("--trace", metavar="[=EVENTS]",
              help="Note trace events of the emulator during RUN; each VMRUN and #VMEXIT unless"
              " told, and then draw what vCPUs did over time.")
@click.option("--out", type=DIRECTORY, help="Where it writes; DIR/replays/RUN-N by default.")
@kernel_options
def replay(
    directory: Path, run: str, gdb: int | None, at_s: float, trace: str | None, out: Path | None,
    tree: Path | None, guest_packages: tuple[str, ...] | None,
) -> None:
    """Play RUN of the result directory DIR again, with all that its boot did before it.

    Says whether guests, host and lab said the same bytes as then, and where they first differ.
    Exit status 0: the same; 1: different.
    """
    from lab.machine import qemu_trace
    from lab.machine.machine import Debugger
    from lab.plan import config
    from lab.run import replay as player

    if at_s and gdb is None:
        raise UsageError("--at says when a debugger is waited for: give --gdb, too")
    what = player.part(directory, run)
    folder = out or player.new_folder(directory, run)
    if folder.exists():
        raise UsageError(f"{folder} exists: name another folder with --out")
    packages = (*remembered_packages(guest_packages), *config.guest_packages(what.experiment))
    with shown() as progress:
        files = player.ready(directory, what, tree, packages, progress)
        if gdb is not None:
            when = f"at {at_s:g} s" if at_s else "before its first instruction"
            vmlinux = files.host_kernel.parent / "vmlinux"
            progress.say(f"The host waits {when}: gdb -ex 'target remote 127.0.0.1:{gdb}'"
                         f" {vmlinux}")
        outcome = player.run(directory, what, files, folder, progress,
                             debug=None if gdb is None else Debugger(gdb, at_s),
                             events=trace or "")
    for line in (*outcome.lines(), *qemu_trace.table(folder)):
        click.echo(line)
    if trace:
        _draw(folder, what, files)
    click.echo(f"Written to {folder}.")
    if not outcome.same:
        sys.exit(1)


def _draw(folder: Path, what: "Part", files: "Images") -> None:
    """Have what vCPUs did over time as pages and pictures, and their waits, if the trace has it."""
    from lab.report import table, timeline, traced

    replayed = ("replay", shlex.join(("./pvsync", *sys.argv[1:])))
    last = what.runs[-1]
    line = traced.load(folder, last.id, (*what.facts, replayed), what.symbols(files), last.guests)
    if line is None:
        click.echo("The trace has no VMRUN and no #VMEXIT, so that there is no timeline.")
        return
    waits = timeline.waits(line)
    click.echo(table.lines_and_grids((), [waits], ()), nl=False)
    begin, end = (at / 1e9 for at in (line.window.begin, line.window.end))
    click.echo(f"Most time is lost from {begin:.6f} to {end:.6f} s:"
               f" {', '.join(file.name for file in traced.make(folder, line))}")
