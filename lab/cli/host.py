# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync host`: a program in the KVM host, and its exit status as ours."""

import sys
from pathlib import Path

import click

from lab.cli.options import BACKENDS, QUIET, tree_options
from lab.cli.params import DIRECTORY, Names, Seconds, Setting
from lab.core.errors import LabError, UsageError
from lab.core.progress import shown
from lab.plan import config, machine_model

STATUSES = """\
\b
Exit status:
  0 to 127  the command's own (126, 127: it cannot be run)
  128 + N   signal N ended it
  124       it was ended by its time limit
  125       the host failed: it was lost, refused a parameter, or its console
            has a fault, whatever the command said
  1, 2      nothing ran: a build failed; wrong usage
"""


@click.command(epilog=STATUSES, short_help="Run any program in the KVM host.",
               context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND")
@click.option("--set", "settings", type=Setting(), multiple=True,
              help="A host parameter, such as mark=exit or kvm.halt_poll_ns=0; repeatable.")
@click.option("--bring", type=DIRECTORY, multiple=True,
              help="A file or folder to have in the command's folder; repeatable.")
@click.option("--disk", type=DIRECTORY,
              help="An image to be a read-only disk of the host; $PVSYNC_DISK names it there.")
@click.option("--packages", type=Names(), default=(),
              help="Debian 13's packages to have in the host.")
@click.option("--variant", default="lab", show_default=True,
              help="The host's kernel, of kernel/configs/variants.toml.")
@click.option("--config", "fragments", type=DIRECTORY, multiple=True,
              help="A Kconfig fragment on top of the variant; repeatable.")
@click.option("--pcpus", type=click.IntRange(1, config.MAX_CPUS), default=2, show_default=True)
@click.option("--memory", type=click.IntRange(512), default=2048, show_default=True,
              help="MiB of the host.")
@click.option("--timeout", "limit_s", type=Seconds(1), default=3600.0,
              show_default=True, help="Seconds that the command may take.")
@click.option("--backend", type=BACKENDS,
              default="auto", show_default=True, help="What plays the KVM host.")
@click.option("--machine", default=machine_model.DEFAULT, show_default=True,
              help="What things cost in virtual time: a model of lab/machines.")
@tree_options
@QUIET
def host(  # noqa: PLR0913, PLR0917 (options of a command)
    command: tuple[str, ...], settings: tuple[tuple[str, str], ...], bring: tuple[Path, ...],
    disk: Path | None, packages: tuple[str, ...], variant: str, fragments: tuple[Path, ...],
    pcpus: int, memory: int, limit_s: float, backend: str, machine: str, tree: Path | None,
) -> None:
    """Run COMMAND in the KVM host, with its output as it comes, and end with its exit status.

    The host has no guests. The command's folder is /run/files with what was brought, else
    /root; standard input is empty.
    """
    from lab.run import host as jobs

    job = jobs.Job(command, dict(settings), bring, disk, variant, fragments, backend, machine,
                   pcpus, memory, limit_s, packages=packages)
    jobs.check(job)

    def show(piece: bytes) -> None:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    try:
        with shown() as progress:
            files = jobs.ready(job, tree, progress)
        sys.exit(jobs.run(job, files, show))
    except UsageError:
        raise
    except jobs.LateError as error:
        _end(error, jobs.LATE)
    except jobs.NotHostError as error:
        _end(error, jobs.LOST)


def _end(error: LabError, status: int) -> None:
    print(f"pvsync: {str(error).rstrip('.')}.", file=sys.stderr)
    sys.exit(status)
