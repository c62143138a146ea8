# SPDX-License-Identifier: GPL-2.0-only
"""b4 takes the mails of kernel/rfc as a thread, and prepares and sends them, all without network.

b4 is fetched from PyPI, so it is for --soak.
"""

import re
from pathlib import Path

import pytest

from lab.build import prerequisites, rfc, series
from tests.kernel import b4
from tests.kernel.b4 import Repository

pytestmark = pytest.mark.soak
FOLDERS = [path.name for path in rfc.folders()]
TITLE = re.compile(r"^Subject: \[[^]]*\] (.+(?:\n .+)*)", re.MULTILINE)
SHORTLOG = re.compile(r"^pvsync developers \(\d+\):$", re.MULTILINE)
"""In a cover letter, where b4 writes anew what follows."""
KVM = "kvm@vger.kernel.org"
LKML = "linux-kernel@vger.kernel.org"
CHECKS = ("needs-editing", "needs-recipients", "needs-auto-to-cc", "needs-checking",
          "misplaced-body")
"""Of b4's before it sends; needs-checking-deps asks lore.kernel.org for what was sent."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("b4")
    return b4.repository(folder, b4.install(folder / "programs"))


def titles(text: str) -> list[str]:
    return [" ".join(title.split()) for title in TITLE.findall(text)]


def taken(repository: Repository, onto: str, mbox: bytes, out: Path) -> tuple[str, Path]:
    """What `b4 am` says of a mailbox, and what it made of it for `git am`, which is to take it."""
    out.mkdir()
    repository.git("checkout", "--quiet", "-B", "taken", onto)
    (out / "mbox").write_bytes(mbox)
    said = repository.b4("am", "-m", out / "mbox", "-o", out, "-n", "series", "--prep-3way",
                         "--guess-base")
    return said, out / "series.mbx"


def tree_of(repository: Repository, commit: str = "HEAD") -> str:
    return repository.git("rev-parse", f"{commit}^{{tree}}")


@pytest.mark.parametrize("name", FOLDERS)
def test_b4_takes_the_series(repository: Repository, name: str, tmp_path: Path) -> None:
    """It is complete and in order, it says itself what base it is of, and it applies there."""
    folder = rfc.folder(name)
    onto, whole = b4.branches(repository, folder)
    mails = b4.mails(folder)
    said, made = taken(repository, onto, b4.thread(mails), tmp_path / "out")
    assert f"Total patches: {len(mails) - 1}\n" in said
    assert not re.search("WARNING|ERROR|incomplete|missing|failed", said), said
    guessed = re.search(r"Base: (\S+) \(exact match\)", said)
    assert guessed and tree_of(repository, guessed[1]) == tree_of(repository, onto), said
    cover = made.with_suffix(".cover").read_text()
    assert titles(cover) == titles(mails[0])
    assert prerequisites.LINE.findall(cover) == prerequisites.LINE.findall(mails[0])
    assert titles(made.read_text()) == [title for mail in mails[1:] for title in titles(mail)[:1]]
    repository.git("am", "--quiet", made)
    assert tree_of(repository) == tree_of(repository, whole)


@pytest.mark.parametrize(("what", "why"), [
    ("a mail is missing", "Thread incomplete"), ("a number comes twice", "Thread incomplete"),
    ("a line differs", "does not apply")])
def test_b4_sees_what_is_broken(
        repository: Repository, what: str, why: str, tmp_path: Path) -> None:
    folder = rfc.folder(FOLDERS[0])
    onto, _ = b4.branches(repository, folder)
    mails = b4.mails(folder)
    if what == "a mail is missing":
        del mails[2]
    elif what == "a number comes twice":
        mails[2] = re.sub(r"PATCH 2/", "PATCH 1/", mails[2])
    else:
        mails[2] = re.sub(r"^( \t.*)", r"\1 broken", mails[2], flags=re.MULTILINE)
    said, made = taken(repository, onto, b4.thread(mails), tmp_path / "out")
    if why in said:
        return
    assert why in repository.git("am", made, status=128) + said
    repository.git("am", "--abort")


@pytest.mark.parametrize("name", FOLDERS)
def test_b4_sends_the_series(repository: Repository, name: str, tmp_path: Path) -> None:
    """`b4 prep` has the patches, cover letter and readers, and `b4 send` the same mails again."""
    folder, out = rfc.folder(name), tmp_path / "sent"
    onto, whole = b4.branches(repository, folder)
    repository.git("checkout", "--quiet", "-b", f"send-{name}")
    repository.b4("prep", "--enroll", onto)
    repository.b4("prep", "--set-prefixes", "RFC")
    (subject,) = titles(b4.mails(folder)[0])
    letter = SHORTLOG.split(b4.mails(folder)[0].partition("\n\n")[2])[0].strip()
    repository.edited(f"{subject}\n\n{letter}\n").b4("prep", "--edit-cover")
    if wanted := [f"patch-id: {found}" for found in
                  prerequisites.LINE.findall(b4.mails(folder)[0])]:
        commit = repository.git("rev-parse", "base")
        repository.edited("\n".join([*wanted, f"base-commit: {commit}"])).b4("prep", "--edit-deps")
    repository.b4("prep", "--auto-to-cc")
    checked = repository.b4("prep", "--check")
    print(checked)
    assert f"Success: {len(series.own_patches(folder))}, Warning: 0, Error: 0" in checked
    shown = repository.b4("prep", "--show-info")
    print(shown)
    assert [f"{check}: False" in shown for check in CHECKS] == [True] * len(CHECKS)
    repository.b4("send", "--no-sign", "-o", out)
    mails = [path.read_text() for path in sorted(out.iterdir())]
    print("".join(re.findall(r"^(?:To|Cc): .*(?:\n .*)*", mails[0], re.MULTILINE)))
    assert all(KVM in mail or LKML in mail for mail in mails)
    assert " ".join(letter.split()) in " ".join(mails[0].split())
    said, made = taken(repository, onto, "".join(
        f"From git@z Thu Jan  1 00:00:00 1970\n{mail}\n" for mail in mails).encode(),
        tmp_path / "out")
    assert f"Total patches: {len(mails) - 1}\n" in said and "incomplete" not in said, said
    cover = made.with_suffix(".cover").read_text()
    assert prerequisites.LINE.findall(cover) == prerequisites.LINE.findall(b4.mails(folder)[0])
    repository.git("am", "--quiet", made)
    assert tree_of(repository) == tree_of(repository, whole)
