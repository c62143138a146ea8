# SPDX-License-Identifier: GPL-2.0-only
"""Schemes, workloads and experiments: those that ship, and broken ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.core.errors import UsageError
from lab.plan import config
from lab.plan.config import Overrides

EXPERIMENT = """
about = "a"
schemes = ["ticket", "pmt"]
workloads = ["hackbench"]
vms = [1, 2]
vcpus = 2
pcpus = 2
reps = 1
boots = 1
"""
WORKLOAD = """
about = "a"
command = "true"
metric = "time"
unit = "s"
better = "lower"
pattern = 'Time: (?P<value>[0-9.]+)'
timeout_s = 10
"""


def broken_experiment(tmp_path: Path, old: str, new: str) -> str:
    assert old in EXPERIMENT
    file = tmp_path / "mine.toml"
    file.write_text(EXPERIMENT.replace(old, new))
    with pytest.raises(UsageError) as caught:
        config.experiment(str(file))
    return str(caught.value)


def broken_workload(tmp_path: Path, old: str, new: str) -> str:
    assert old in WORKLOAD
    (tmp_path / "mine.toml").write_text(WORKLOAD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        config.workloads(tmp_path)
    return str(caught.value)


def test_shipped_data_is_complete() -> None:
    experiments = config.experiments()
    assert {"demo", "locks", "aa", "busted", "torture8", "smoke"} <= set(experiments)
    names = [scheme.name for scheme in experiments["demo"].schemes]
    assert names == ["pvqspinlock", "placebo", "ticket", "pmt"]
    locks = experiments["locks"]
    assert (locks.reps * locks.boots, locks.boots, locks.vms) == (12, 3, (1, 2, 3))
    assert all(scheme.about for scheme in config.schemes().values())


@pytest.mark.parametrize("file", sorted(config.EXPERIMENTS.glob("*.toml"))
                         + sorted(config.WORKLOADS.glob("*.toml")), ids=lambda f: f.stem)
def test_files_open_with_what_they_show(file: Path) -> None:
    lines = file.read_text().splitlines()
    comment = " ".join(line for line in lines if line.startswith("#"))
    assert lines[0] == "# SPDX-License-Identifier: GPL-2.0-only"
    assert "Measures:" in comment and "Cannot show:" in comment


def test_scheme_arguments() -> None:
    schemes = config.schemes()
    assert schemes["pvqspinlock"].guest == ()
    assert schemes["qspinlock"].guest == ("nopvspin",)
    assert schemes["pmt-0"].guest == ("pvsync.lock=pmt", "pvsync.tau=0")
    assert schemes["busted"].test_only


def test_same_scheme_twice_is_labelled() -> None:
    picked = config.select_schemes(["pmt", "ticket", "pmt", "pmt"])
    assert [scheme.label for scheme in picked] == ["pmt", "ticket", "pmt:2", "pmt:3"]
    assert [scheme.name for scheme in picked] == ["pmt", "ticket", "pmt", "pmt"]
    assert [s.label for s in config.experiment("aa").schemes] == ["pmt", "pmt:2"]


def test_overrides() -> None:
    changed = config.experiment("demo", Overrides(
        schemes=("pmt",), vms=(4,), vcpus=8, pcpus=1, reps=7, boots=2, max_repeats=0,
        guest_mem=512, timeout_s=5.0))
    assert [scheme.label for scheme in changed.schemes] == ["pmt"]
    assert (changed.vms, changed.vcpus, changed.pcpus, changed.reps) == ((4,), 8, 1, 7)
    assert (changed.boots, changed.max_repeats, changed.guest_mem) == (2, 0, 512)
    assert changed.workloads[0].timeout_s == 5.0


def test_command_as_workload() -> None:
    (workload,) = config.experiment("demo", Overrides(command="make -j2")).workloads
    assert (workload.name, workload.command, workload.pattern) == ("cmd", "make -j2", "")
    assert (workload.metric, workload.unit, workload.better) == ("elapsed", "s", "lower")
    with pytest.raises(UsageError, match="--cmd needs a command"):
        config.experiment("demo", Overrides(command=" "))


def test_test_only_scheme_brings_the_test_kernel() -> None:
    assert config.experiment("demo").variant == "lab"
    picked = Overrides(schemes=("pmt", "busted"))
    assert config.experiment("demo", picked).variant == "test"
    assert config.experiment("demo", replace(picked, variant="kcsan")).variant == "kcsan"
    stock = config.experiment("demo", Overrides(host_variant="stock"))
    assert (stock.variant, stock.host_variant) == ("lab", "stock")


def test_kernels_of_guests() -> None:
    assert config.experiment("demo").guest_variants() == ("lab",)
    assert config.experiment("off").guest_variants() == ("lab", "off")
    assert config.experiment("off", Overrides(variant="off")).guest_variants() == ("off",)
    other = config.experiment("off", Overrides(schemes=("kconfig-off",), variant="test"))
    assert other.guest_variants() == ("test", "off")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Overrides(schemes=("tickt",)), "the command line: there is no scheme 'tickt', did you"
         " mean 'ticket'? (known: pvqspinlock, qspinlock, tas, ticket, "),
        (Overrides(workloads=("hackbnch",)), "no workload 'hackbnch', did you mean 'hackbench'?"),
        (Overrides(schemes=()), "schemes must name at least one"),
        (Overrides(vms=(0,)), "vms must be from 1 to 64, not 0"),
        (Overrides(vms=(2, 2)), "vms lists a number twice"),
        (Overrides(vcpus=0), "vcpus must be from 1"),
        (Overrides(pcpus=-1), "pcpus must be from 1"),
        (Overrides(reps=0), "reps must be from 1"),
        (Overrides(boots=0), "boots must be from 1"),
        (Overrides(max_repeats=-1), "max_repeats must be from 0"),
        (Overrides(guest_mem=1), "guest_mem must be from 64"),
        (Overrides(variant="kasn"), "there is no kernel variant 'kasn': choose from lab, test,"),
        (Overrides(host_variant="old"), "there is no kernel variant 'old': choose from lab, test,"),
        (Overrides(timeout_s=0.0), "timeout must be above 0"),
        (Overrides(timeout_s=float("nan")), "timeout must be above 0"),
        (Overrides(timeout_s=float("inf")), "timeout must be above 0 and at most 500000 seconds"),
        (Overrides(timeout_s=500_001.0, command="true"), "at most 500000 seconds"),
    ],
)
def test_bad_overrides(change: Overrides, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.experiment("demo", change)
    assert message in str(caught.value)


def test_unknown_experiment() -> None:
    with pytest.raises(UsageError, match=r"'lcoks', did you mean 'locks'\? \(known: aa, aple"):
        config.experiment("lcoks")
    with pytest.raises(UsageError, match=r"no file nowhere/x\.toml"):
        config.experiment("nowhere/x.toml")


def test_own_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    assert config.experiment(str(tmp_path / "mine.toml")).name == "mine"


def test_observe(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    for line, kept in (("", False), ("observe = false", False), ("observe = true", True)):
        file.write_text(f"{EXPERIMENT}{line}\n")
        assert config.experiment(str(file)).observe is kept
        assert config.experiment(str(file), Overrides(observe=not kept)).observe is not kept
    for word, said in (("locks", "locks"), ("tlb", "tlb"), ("ecs", "ecs"), ("all", True)):
        file.write_text(f'{EXPERIMENT}observe = "{word}"\n')
        assert config.experiment(str(file)).observe == said
        assert config.experiment(str(file), Overrides(observe=False)).observe is False
    assert config.experiment(str(file), Overrides(observe="tlb")).observe == "tlb"
    assert config.experiment("tlb").observe == "tlb"
    assert {config.experiment(f"ecs{end}").observe for end in ("", "-park", "-fairness")} == {"ecs"}


def test_windows_of_an_experiment(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"{EXPERIMENT}window_ms = 50\n")
    assert config.experiment(str(file)).window_ms == 50
    assert config.experiment(str(file), Overrides(window_ms=0)).window_ms == 0
    assert config.experiment("ecs-fairness").window_ms == 100
    assert config.experiment("ecs").window_ms == 0


def test_tied_vcpus_of_an_experiment(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"{EXPERIMENT}pin = true\n")
    assert config.experiment(str(file)).pin
    assert not config.experiment(str(file), Overrides(pin=False)).pin
    assert not config.experiment("ecs-fairness").pin
    assert config.experiment("ecs-fairness", Overrides(pin=True)).pin


def test_schemes_that_share_guests(tmp_path: Path) -> None:
    """Only where they differ in the parameters of all VMs alone."""
    file = tmp_path / "mine.toml"
    shared = 'schemes = ["pmt", "ple-kvm", "hvs"]\nshare = ["ple-kvm", "hvs", "ple-off"]'
    file.write_text(EXPERIMENT.replace('schemes = ["ticket", "pmt"]', shared))
    found = config.experiment(str(file))
    assert [found.owner(label) for label in ("pmt", "ple-kvm", "hvs")] == [
        "pmt", "ple-kvm", "ple-kvm"]
    for share in ('["pmt", "ticket"]', '["pmt", "nope"]'):
        message = broken_experiment(tmp_path, "vms =", f"share = {share}\nvms =")
        assert "cannot share the guests" in message or "there is no scheme 'nope'" in message
    own = 'schemes = ["ple-kvm", "apples-own"]'
    message = broken_experiment(tmp_path, 'schemes = ["ticket", "pmt"]',
                                f'{own}\nshare = ["ple-kvm", "apples-own"]')
    assert "apples-own cannot share the guests of ple-kvm" in message


def test_other_guests_may_have_other_arguments() -> None:
    schemes = config.schemes()
    alike, first, others = (schemes[name] for name in (
        "ecs-count", "ecs-count-beside-stock", "stock-beside-ecs-count"))
    assert [alike.boot_args(index) for index in (0, 1, 3)] == [("pvsync.ecs=count",)] * 3
    assert [first.boot_args(index) for index in (0, 1, 3)] == [("pvsync.ecs=count",), (), ()]
    assert [others.boot_args(index) for index in (0, 1)] == [(), ("pvsync.ecs=count",)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reps = 1", "rep = 1", "unknown key 'rep', did you mean 'reps'?"),
        ("reps = 1", 'reps = "1"', "reps must be an integer, not a string"),
        ("reps = 1", 'reps = 1\nname = "x"', "unknown key 'name'"),
        ("schemes =", "scheme =", "unknown key 'scheme', did you mean 'schemes'?"),
        ("reps = 1", "", "reps is missing"),
        ("reps = 1", "reps = 1\nobserve = 1", "observe must be true or false, not an integer"),
        ("reps = 1", 'reps = 1\nobserve = "lock"',
         "observe must be one of locks, tlb, ecs, all, not 'lock'"),
        ("reps = 1", "reps = 1\npin = 1", "pin must be true or false, not an integer"),
        ("reps = 1", "reps = 1\nwindow_ms = -1", "window_ms, unless 0, must be from 10 to 60000"),
        ("vms = [1, 2]", "vms = 1", "vms must be a list, not an integer"),
        ("vms = [1, 2]", "vms = [1, 2.5]", "vms[1] must be an integer, not a number"),
        ('"pmt"', '"pmtt"', "mine.toml: there is no scheme 'pmtt', did you mean 'pmt'?"),
        ('"hackbench"', '"nope"', "there is no workload 'nope' (known: burn-beside-burn, "),
        ("boots = 1", "boots = 1 1", "is no valid TOML"),
        ("boots = 1", "boots = 1\nfoo = 1", "unknown key 'foo' (known: about, schemes, "),
        ("boots = 1", 'boots = 1\nvariant = "no"', "mine.toml: there is no kernel variant 'no'"),
    ],
)
def test_broken_experiments(tmp_path: Path, old: str, new: str, message: str) -> None:
    said = broken_experiment(tmp_path, old, new)
    assert "mine.toml" in said and message in said and "\n" not in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(?P<value>[0-9.]+)", "([0-9.]+)", "pattern needs a group (?P<value>...)"),
        ("(?P<value>[0-9.]+)", "(?P<value>[0-9.]+", "pattern is no regular expression"),
        ('better = "lower"', 'better = "less"', "better must be one of lower, higher"),
        ("timeout_s = 10", "timeout_s = 0", "timeout_s must be above 0"),
        ("timeout_s = 10", "timeout_s = 1e12", "timeout_s must be above 0 and at most 500000"),
        ('command = "true"', 'command = ""', "command is empty"),
        ('command = "true"', "", "command is missing"),
        ("timeout_s = 10", 'timeout_s = 10\npaper = "x"', "paper must be one of shoot4u, not 'x'"),
    ],
)
def test_broken_workloads(tmp_path: Path, old: str, new: str, message: str) -> None:
    said = broken_workload(tmp_path, old, new)
    assert "mine.toml" in said and message in said and "\n" not in said


def test_a_workload_like_another_has_what_it_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(WORKLOAD)
    (tmp_path / "next.toml").write_text('like = "mine"\ncommand = "false"\nsetup = "id"\n')
    found = config.workloads(tmp_path)
    wanted = replace(found["mine"], name="next", command="false", setup="id")
    assert found["next"] == wanted != found["mine"]


@pytest.mark.parametrize(("like", "message"), [
    ("nobody", "next.toml: there is no other workload 'nobody' (known: mine, third)"),
    ("next", "next.toml: there is no other workload 'next'"),
    ("third", "like names 'third', which is like another one itself: name 'mine'")])
def test_what_a_workload_cannot_be_like(tmp_path: Path, like: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(WORKLOAD)
    (tmp_path / "third.toml").write_text('like = "mine"\n')
    (tmp_path / "next.toml").write_text(f'like = "{like}"\n')
    with pytest.raises(UsageError) as caught:
        config.workloads(tmp_path)
    assert message in str(caught.value)


def test_elapsed_time_is_lower_better(tmp_path: Path) -> None:
    text = WORKLOAD.replace("Time: (?P<value>[0-9.]+)", "").replace('"lower"', '"higher"')
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UsageError, match="an empty pattern means elapsed time: better = 'lower'"):
        config.workloads(tmp_path)


def test_broken_schemes(tmp_path: Path) -> None:
    file = tmp_path / "schemes.toml"
    file.write_text('[a]\nabout = "x"\nguests = []\n')
    with pytest.raises(UsageError, match="unknown key 'guests' in a, did you mean 'guest'"):
        config.schemes(file)
    for value, said in (('"of"', "scheme a: there is no kernel variant 'of': choose from lab,"),
                        ("1", "variant must be a string, not an integer"),
                        ('["off"]', "variant must be a string, not a list")):
        file.write_text(f'[a]\nabout = "x"\nvariant = {value}\n')
        with pytest.raises(UsageError) as caught:
            config.schemes(file)
        assert str(caught.value).startswith(str(file)) and said in str(caught.value)
    file.write_text("a = 1\n")
    with pytest.raises(UsageError, match="'a' must be a table"):
        config.schemes(file)
    file.write_bytes(b"\xff\xfe\0")
    with pytest.raises(UsageError, match="is no valid TOML"):
        config.schemes(file)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        config.schemes(tmp_path / "none.toml")


def test_guest_packages() -> None:
    assert config.guest_packages(config.experiment("demo")) == ("rt-tests",)
