# SPDX-License-Identifier: GPL-2.0-only
"""What operators' pages have them type: each command, option, setting, unit and counter exists."""

import re
from pathlib import Path

import click
import pytest

from lab.cli import commands
from lab.core import paths
from lab.observe import counters
from lab.operate import trial
from lab.plan import known

PAGES = [paths.ROOT / page for page in (
    "README.md", "docs/operators.md", "docs/install.md", "docs/sessions.md")]
OPERATED = PAGES[1:3]
CODE = re.compile(r"`+([^`]+)`+")
CALL = re.compile(r"(?:^|[\s;(`])(?:\./|/usr/(?:local/)?bin/)?pvsync ([a-z]+)((?: [^\n;|&)`]+)?)",
                  re.M)
SETTING = re.compile(r"(?:^|[ `])([a-z_]+)=([a-z0-9_:]+)")
ARGUMENT = re.compile(r"\bpvsync\.([a-z_]+)=([a-z0-9_:]+)")
PARAMETER = re.compile(r"/sys/module/pvsync/parameters/([a-z_]+)")
UNIT = re.compile(r"\bpvsync-[a-z]+\.(?:service|timer|path)\b")
COUNTER = re.compile(r"`((?:preempt|extend|yield|tlb|spin|help|park)_[a-z_]*[a-z])`")
RESULT = re.compile(r"\[([^\]]*)\]\(([^)\s]*results/[a-z0-9-]+\.md)[^)\s]*\)")
FIGURE = re.compile(r"\d[\d,]*\.?\d*")
REFUSED = {"recomended", "marks=exit", "mark=bad"}
"""Words of sessions that are wrong on purpose."""


def code(page: Path) -> str:
    """What a page shows as code, also indented and fenced."""
    text = page.read_text()
    fenced = "\n".join(re.findall(r"(?ms)^```\w*\n(.*?)^```$", text))
    indented = "\n".join(re.findall(r"(?m)^    (\S.*)$", text))
    rest = re.sub(r"(?ms)^```.*?^```$", "", text)
    return "\n".join((fenced, indented, *(one.replace("\n", " ") for one in CODE.findall(rest))))


def calls(page: Path) -> list[tuple[str, list[str]]]:
    """Command and words of each call of pvsync; "run pvsync as root" is none."""
    return [(name, words.split()) for name, words in CALL.findall(code(page)) if name != "as"]


def options(name: str) -> set[str]:
    group = commands.Commands()
    command = group.get_command(click.Context(group), name)
    assert command is not None
    if isinstance(command, click.Group):
        return {"--help"}
    return {"--help", *(one for parameter in command.params for one in parameter.opts)}


def test_there_are_calls() -> None:
    found = {name for page in PAGES for name, _ in calls(page)}
    assert found >= commands.OPERATORS - {"completion"} | {"package"}, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_each_command_and_option_exists(page: Path) -> None:
    for name, words in calls(page):
        assert name in commands.COMMANDS, (name, words)
        if name in {"series", "host"}:  # they have commands of their own behind them
            continue
        for word in words:
            if word.startswith("-") and word != "--":
                assert word in options(name), (name, word)


@pytest.mark.parametrize(("page", "command"), [*zip(OPERATED, ("doctor", "package"), strict=True)])
def test_each_option_of_a_table_exists(page: Path, command: str) -> None:
    rows = re.findall(r"(?m)^\| (`-[^|]*) \|", page.read_text())
    named = {word for row in rows for word in re.findall(r"`(--?[\w-]+)", row)}
    assert len(named) > 4 and named <= options(command), named - options(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_each_setting_is_one_of_the_kernel(page: Path) -> None:
    own, guest, host = known.own(), known.guest(), known.host()
    for name, words in calls(page):
        if name == "try" and len(words) > 1:
            plain = [word for word in words[1:2] if "=" not in word and word not in REFUSED]
            assert set(plain) <= set(trial.PRESETS), words
        if name in {"set", "try"}:
            for word in words[1:]:
                key, sign, value = word.partition("=")
                if sign and word not in REFUSED and value.islower():
                    assert key in own and known.takes(own[key], value), word
    for key, value in ARGUMENT.findall(page.read_text()):
        values = guest.get(key, host.get(key, ()))
        assert known.takes(values, value), f"pvsync.{key}={value}"
    assert set(PARAMETER.findall(page.read_text())) <= set(host)


@pytest.mark.parametrize("page", OPERATED, ids=lambda page: str(page.name))
def test_each_unit_and_counter_exists(page: Path) -> None:
    data = paths.LAB / "operate/data"
    assert set(UNIT.findall(page.read_text())) <= {file.name for file in data.iterdir()}
    named = set(COUNTER.findall(page.read_text()))
    assert named <= set(counters.descriptions()) | set(known.host())


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda page: str(page.name))
def test_each_figure_is_on_the_page_that_it_links_to(page: Path) -> None:
    seen = 0
    for text, target in RESULT.findall(page.read_text()):
        told = (page.parent / target).read_text()
        for figure in FIGURE.findall(text):
            seen += 1
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", told), (figure, target)
    assert seen > 4
