# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync shell`: a console inside the KVM host or a guest."""

from pathlib import Path

import click

from lab.cli.options import BACKENDS, kernel_options, remembered_packages
from lab.plan import config, machine_model


@click.command()
@click.argument("where", type=click.Choice(["host", "guest"]), default="guest")
@click.option("--scheme", default="pvqspinlock", show_default=True,
              help="Whose boot arguments the guest gets; the host is as it is by default.")
@click.option("--vcpus", type=click.IntRange(1, config.MAX_CPUS), default=2, show_default=True)
@click.option("--pcpus", type=click.IntRange(1, config.MAX_CPUS), default=2, show_default=True)
@click.option("--backend", type=BACKENDS, default="auto", show_default=True)
@click.option("--machine", default=machine_model.DEFAULT, show_default=True,
              help="What things cost in virtual time: a model of lab/machines.")
@kernel_options
def shell(
    where: str, scheme: str, vcpus: int, pcpus: int, backend: str, machine: str,
    tree: Path | None, guest_packages: tuple[str, ...] | None,
) -> None:
    """A console inside the host or a guest.

    In virtual time the prompt shows the host's clock, which stands still until a key is pressed.
    """
    (chosen,) = config.select_schemes([scheme], "--scheme")
    from lab.run import shell as console

    packages = remembered_packages(guest_packages)
    console.run(where, chosen, vcpus=vcpus, pcpus=pcpus, backend=backend, model=machine,
                tree=tree, packages=packages)
