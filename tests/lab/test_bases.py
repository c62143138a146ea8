# SPDX-License-Identifier: GPL-2.0-only
"""Several Linux releases underneath: which series and settings are whose, and other trees."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.build import base, debian, kernel, series, trial
from lab.cli import series as series_cli
from lab.cli.options import tree_options
from lab.core import paths
from lab.core.errors import LabError, UsageError
from lab.plan import kconfig
from tests.lab import fake_linux as fake

NEWEST = "7.3"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return fake.make_tree(tmp_path / "linux")


@pytest.fixture
def patches(tmp_path: Path, tree: Path) -> Path:
    """A hook in the middle of kernel/lock.c, and one at its end."""
    for number, line in ((1, 20), (2, 38)):
        fake.add_patch(
            tmp_path / "series",
            number,
            fake.make_patch(tree, "kernel/lock.c", f"line {line}\n", f"line {line}\nhook();\n"),
        )
    return tmp_path / "series"


def released(tree: Path, version: str) -> Path:
    """The tree, as one of this release."""
    numbers = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split("."), strict=True)
    (tree / "Makefile").write_text("".join(f"{name} = {number}\n" for name, number in numbers))
    return tree


def test_a_version_says_whose_series_it_is() -> None:
    assert base.names() == (base.USUAL, NEWEST)
    assert series.of_version("6.12.117") == series.SERIES
    assert series.of_version("7.3.4") == paths.KERNEL / "bases/7.3/series"
    for version in ("6.1.12", "6.121.1", "7.30.1"):
        with pytest.raises(UsageError, match=rf"Linux {version}, but .* 6.12.y and 7.3.y only"):
            series.of_version(version)
    with pytest.raises(UsageError, match=r"no base 7\.2: choose from 6.12, 7.3"):
        base.folder("7.2")


@pytest.mark.parametrize("name", base.names())
def test_each_base_is_well_formed(name: str) -> None:
    known = base.read_base(base.folder(name) / base.FILE)
    patches = series.of_version(f"{name}.0")
    assert {base.of_version(version) for version in known.tested} == {name}
    assert series.count(patches).patches > 0
    assert series.count(patches).over(known.budget) == []
    touched = {
        change.path
        for path in series.patch_files(patches)
        for change in series.parse_patch(path).files
    }
    assert not touched & {str(p.relative_to(series.OVERLAY)) for p in series.OVERLAY.rglob("*")}


def test_all_bases_have_the_same_patches_by_their_subjects() -> None:
    subjects = [
        [series.parse_patch(path).subject for path in series.patch_files(patches)]
        for patches in (series.of_version(f"{name}.0") for name in base.names())
    ]
    assert all(one == subjects[0] for one in subjects)


def test_settings_are_those_of_the_base() -> None:
    files = kconfig.fragment_files(kconfig.variant("lab"))
    usual = kernel.settings(files, "6.12.117")
    newest = kernel.settings(files, "7.3.4")
    assert usual == kconfig.merge(files), "another base changes no setting of the usual one"
    assert set(usual) - set(newest) == {"CONFIG_PROC_SYSCTL", "CONFIG_SCHED_DEBUG"}
    assert set(newest) - set(usual) == {"CONFIG_SYSCTL", "CONFIG_KVM_IOAPIC"}


def test_a_missing_tarball_is_fetched_where_its_suite_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def tarball(*what: str) -> Path:
        asked.append(what)
        return tmp_path / what[-1]

    monkeypatch.setattr(debian, "tarball", tarball)
    text = 'source = "linux-x"\ntarball = "/missing/x.tar.xz"\ntested = []\n'
    text += "[budget]\nfiles = 0\nadded = 0\n"
    (tmp_path / base.FILE).write_text(text)
    with pytest.raises(UsageError, match=r"/missing/x.tar.xz is missing"):
        base.chosen_tree(tmp_path)
    (tmp_path / base.FILE).write_text(f'suite = "sid"\n{text}')
    assert base.chosen_tree(tmp_path) == tmp_path / "x.tar.xz"
    assert asked == [("linux-x", "sid", "x.tar.xz")]


def chosen(*args: str) -> Result:
    """What a command gets as its tree."""
    import click

    @click.command()
    @tree_options
    def show(tree: Path | None) -> None:
        click.echo(tree)

    return CliRunner().invoke(show, args)


def test_a_base_is_named_in_place_of_a_tree() -> None:
    assert chosen().output == "\n"
    assert chosen("--base", NEWEST).output == f"{base.BASES / NEWEST}\n"
    assert chosen("--base", base.USUAL).output == f"{paths.KERNEL}\n"
    assert chosen("--tree", "/x").output == "/x\n"
    for args, wrong in ((("--base", "7.2"), "no base 7.2"),
                        (("--tree", "/x", "--base", NEWEST), "not both")):
        error = chosen(*args).exception
        assert isinstance(error, UsageError) and wrong in str(error)


def test_each_hunk_of_another_tree_is_told(tmp_path: Path, patches: Path) -> None:
    text = fake.LOCK_C.replace("line 21\n", "LINE 21\n").replace("line 40\n", "LINE 40\n")
    other = fake.make_tree(tmp_path / "other", lock_c=f"a new line\n{text}")
    fake.add_patch(patches, 3, fake.make_patch(other, "kernel/fork.c", "int fork;\n", "int f;\n"))
    (other / "kernel/fork.c").unlink()
    before = (other / "kernel/lock.c").read_text()
    found = trial.hunks(other, patches)
    assert [(hunk.number, hunk.fails, hunk.fuzz) for hunk in found] == [
        (1, True, 0), (1, False, 2), (1, True, 0)]
    assert [str(hunk).partition(": hunk ")[2] for hunk in found] == [
        "1 does not apply, it was made for line 18",
        "1 applies at line 37 with less context, 2 line(s)",
        "1 there is no such file",
    ]
    assert trial.bad(found) == found
    assert (other / "kernel/lock.c").read_text() == before


def test_apply_says_what_failed_and_leaves_the_tree(
    tmp_path: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "SERIES", patches)
    monkeypatch.setattr(base, "names", lambda: (base.USUAL,))
    text = fake.LOCK_C.replace("line 21\n", "LINE 21\n")
    other = released(fake.make_tree(tmp_path / "other", lock_c=text), "6.13.1")
    before = (other / "kernel/lock.c").read_text()
    done = CliRunner().invoke(series_cli.group, ["apply", str(other)])
    assert done.output == ("0001-locking-hook.patch: kernel/lock.c: hunk 1 does not apply,"
                           " it was made for line 18\n")
    assert isinstance(done.exception, LabError)
    assert "(Linux 6.13.1): of 2 hunks of" in str(done.exception)
    assert "1 do not apply and 0 with less context only" in str(done.exception)
    assert (other / "kernel/lock.c").read_text() == before


def test_apply_takes_the_series_that_fits(
    tmp_path: Path, tree: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = fake.make_tree(tmp_path / "other", lock_c=fake.LOCK_C.replace("line", "LINE"))
    fits = tmp_path / "bases/7.3/series"
    fits.parent.mkdir(parents=True)
    hook = fake.make_patch(other, "kernel/lock.c", "LINE 7\n", "LINE 7\nfits();\n")
    fake.add_patch(fits, 1, hook)
    monkeypatch.setattr(series, "SERIES", patches)
    monkeypatch.setattr(base, "BASES", tmp_path / "bases")
    (fits.parent / base.FILE).touch()
    fake.add_overlay(tmp_path / "overlay")
    monkeypatch.setattr(series.apply, "__defaults__", (tmp_path / "overlay", patches))
    done = CliRunner().invoke(series_cli.group, ["apply", str(released(other, "8.0.1"))])
    assert done.exit_code == 0, done.output
    assert "LINE 7\nfits();\n" in (other / "kernel/lock.c").read_text()
