# SPDX-License-Identifier: GPL-2.0-only
"""`./pvsync list`: what there is to run."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.cli.params import LIST_WIDTH
from lab.core.model import Scheme
from lab.plan import config


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="All that their files say, for programs.")
def list_command(as_json: bool) -> None:
    """Experiments, schemes and workloads."""
    if as_json:
        click.echo(json.dumps(_all(), indent=1))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = LIST_WIDTH
    experiments = [
        (e.name, e.about, f"{', '.join(s.label for s in e.schemes)}; VMs {_join(e.vms)}")
        for e in config.experiments().values()
    ]
    console.print(_listing("Experiments", ("name", "about", "schemes"), experiments))
    schemes = [
        (s.name, s.about, _parameters(s))
        for s in config.schemes().values()
        if not s.test_only
    ]
    console.print(_listing("Schemes", ("name", "about", "parameters"), schemes))
    workloads = [
        (w.name, w.about, f"{w.metric} ({w.unit}), {w.better} is better")
        for w in config.workloads().values()
    ]
    console.print(_listing("Workloads", ("name", "about", "figure"), workloads))


def _all() -> dict[str, list[dict[str, Any]]]:
    """What there is; an experiment names its schemes and workloads."""
    experiments = [
        {**asdict(one), "schemes": [scheme.label for scheme in one.schemes],
         "workloads": [workload.name for workload in one.workloads]}
        for one in config.experiments().values()]
    return {"experiments": experiments,
            "schemes": [asdict(one) for one in config.schemes().values() if not one.test_only],
            "workloads": [asdict(one) for one in config.workloads().values()]}


def _parameters(scheme: Scheme) -> str:
    """The guests' kernel if it is another, of the first guest, of the others, of the host."""
    own = [] if scheme.neighbour is None else [f"(others: {' '.join(scheme.neighbour) or 'stock'})"]
    kernel = [f"(kernel: {scheme.variant})"] if scheme.variant else []
    host = (f"{k}={v}" for k, v in scheme.host.items())
    return " ".join((*kernel, *scheme.guest, *own, *host))


def _listing(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for index, name in enumerate(head):
        table.add_column(name, no_wrap=index == 0)
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    return table


def _join(numbers: tuple[int, ...]) -> str:
    return ", ".join(str(number) for number in numbers)
