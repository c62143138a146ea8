# SPDX-License-Identifier: GPL-2.0-only
"""The command line. Only this module prints errors and sets exit statuses:

0 all valid, 1 a run was invalid or something failed, 2 wrong usage,
130 interrupted.
"""

import errno
import io
import os
import signal
import sys
import tomllib
from importlib import metadata

import click

from lab.cli.commands import Commands
from lab.core import paths
from lab.core.errors import LabError, UsageError

INTERRUPTED = 130


@click.group(cls=Commands,
             context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True,
              callback=lambda ctx, _, wanted: _version(ctx) if wanted else None,
              help="Print the version, and the commit of a checkout.")
def group() -> None:
    """Compare what keeps multi-vCPU guests going when the host has too few CPUs."""


def _version(ctx: click.Context) -> None:
    if paths.is_checkout():
        from lab.machine.provenance import git_commit

        project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
        click.echo(f"pvsync {project['version']}, commit {git_commit()}")
    else:
        click.echo(f"pvsync {metadata.version('pvsync')}, installed")
    ctx.exit()


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGINT, _interrupt)  # a shell's background jobs would ignore it
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(_guarded())


def _interrupt(number: int, frame: object) -> None:
    """End as on Ctrl-C, so that machines are stopped and files are whole."""
    raise KeyboardInterrupt


def _guarded() -> int:
    try:
        group.main(prog_name="pvsync", standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        return _say(_explained(error), 2)
    except LabError as error:
        return _say(str(error), 2 if isinstance(error, UsageError) else 1, error)
    except (KeyboardInterrupt, click.Abort) as error:
        return _say("interrupted", INTERRUPTED, error.__cause__ or error)  # click wraps it
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _say(_of_system(error), 1, error)
    return 0


def _of_system(error: OSError) -> str:
    """What an operation of the system has said; standard output has no name."""
    why = error.strerror or str(error)
    if error.errno == errno.ENOSPC and not error.filename:
        return f"what this says cannot be written ({why}): send it elsewhere, or make room"
    return f"{error.filename}: {why}" if error.filename else why


def _explained(error: click.ClickException) -> str:
    """What click says; where that is only what is wrong, also where to look."""
    said = " ".join(error.format_message().split())
    chosen = isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter)
    if chosen or not isinstance(error, click.UsageError) or error.ctx is None:
        return said
    here = "./" if paths.is_checkout() else ""
    return f"{said.rstrip('.')} (see `{here}{error.ctx.command_path} --help`)"


def _say(message: str, status: int, error: BaseException | None = None) -> int:
    """Print one sentence, and below it what the error was noted with."""
    message = message.removesuffix("?.") + "?" if message.endswith("?.") else message
    end = "" if message.endswith((".", "?", "!")) else "."
    print(f"pvsync: {message}{end}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
    return status
