# SPDX-License-Identifier: GPL-2.0-only
"""A Prometheus on the loopback, with the lab's alerts."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.operate import watch

CONFIG = """\
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
rule_files: [alerts.yml]
scrape_configs: [{{job_name: node, static_configs: [{{targets: {targets}}}]}}]
"""


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: run `make deps`"
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def process(*words: str | Path) -> Iterator[None]:
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.kill()
        child.wait()


class Server:
    """Prometheus."""

    def __init__(self, url: str, asked: str) -> None:
        self.url = url
        self.asked = asked
        """Time of all questions, once there is data: their answers fit together."""

    def ask(self, query: str) -> list[float]:
        return list(self.labelled(query).values())

    def labelled(self, query: str) -> dict[str, float]:
        """The answer's values by the virtual machine, and by what else tells them apart."""
        text = urllib.parse.urlencode({"query": query, "time": self.asked} if self.asked else
                                      {"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{text}", timeout=10) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return {" ".join(value for name, value in one["metric"].items()
                         if name not in {"__name__", "instance", "job"}): float(one["value"][1])
                for one in told["data"]["result"]}

    def wait(self, query: str) -> None:
        """Until this has an answer."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                if self.ask(query):
                    self.asked = self.asked or f"{time.time():.3f}"
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.3)
        raise AssertionError("Prometheus has no data after 120 s")


@contextmanager
def prometheus(root: Path, until: str, *targets: str, at: str = "") -> Iterator[Server]:
    """A server with the alerts, that has what is in root/data and scrapes targets; when the query
    `until` has an answer. Questions are of that time, or of `at`."""
    port = free_port()
    running = Server(f"http://127.0.0.1:{port}", at)
    (root / "alerts.yml").write_text(watch.alerts())
    (root / "prometheus.yml").write_text(CONFIG.format(targets=json.dumps(targets)))
    with process(tool("prometheus"), f"--config.file={root}/prometheus.yml",
                 f"--storage.tsdb.path={root}/data", f"--web.listen-address=127.0.0.1:{port}"):
        running.wait(until)
        yield running
