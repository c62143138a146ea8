# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts of suites that run in the host, and the build of the base's selftests."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.build import selftests
from lab.build.logged import Log
from lab.core import content
from lab.core.errors import LabError
from lab.machine.control import Refused
from tests.kernel import kut, suites
from tests.kernel.suites import Verdict


class Host:
    """Stands for the control channel: statuses by program, None for one that takes too long."""

    def __init__(self, statuses: dict[str, int | None]) -> None:
        self.statuses = statuses

    def run(self, *argv: str, timeout: float) -> tuple[int, str]:
        name = argv[-1].rpartition("/")[2]
        status = self.statuses[name]
        if status is None:
            raise Refused(f"sh did not end within {timeout:g} s")
        return status, f"{name} said\n"


def test_verdicts() -> None:
    found = suites.run(Host({"a": 0, "b": 4, "c": 254, "d": None, "e": -6}),  # type: ignore[arg-type]
                       "abcde", 5)
    assert [one.how for one in found] == ["pass", "skip", "fail", "late", "fail"]
    assert found[0].said == "a said" and "within 5 s" in found[3].said


LISTED = """
# comment
[apic]
file = apic.flat
smp = 2
extra_params = -cpu max,+x2apic -append "a 'b c'"
arch = x86_64
timeout = 30
groups = apic

[old]
file = old.flat
arch = i386

[most]
file = most.flat
smp = $MAX_SMP
"""


def test_kvm_unit_tests() -> None:
    apic, most = kut.entries(LISTED)
    assert apic == kut.Entry("apic", "apic.flat", 2,
                             ("-cpu", "max,+x2apic", "-append", "a 'b c'"), 30)
    assert (most.name, most.cpus, most.limit_s) == ("most", 2, kut.LIMIT_S)
    assert kut.command(apic)[-8:] == [
        "-kernel", "/run/files/x86/apic.flat", "-smp", "2", "-cpu", "max,+x2apic", "-append",
        "a 'b c'"]
    with pytest.raises(ValueError, match=r"unittests\.cfg"):
        list(kut.entries("file = x"))


def test_verdicts_of_kvm_unit_tests(tmp_path: Path) -> None:
    listed = [kut.Entry(name, name, 1, (), 5) for name in "abcde"]
    host = Host({"a": 1, "b": 3, "c": 155, "d": None, "e": 0})
    host.run = lambda *argv, timeout: Host.run(  # type: ignore[method-assign]
        host, argv[argv.index("-kernel") + 1], timeout=timeout)
    found = kut.run(host, listed, 2.0)  # type: ignore[arg-type]
    assert [one.how for one in found] == ["pass", "fail", "skip", "late", "fail"]
    assert "within 10 s" in found[3].said
    with pytest.raises(ValueError, match="KUT="):
        kut.files(tmp_path)


def verdicts(*how: str) -> list[Verdict]:
    return [Verdict(f"p{number}", one, "words") for number, one in enumerate(how)]


@pytest.mark.parametrize(("one", "other", "names"), [
    (("pass", "skip"), ("pass", "skip"), []),
    (("pass", "skip"), ("fail", "skip"), ["p0"]),
    (("pass", "late"), ("skip", "pass"), ["p0", "p1"]),
])
def test_differences(one: Sequence[str], other: Sequence[str], names: list[str]) -> None:
    found = suites.differences(verdicts(*one), verdicts(*other))
    assert [line.partition(":")[0] for line in found] == names
    with pytest.raises(AssertionError):
        suites.differences(verdicts("pass"), verdicts("pass", "pass"))


def test_programs_that_run_once_more() -> None:
    """Those that differ; a verdict of the second time counts, and a difference stays one."""
    first = {"stock": verdicts("pass", "late", "pass"), "on": verdicts("pass", "pass", "fail")}
    assert suites.differing(first) == ["p1", "p2"]
    again = {"stock": [Verdict("p1", "pass", ""), Verdict("p2", "pass", "")],
             "on": [Verdict("p1", "pass", ""), Verdict("p2", "fail", "")]}
    found = suites.replaced(first, again)
    assert [one.how for one in found["stock"]] == ["pass", "pass", "pass"]
    assert [one.how for one in found["on"]] == ["pass", "pass", "fail"]
    assert suites.differing(found) == ["p2"]


def test_table() -> None:
    text = suites.table({"stock": verdicts("pass", "skip"), "on": verdicts("pass", "late")})
    assert "| `p1` | skip | late |" in text
    assert "| pass, all | 1 | 1 |" in text and "| late, all | 0 | 1 |" in text


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Path("/bin/true").read_bytes())
    path.chmod(0o755)


def test_programs_of_a_build(tmp_path: Path) -> None:
    """What is no program is left out; a build that lacks one, or of all has few, is refused."""
    built, out = tmp_path / "built", tmp_path / "out"
    out.mkdir()
    program(built / "steal_time")
    for name in ("steal_time.o", "x86_64/nx.sh", "lib/x.d"):
        program(built / name)
    (built / "notes").write_text("no program")
    wanted = ("steal_time", *selftests.OWN)
    with pytest.raises(LabError, match="lack programs"):
        selftests._collect(built, out, wanted)
    for name in selftests.OWN:
        program(built / name)
    with pytest.raises(LabError, match="lack programs"):
        selftests._collect(built, out, ())
    selftests._collect(built, out, wanted)
    assert selftests.names(built) == list(wanted)
    assert (out / selftests.IMAGE).stat().st_size > 0
    assert content.files_below(out) == [selftests.IMAGE]


def test_a_build_that_fails_says_where(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n\t@echo broken $(NAME); exit 3\n")
    log = Log(tmp_path / "log", "the suite")
    with pytest.raises(LabError, match=r"^the suite: make all failed \(status 2\), see .*log:\n"):
        selftests._make(tmp_path, {"NAME": "x"}, ("all",), log, _Text())
    assert "broken x" in (tmp_path / "log").read_text()


class _Text:
    def before(self, amount: int) -> None: ...

    def advance(self, amount: int = 1) -> None: ...

    def text(self, text: str) -> None: ...

    def total(self, total: int) -> None: ...

    def left(self, seconds: float | None) -> None: ...
