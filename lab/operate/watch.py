# SPDX-License-Identifier: GPL-2.0-only
"""`pvsync export`: the metrics as a file for the node exporter, their alerts and a dashboard."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from lab.core import files
from lab.core.errors import LabError
from lab.operate import findings, metrics, sample
from lab.operate.findings import Threshold
from lab.operate.metrics import METRICS, OF_VCPUS, Metric
from lab.operate.settings import Host

NAME = "pvsync.prom"
STALE_S = 300
MOST = 1 << 26
"""Bytes of the file of before."""


@dataclass(frozen=True)
class Alert:
    """A rule of Prometheus."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    about: str


def _rate(name: str, labels: str = "") -> str:
    return f"sum by (instance, domain) (rate({name}{labels}[5m]))"


def _above(expression: str, threshold: Threshold) -> str:
    return f"{expression} > {threshold.value:g}"


def _alert(name: str, expression: str, threshold: Threshold, summary: str, about: str,
           minutes: int = 5, severity: str = "warning") -> Alert:
    return Alert(name, _above(expression, threshold), minutes, severity, summary,
                 f"{about} Threshold: {threshold.source}.")


HELD_UP = f"{_rate('pvsync_vcpu_wait_seconds_total')} {OF_VCPUS}"
UNMARKED = f"{_rate('pvsync_unmarked_total')} / {_rate('pvsync_preemptions_total')}"
ALERTS = (
    _alert("PvsyncHeldUp", HELD_UP, findings.HELD_UP, "{{ $labels.domain }} waits for CPUs",
           "pvsync doctor says whether anything but fewer VMs helps."),
    _alert("PvsyncHeldUpBadly", HELD_UP, findings.HELD_UP_BADLY,
           "{{ $labels.domain }} waits for CPUs for {{ $value | humanizePercentage }} of its time",
           "pvsync doctor says whether anything but fewer VMs helps.", severity="critical"),
    _alert("PvsyncCostop", f"{_rate('pvsync_costop_seconds_total')} {OF_VCPUS}", findings.COSTOP,
           "vCPUs of {{ $labels.domain }} run while others of it wait for a CPU",
           "An estimate, at most so much. pvsync set VM mark=exit."),
    _alert("PvsyncUnmarked", f"{_rate('pvsync_preemptions_total')} > {findings.LOST_PER_S.value:g}"
           f" and {UNMARKED}", findings.UNMARKED,
           "{{ $labels.domain }} is not told of many of its preemptions",
           "pvsync set VM mark=exit."),
    Alert("PvsyncLoansExpire", _rate("pvsync_grants_total", '{outcome="expired"}') + " > "
          + _rate("pvsync_grants_total", '{outcome="avoided"}'), 15, "warning",
          "Borrowed time of {{ $labels.domain }} expires more often than it helps",
          "pvsync set VM extend=off."),
    _alert("PvsyncThrottled", f"{_rate('pvsync_throttled_seconds_total')} {OF_VCPUS}",
           findings.THROTTLED, "A limit of CPU time holds {{ $labels.domain }} back",
           "Raise its quota."),
    Alert("PvsyncNotExported",
          f"time() - pvsync_export_timestamp_seconds > {STALE_S}", 5, "warning",
          "{{ $labels.instance }} exports nothing new", "systemctl status pvsync-export."),
)


def export(host: Host, folder: Path | None, now: float | None = None) -> str:
    """The metrics; with a folder they also replace its file, of which co-stop goes on.

    In that folder others can write. What they have put in the file's place is replaced, not read.
    """
    before: metrics.Series = {}
    if folder is not None:
        try:
            before = metrics.parse(files.text(folder / NAME, MOST, ours=True))
        except (FileNotFoundError, files.UnfitError):
            pass
        except OSError as error:
            raise LabError(f"{folder / NAME} cannot be read ({error.strerror})") from None
    found = metrics.series(sample.facts(host), sample.read(host),
                           time.time() if now is None else now, before)
    text = metrics.text(found)
    if folder is not None:
        try:
            with files.prepared(folder / NAME, text, 0o644):
                pass
        except OSError as error:
            raise LabError(f"{folder / NAME} cannot be written ({error.strerror}): the old one, if"
                           " there was one, is left") from None
    return text


def alerts() -> str:
    """Prometheus's file of rules."""
    lines = ["groups:", "- name: pvsync", "  rules:"]
    for alert in ALERTS:
        lines += [f"  - alert: {alert.name}", f"    expr: {json.dumps(alert.expression)}",
                  f"    for: {alert.minutes}m", f"    labels: {{severity: {alert.severity}}}",
                  "    annotations:", f"      summary: {json.dumps(alert.summary)}",
                  f"      description: {json.dumps(alert.about)}"]
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    """Grafana's JSON, to be imported."""
    shown = [metric for metric in METRICS if metric.query]
    return json.dumps({
        "title": "pvsync: virtual machines that wait", "uid": "pvsync", "schemaVersion": 36,
        "editable": True, "refresh": "1m", "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus",
                                 "label": "Prometheus"}]},
        "panels": [_panel(number, metric) for number, metric in enumerate(shown)],
    }, indent=1) + "\n"


def _panel(number: int, metric: Metric) -> dict[str, object]:
    source = {"type": "prometheus", "uid": "${source}"}
    labels = metric.query.partition("(instance")[2].partition(")")[0].strip(", ")
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in labels.split(",") if label)
    return {
        "id": number + 1, "type": "timeseries", "title": metric.title,
        "description": metric.about, "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": metric.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "expr": metric.query, "datasource": source,
                     "legendFormat": legend or "{{instance}}"}],
    }
