# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic of the emulator's rounds, out of the very file that is built into it."""

import subprocess
from pathlib import Path

from lab.build import emulator

SHIM = """#include <stdbool.h>
#include <stdint.h>
#include <glib.h>
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
"""
"""Stands in for what QEMU's sources include first."""
FLAGS = ("-Wall", "-Wextra", "-Werror", "-Wno-sign-compare", "-O1", "-fsanitize=undefined",
         "-fno-sanitize-recover=all")


def test_arithmetic_of_rounds(tmp_path: Path) -> None:
    shim = tmp_path / "qemu/osdep.h"
    shim.parent.mkdir()
    shim.write_text(SHIM)
    glib = subprocess.run(["pkg-config", "--cflags", "--libs", "glib-2.0"], check=True,
                          capture_output=True, text=True).stdout.split()
    program = tmp_path / "test-lockstep"
    source = emulator.OVERLAY / "tests/unit/test-lockstep.c"
    subprocess.run(["gcc", *FLAGS, f"-I{tmp_path}", str(source), *glib, "-o", str(program)],
                   check=True)
    subprocess.run([program], check=True)
