# SPDX-License-Identifier: GPL-2.0-only
"""Make table.txt, summary.json, plots/*.svg and report.html of a result directory.

Everything comes from the files that the runner left; nothing runs again, and
the same files give the same bytes.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from lab.core.errors import UsageError
from lab.core.model import Workload
from lab.report import opening, pages, table
from lab.report.summary import Summary, as_json, load, summarize
from lab.run import records

if TYPE_CHECKING:
    from lab.report.drawing import Plot

PAGE = "report.html"


def make(directory: Path, page: bool = True) -> Summary:
    """Write all four into the directory and return what they show.

    Without `page` there are no plots and no report.html afterwards, which take
    most of the time. Raises UsageError when the directory is no result
    directory, is damaged, or cannot be written.
    """
    summary = summarize(load(directory))
    drawn = _drawn(summary) if page else []
    try:
        (directory / "plots").mkdir(exist_ok=True)
        for old in (*(directory / "plots").glob("*.svg"), directory / PAGE):
            old.unlink(missing_ok=True)
        for plot in drawn:
            records.replace(directory / "plots" / f"{plot.name}.svg", plot.svg)
        records.replace(directory / "summary.json", as_json(summary))
        records.replace(directory / "table.txt", table.as_text(summary))
        if page:
            records.replace(directory / PAGE, html(summary, drawn))
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}.") from None
    return summary


def pdfs(directory: Path, width: float) -> list[Path]:
    """Each plot as DIR/plots/NAME.pdf, so many inches wide; UsageError as of `make`."""
    from lab.report import drawing

    with drawing.as_pdf(width):
        drawn = _drawn(summarize(load(directory)))
    written = []
    try:
        (directory / "plots").mkdir(exist_ok=True)
        for plot in drawn:
            file = directory / "plots" / f"{plot.name}.pdf"
            file.write_bytes(plot.pdf)
            written.append(file)
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}.") from None
    return written


def _drawn(summary: Summary) -> "list[Plot]":
    from lab.report.plots import plots  # loads matplotlib

    return plots(summary)


def html(summary: Summary, drawn: "list[Plot]") -> str:
    """The report as one self-contained page."""
    return pages.environment().get_template(PAGE).render(
        m=summary.results.manifest,
        valid=summary.valid,
        facts=_facts(summary),
        sections=[_section(summary, workload, drawn) for workload in _workloads(summary)],
        alerts=opening.alerts(summary),
        verdict=opening.verdict(summary),
        ideals=opening.ideals(summary),
        notes=table.notes(summary),
        invalid=summary.results.invalid(),
        boots=summary.results.failed_boots(),
    )


def _workloads(summary: Summary) -> tuple[Workload, ...]:
    return summary.results.manifest.workloads


def _section(summary: Summary, workload: Workload, drawn: "list[Plot]") -> dict[str, object]:
    own = [plot for plot in drawn if plot.name.rpartition("-")[0] == workload.name]
    return {
        "workload": workload,
        "grids": table.grids(summary, workload),
        "plots": [(plot.caption, Markup(plot.svg)) for plot in own],
    }


def _facts(summary: Summary) -> list[tuple[str, str]]:
    m = summary.results.manifest
    return [
        ("experiment", m.experiment),
        ("machine", m.machine),
        ("backend", m.backend),
        ("kernel", m.kernel),
        ("base version", m.base_version),
        ("kernel configuration", m.config_hash),
        ("QEMU", m.qemu),
        ("source commit", m.commit),
        ("command", " ".join(m.command)),
        ("created", m.created),
        ("guests", f"{m.vcpus} vCPUs each, {', '.join(map(str, m.vms))} at a time"
         + (", each vCPU tied to a pCPU" if m.pin else "")),
        ("host", f"{m.pcpus} pCPUs"),
        ("runs wanted a cell", f"{m.reps} in each of {m.boots} host boots"),
    ]
