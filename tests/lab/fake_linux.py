# SPDX-License-Identifier: GPL-2.0-only
"""A tree that builds in a moment, with the same interfaces to the lab as Linux's."""

import subprocess
from pathlib import Path

MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = {sublevel}
EXTRAVERSION =
override MAKEFLAGS += --no-print-directory -r
objects := $(patsubst %.c,$(O)/%.o,$(wildcard *.c kernel/*.c))
release := $(VERSION).$(PATCHLEVEL).$(SUBLEVEL)$(LOCALVERSION)

allnoconfig:
	@mkdir -p $(O)/include/config
	@grep -v '=n$$' $(KCONFIG_ALLCONFIG) | grep -v UNKNOWN >$(O)/.config
	@echo $(release) >$(O)/include/config/kernel.release

bzImage: $(O)/vmlinux
	@mkdir -p $(O)/arch/x86/boot
	@cp $< $(O)/arch/x86/boot/bzImage

$(O)/vmlinux: $(objects) $(O)/.config
	@echo "  LD      vmlinux"
	@cat $^ >$@; env | grep ^KBUILD_BUILD_ | sort >>$@
	@cp $@ $(O)/System.map

$(O)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $(@:$(O)/%=%)"
	@if grep -q SLOW $<; then echo begun >$@; sleep 60; fi
	@if grep -q BROKEN $<; then echo "$<:1:1: error: BROKEN is no C" >&2; exit 1; fi
	@cp $< $@

modules:
	@true

modules_install:
	@mkdir -p $(INSTALL_MOD_PATH)/lib/modules/$(release)
	@ln -sfn $(CURDIR) $(INSTALL_MOD_PATH)/lib/modules/$(release)/build
	@echo module >$(INSTALL_MOD_PATH)/lib/modules/$(release)/fake.ko
"""

LOCK_C = "".join(f"line {number}\n" for number in range(1, 41))
FORK_C = "int fork;\n"


def make_tree(path: Path, sublevel: int = 117, lock_c: str = LOCK_C) -> Path:
    """A clean tree with kernel/lock.c and kernel/fork.c."""
    (path / "kernel").mkdir(parents=True)
    (path / "Makefile").write_text(MAKEFILE.format(sublevel=sublevel))
    (path / "kernel/lock.c").write_text(lock_c)
    (path / "kernel/fork.c").write_text(FORK_C)
    (path / ".gitattributes").write_text("*.c diff=cpp\n")
    (path / ".gitignore").write_text(".*\n*.o\n")
    return path


def make_patch(
    tree: Path, file: str, old: str, new: str, subject: str = "locking: Call the hook"
) -> str:
    """A patch in git-am form that replaces `old` by `new` in one file of a tree."""
    before = (tree / file).read_text()
    assert before.count(old) == 1
    done = subprocess.run(
        ["diff", "-u", f"--label=a/{file}", f"--label=b/{file}", str(tree / file), "-"],
        input=before.replace(old, new),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "From: Some Developer <developer@example.org>\n"
        "Date: Sat, 21 Nov 2026 12:34:56 +0100\n"
        f"Subject: [PATCH] {subject}\n\n"
        "The context.\n---\n"
        f"diff --git a/{file} b/{file}\n{done.stdout}"
    )


def add_patch(series: Path, number: int, text: str) -> Path:
    """Write one patch into a series folder."""
    series.mkdir(exist_ok=True)
    path = series / f"{number:04d}-locking-hook.patch"
    path.write_text(text)
    return path


def add_overlay(overlay: Path, name: str = "kernel/new.c", text: str = "int new;\n") -> Path:
    """Write one overlay file."""
    path = overlay / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
