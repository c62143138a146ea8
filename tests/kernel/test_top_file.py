# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync top -L FILE` on the KVM host: what is in the file, also when it goes, or has no room.

A VM is a process of operate_host.py, whose two vCPUs spin on the host's only CPU. `timeout -s INT`
stands for Ctrl-C. PVSYNC_RECORD=1 writes what is said into docs/sessions.md.
"""

import subprocess
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from lab.build import package
from lab.run.host import Job
from tests import recorded
from tests.kernel.in_host import said_by

pytestmark = [pytest.mark.soak, pytest.mark.virtual, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).with_name("operate_host.py")
TIMES = "cut -d, -f 1 /run/top.csv"
GOES = ("timeout -s INT 16 pvsync top -s 3 -L /run/top.csv & sleep 8; mv /run/top.csv /run/old.csv;"
        " wait $!; head -n 2 /run/old.csv /run/top.csv | cut -d, -f 2-4")
COUNTS = "cat /sys/kernel/debug/pvsync/vcpu_stat"
SMALL = "wc -c </run/small/top.csv; tail -c 1 /run/small/top.csv | od -A n -c"
SESSION = f"""\
{COUNTS}
timeout --preserve-status -s INT 35 pvsync top -s 10 -L /run/top.csv
cut -d, -f 2-7 /run/top.csv
{TIMES}
rm /run/top.csv
{GOES}
timeout -s INT 20 pvsync top -s 1 -L /run/small/top.csv
{SMALL}
{COUNTS}
"""
"""Those in docs/sessions.md among them."""
BEFORE = 3900
"""Bytes in a file that has room for 4096."""
PREPARE = f"""exec 2>&1
cp -r tools /run
sed -i 's,/usr/lib,/run/tools&,' /run/tools/usr/bin/pvsync
export PATH=/run/tools/usr/bin:$PATH PYTHONPATH=/run/tools/usr/lib/pvsync
sleep 3600 | python3 {SCRIPT.name} play 2 -name guest=web >/run/web &
until grep -q ready /run/web; do sleep 1; done
mkdir /run/small
mount -t tmpfs -o size=4k tmpfs /run/small
yes '' | head -c {BEFORE} >/run/small/top.csv
while read -r line; do
	echo "# $line"
	eval "$line" || echo "(exit status $?)"
done <<-'END'
{SESSION}END
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Sequence[tuple[str, str]]:
    """What was typed in the host, and what each said."""
    folder = tmp_path_factory.mktemp("tools")
    tools = folder / "tools"
    subprocess.run(["dpkg-deb", "-x", package.build(folder), tools], check=True)
    job = Job(("bash", "-c", PREPARE), bring=(tools, SCRIPT), variant="test", pcpus=1,
              limit_s=600.0)
    return list(recorded.said(said_by(job).replace("\r", "")))


def test_it_grows_by_a_line_each_period(said: Sequence[tuple[str, str]]) -> None:
    head, *times = dict(said)[TIMES].split()
    assert head == "time" and len(times) == 3
    for old, new in pairwise(map(datetime.fromisoformat, times)):
        assert 9 <= (new - old).total_seconds() <= 12, times


def test_a_file_that_was_moved_stays_and_another_is_begun(said: Sequence[tuple[str, str]]) -> None:
    shown = [line for line in dict(said)[GOES].splitlines() if line]
    assert shown[0::3] == ["==> /run/old.csv <==", "==> /run/top.csv <=="], shown
    assert shown[1::3] == ["vm,pid,vcpus"] * 2 and shown[2][:4] == shown[5][:4] == "web,", shown


def test_a_full_disk_leaves_whole_lines(said: Sequence[tuple[str, str]]) -> None:
    size, last = dict(said)[SMALL].split()
    assert BEFORE < int(size) < 4096 and last == "\\n"


def test_counting_ends_with_it(said: Sequence[tuple[str, str]]) -> None:
    assert [told for line, told in said if line == COUNTS] == ["0\n"] * 2


def test_the_page_has_what_is_said(said: Sequence[tuple[str, str]]) -> None:
    recorded.compare(recorded.SESSIONS, recorded.TOP_FILE, said, figures=False)
