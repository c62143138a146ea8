# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own `make htmldocs` makes KVM's pages with ours in them, without a new warning."""

import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from lab.build import base, series
from lab.core import content, paths

pytestmark = pytest.mark.soak
FOLDER = "virt/kvm"
"""Of Documentation: the pages that are made."""
OURS = "x86/pvsync"
SAID = re.compile(r"^\S*/Documentation/(\S+?):(?:\d+:)? ((?:WARNING|ERROR|CRITICAL|SEVERE): .*)$",
                  re.MULTILINE)
"""A page and what is wrong with it; where in it is left out, as patches move lines."""
NOT_QUOTED = ("drivers", "fs", "net", "sound")
"""Large folders that no page of KVM's takes text from."""
FAULT = "\n\n=== ==\nno table\n=== ==\n"


@pytest.fixture(scope="module")
def sphinx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its program, in an environment of its own."""
    folder = tmp_path_factory.mktemp("sphinx")
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--require-hashes",
                    "--only-binary", ":all:", "--disable-pip-version-check",
                    "-r", paths.ROOT / "requirements/htmldocs.txt"], check=True)
    return folder / "bin/sphinx-build"


def made(tree: Path, sphinx: Path) -> set[tuple[str, str]]:
    """Make the pages; each page and what is wrong with it."""
    done = subprocess.run(
        ["make", "htmldocs", f"SPHINXDIRS={FOLDER}", f"SPHINXBUILD={sphinx}",
         f"PYTHON3={sphinx.with_name('python')}"],
        cwd=tree, capture_output=True, text=True, errors="replace", check=False)
    assert not done.returncode, done.stderr[-3000:]
    return set(SAID.findall(done.stdout + done.stderr))


@pytest.mark.parametrize("release", base.names())
def test_pages_of_kvm_are_made(release: str, sphinx: Path, tmp_path: Path) -> None:
    folder, tree, new = base.folder(release), tmp_path / "tree", tmp_path / "new"
    source = base.source(folder).tree
    shutil.copytree(source, tree, symlinks=True,
                    ignore=lambda place, _: NOT_QUOTED if Path(place) == source else ())
    bare = made(tree, sphinx)
    series.render(source, paths.KERNEL / "overlay", folder / "series", new)
    shutil.copytree(new, tree, dirs_exist_ok=True)
    assert made(tree, sphinx) == bare
    out = tree / "Documentation/output" / FOLDER / OURS
    pages = {path.stem for path in (tree / "Documentation" / FOLDER / OURS).glob("*.rst")}
    assert {path.stem for path in out.glob("*.html")} == pages > {"index"}
    assert f'href="{out.name}/index.html"' in (out.parent / "index.html").read_text(), (
        "KVM's list of pages names ours")
    page = tree / "Documentation" / FOLDER / OURS / "index.rst"
    page.write_text(page.read_text() + FAULT)
    found = made(tree, sphinx) - bare
    assert {name for name, _ in found} == {f"{FOLDER}/{OURS}/index.rst"}, found
    content.remove(tree)
