# SPDX-License-Identifier: GPL-2.0-only
"""Commands in pages: what a shell makes of a block that a reader copies."""

import subprocess

import pytest

from lab.report import markdown

NAMES = ",".join(f"scheme-number-{number}" for number in range(30))


@pytest.mark.parametrize("command", [
    ("./pvsync", "run", "whole"),
    ("./pvsync", "run", *(f"--option-{number}" for number in range(20))),
    ("./pvsync", "run", "--schemes", NAMES, "--vms", "3"),
    ("./pvsync", "run", "--schemes", "a" * 120, "--workload", NAMES),
])
def test_a_command_is_copied_whole(command: tuple[str, ...]) -> None:
    """No line is too wide, but for a word that has no comma; the shell gets the same words."""
    text = markdown.made_by(command)
    assert all(len(line) <= markdown.WIDTH or "a" * 120 in line for line in text.splitlines())
    block = [line.removeprefix(markdown.BLOCK) for line in text.splitlines()
             if line.startswith(markdown.BLOCK)]
    copied = "\n".join(block) or text.removeprefix("Made by `").removesuffix("`")
    said = subprocess.run(["sh", "-c", f"printf '%s\\n' {copied}"], check=True, text=True,
                          capture_output=True).stdout.splitlines()
    assert said == [*command]
