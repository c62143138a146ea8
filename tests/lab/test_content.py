# SPDX-License-Identifier: GPL-2.0-only
"""The cache: hashes, entries made once, killed and concurrent builders."""

import multiprocessing
import os
from pathlib import Path

import pytest

from lab.core import content, tools
from lab.core.errors import LabError, UsageError
from lab.core.progress import Silent

LIMIT = 60.0
"""Seconds for what takes none on an idle machine."""


class Recorder(Silent):
    """Keeps what is said, and lets somebody know."""

    def __init__(self, said: "multiprocessing.synchronize.Event") -> None:
        self.lines: list[str] = []
        self.said = said

    def say(self, text: str) -> None:
        self.lines.append(text)
        self.said.set()


@pytest.fixture
def cache(own_cache: Path) -> Path:
    own_cache.mkdir()
    return own_cache


def tree_hash(root: Path) -> str:
    return content.Hasher().tree("tree", root).short()


def test_hash_sees_every_byte_name_and_mode(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "a").mkdir(parents=True)
    file = root / "a/one"
    file.write_text("x")
    seen = {tree_hash(root)}
    os.utime(file, (1, 1))
    (root / "a/__pycache__").mkdir()
    (root / "a/__pycache__/one.pyc").write_text("cached")
    assert tree_hash(root) in seen, "times and Python's caches do not count"
    for change in (
        lambda: file.write_text("y"),
        lambda: file.chmod(0o755),
        lambda: file.rename(root / "a/two"),
        lambda: (root / "empty").write_text(""),
    ):
        change()
        assert tree_hash(root) not in seen
        seen.add(tree_hash(root))


def test_hash_keeps_parts_apart() -> None:
    def of(*values: str) -> str:
        return content.Hasher().text("list", *values).short()

    assert len({of("ab", "c"), of("a", "bc"), of("abc"), of("c", "ab")}) == 4
    assert len(of("a")) == content.HASH_DIGITS


def test_entry_is_made_once(cache: Path) -> None:
    made = []

    def make(out: Path) -> None:
        made.append(out)
        (out / "file").write_text("done")

    first = content.entry("thing", "0" * 12, make)
    assert first == cache / "thing-000000000000"
    assert content.entry("thing", "0" * 12, make) == first
    assert len(made) == 1
    assert (first / "file").read_text() == "done"
    assert content.entry("thing", "1" * 12, make) != first


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_interrupted_make_leaves_nothing(cache: Path, error: type[BaseException]) -> None:
    def make(out: Path) -> None:
        (out / "folder").mkdir()
        (out / "folder/file").write_text("half")
        (out / "folder").chmod(0o500)
        raise error("no space")

    with pytest.raises(LabError if error is OSError else error):
        content.entry("thing", "0" * 12, make)
    assert content.lookup("thing", "0" * 12) is None
    assert not list((cache / "tmp").iterdir())
    assert content.entry("thing", "0" * 12, lambda out: None).is_dir()


def test_leftover_of_a_killed_build_is_replaced(cache: Path) -> None:
    left = cache / "tmp/thing-000000000000"
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    made = content.entry("thing", "0" * 12, lambda out: (out / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]


def _hold(cache: str, taken: "multiprocessing.synchronize.Event",
          enough: "multiprocessing.synchronize.Event") -> None:
    os.environ["PVSYNC_CACHE"] = cache

    def make(out: Path) -> None:
        taken.set()
        enough.wait(LIMIT)
        (out / "by").write_text("the other")

    content.entry("thing", "0" * 12, make)


def test_second_builder_waits_and_takes_the_result(cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    taken, waits = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(cache), taken, waits))
    other.start()
    assert taken.wait(LIMIT)
    progress = Recorder(waits)
    made = content.entry("thing", "0" * 12, lambda out: pytest.fail("built twice"), progress)
    other.join()
    assert (made / "by").read_text() == "the other"
    assert progress.lines == ["thing: waiting for another build"]


def test_a_killed_builder_frees_the_lock(cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    taken = context.Event()
    other = context.Process(target=_hold, args=(str(cache), taken, context.Event()))
    other.start()
    assert taken.wait(LIMIT)
    other.kill()
    other.join()
    assert not list(content.entry("thing", "0" * 12, lambda out: None).iterdir())


def test_prune_keeps_recent_and_last_used(cache: Path) -> None:
    for number in range(5):
        path = content.entry("thing", f"{number:012d}", lambda out: None)
        os.utime(path, (number, number))
    content.entry("thing-other", "0" * 12, lambda out: None)
    content.lookup("thing", f"{0:012d}")
    assert [path.name[-1] for path in content.prune("thing", keep=2, age=3600)] == ["3", "2", "1"]
    left = sorted(path.name for path in cache.glob("thing*-*[0-9]"))
    assert left == ["thing-000000000000", "thing-000000000004", "thing-other-000000000000"]
    content.entry("thing", "9" * 12, lambda out: None, keep=1)
    left = sorted(path.name for path in cache.glob("thing-[0-9]*"))
    assert left == ["thing-000000000000", "thing-999999999999"], "a new entry prunes old ones"
    content.entry("thing", "8" * 12, lambda out: None, keep=1, age=-1.0)
    left = sorted(path.name for path in cache.glob("thing-[0-9]*"))
    assert left == ["thing-888888888888"], "but for those of the age that it names"


def test_a_wish_has_an_entry_for_each_thing_that_comes_of_it(cache: Path) -> None:
    there, made = ["1.0"], list[str]()

    def find(out: Path) -> str:
        (out / "version").write_text(there[0])
        return there[0]

    def make(out: Path) -> None:
        made.append((out / "version").read_text())

    def entry(again: bool = False) -> Path:
        return content.resolved("thing", "0" * 12, find, make, again=again)

    first = entry()
    there[0] = "2.0"
    assert entry() == first, "nobody is asked while there is an entry"
    second = entry(again=True)
    assert second != first and entry() == second and (first / "version").read_text() == "1.0"
    there[0] = "1.0"
    assert entry(again=True) == entry() == first and made == ["1.0", "2.0"], "none is made twice"
    assert content.resolved("thing", "1" * 12, find) not in {first, second}
    content.remove(first)
    assert entry() == first and made[-1] == "1.0", "a link without its entry is none"
    assert not list((cache / "tmp").iterdir())


def test_what_cannot_be_found_leaves_all_as_it_was(cache: Path) -> None:
    def unreachable(out: Path) -> str:
        raise LabError("no network")

    first = content.resolved("thing", "0" * 12, lambda out: "1.0")
    with pytest.raises(LabError, match="no network"):
        content.resolved("thing", "0" * 12, unreachable, again=True)
    assert content.resolved("thing", "0" * 12, unreachable) == first
    assert not list((cache / "tmp").iterdir())


def test_prune_takes_the_links_of_what_is_gone(cache: Path) -> None:
    for number, found in enumerate(("old", "new")):
        path = content.resolved("thing", f"{number:012d}", lambda out, found=found: found)  # type: ignore[misc]
        os.utime(path, (number, number))
    content.prune("thing", keep=1, age=0)
    assert [link.name for link in cache.glob("thing-*.current")] == ["thing-000000000001.current"]


def test_link_tree_shares_files_and_keeps_links(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "a/file").write_text("x")
    (source / "link").symlink_to("a")
    content.link_tree(source, tmp_path / "copy")
    assert (tmp_path / "copy/a/file").stat().st_ino == (source / "a/file").stat().st_ino
    assert os.readlink(tmp_path / "copy/link") == "a"
    (tmp_path / "also").symlink_to(source)
    content.link_tree(tmp_path / "also", tmp_path / "another")
    assert not (tmp_path / "another").is_symlink() and (tmp_path / "another/a/file").exists()
    with pytest.raises(LabError, match="could not be copied"):
        content.link_tree(tmp_path / "missing", tmp_path / "other")


def test_missing_command_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    tools.require("make", "/usr/share")
    monkeypatch.setattr(tools, "find", lambda command: None)
    with pytest.raises(UsageError, match=r"mkfs.erofs is missing.* package erofs-utils"):
        tools.require("mkfs.erofs")
    with pytest.raises(UsageError, match="packages erofs-utils mmdebstrap"):
        tools.require("mkfs.erofs", "mmdebstrap")


def test_packages_file_is_well_formed(tmp_path: Path) -> None:
    listed = tools.packages()
    assert listed["erofs-utils"] == "mkfs.erofs"
    assert all(name and shows for name, shows in listed.items())
    bad = tmp_path / "packages.txt"
    bad.write_text("# comment\nonly-a-package\n")
    with pytest.raises(UsageError, match=r"packages.txt:2"):
        tools.packages(bad)


def test_run_reports_the_last_line_of_a_failure() -> None:
    assert tools.run(["sh", "-c", "cat"], stdin=b"in") == b"in"
    with pytest.raises(LabError, match=r"`sh -c` failed \(status 3\): why"):
        tools.run(["sh", "-c", "echo first >&2; echo why >&2; exit 3"])
