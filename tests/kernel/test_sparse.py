# SPDX-License-Identifier: GPL-2.0-only
"""Sparse finds nothing in pvsync's own sources, as the kernel's `make C=1` runs it."""

import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.build import kernel

pytestmark = pytest.mark.virtual
OWN = ("kernel/pvsync/", "arch/x86/kvm/pvsync/")
DIRECTORIES = ("kernel/pvsync/", "arch/x86/kvm/")
"""Targets that have all of them."""
FLAGS = ("-D__linux__", "-Dlinux", "-D__STDC__", "-Dunix", "-D__unix__", "-D__CHECK_ENDIAN__",
         "-Wbitwise", "-Wno-return-void", "-Wno-unknown-attribute")
"""Those of the kernel's Makefile."""
FAULT = "\nextern int __user *planted;\nint planted_fault(void)\n{\n\treturn *planted;\n}\n"


@pytest.fixture(scope="module")
def folder() -> Path:
    """Where the variant `test` is built, its tests among it."""
    return kernel.objects("test", DIRECTORIES)


def compiled(folder: Path) -> dict[str, list[str]]:
    """Each source of pvsync that is in the build, and the arguments that the compiler had."""
    found = {}
    for directory in OWN:
        for saved in (folder / directory).glob("**/.*.o.cmd"):
            first, *_ = saved.read_text().split("\n", 1)
            words = shlex.split(first.partition(" := ")[2].partition(" ; ")[0])
            if words[:1] == ["gcc"] and words[-1].endswith(".c") and Path(words[-1]).exists():
                found[words[-1]] = words[1:-1]
    return found


def sparse(folder: Path, arguments: list[str], source: str) -> str:
    """What it says of a source."""
    kept = [word for word in arguments if not word.startswith("-Wp,") and word != "-c"]
    output = kept.index("-o")
    del kept[output:output + 2]
    done = subprocess.run(["sparse", *FLAGS, *kept, source], cwd=folder, capture_output=True,
                          text=True, check=False)
    return done.stderr


def test_sources_please_sparse(folder: Path) -> None:
    sources = compiled(folder)
    assert len(sources) > 50, sorted(sources)
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda source: sparse(folder, sources[source], source), sources)
        assert not "".join(said)


def test_sparse_finds_a_fault(folder: Path, tmp_path: Path) -> None:
    """A pointer of user space is followed, in a copy of a source."""
    sources = compiled(folder)
    (source,) = (one for one in sources if one.endswith("/kernel/pvsync/park.c"))
    copy = tmp_path / "park.c"
    copy.write_text(Path(source).read_text() + FAULT)
    said = sparse(folder, [*sources[source], f"-I{Path(source).parent}"], str(copy))
    assert "dereference of noderef expression" in said, said
