"""Commands that read closed runs: show, export, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kvmark.cli import options
from kvmark.cli.output import json_text, print_answer, print_json, terminal_width, write_report
from kvmark.errors import SpecError
from kvmark.outputs import check_output, refuse_existing, write_output
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.records import Run
    from kvmark.records.export import Measured


def show(
    word: options.Word = "last",
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Shows one run: its load, its verdict and each operation."""
    from kvmark.analysis import known_verdict
    from kvmark.report.format.terminal import run_text
    from kvmark.report.views.gather import run_answer

    records = Records.at(folder)
    run = records.open(word)
    answer = run_answer(run, known_verdict(records, run))
    if json:
        print_json(
            "shown-run", {"run": run.id, "summary": answer.summary, "verdict": answer.verdict}
        )
    else:
        print_answer(run_text(answer, terminal_width()))


def export(
    word: options.Word = "last",
    format: options.Format = "json",
    output: options.Output = None,
    force: options.Force = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Writes a run as text that other programs read."""
    if output is not None:
        check_output(output, "output: ", page=False)
        refuse_existing(output, "output: ", force=force)
    run = Records.at(folder).open(word)
    text = _exported(run, format)
    if output is not None:
        write_output(output, text)
    if json:
        shown = text if output is None else None
        print_json("export", {"run": run.id, "format": format, "output": output, "text": shown})
    elif output is None:
        sys.stdout.write(text)


def report(
    words: options.Words,
    output: options.ReportPlace = None,
    format: options.ReportFormat = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Writes a report on one or several runs."""
    from kvmark.cli.judged import judge_and_keep
    from kvmark.report.views.gather import run_answers

    path = _place(output, format)
    records = Records.at(folder)
    entries = [records.find(word) for word in words]
    judged = judge_and_keep(records, [entry.id for entry in entries])
    answers = run_answers(map(records.open_entry, entries), len(entries), judged)
    write_report(lambda page: page.runs_page(answers), path, format)
    if json:
        print_json("report", {"runs": [answer.summary.id for answer in answers], "report": path})
    elif not quiet:
        typer.echo(f"The report is in {path.resolve()}", err=True)


def _place(output: Path | None, format: str | None) -> Path:
    """Where a report goes: a page into a file, pictures and tables into a folder."""
    if format not in {None, "html", "md"}:
        return output or Path("kvmark-report")
    path = output or Path(f"kvmark-report.{format or 'html'}")
    if format is None and path.suffix not in options.REPORT_ENDINGS:
        raise SpecError(
            f"output: {path} ends in neither {' nor '.join(options.REPORT_ENDINGS)}; say what it is"
            " to be with --format"
        )
    check_output(path, "output: ")
    return path


def _exported(run: Run, format: str) -> str:
    from kvmark.analysis import summarize
    from kvmark.records.export import as_csv, as_hlog

    match format:
        case "json":
            manifest = run.manifest.model_dump(mode="json")
            return json_text("exported-run", {"manifest": manifest, "summary": summarize(run)})
        case "csv":
            return as_csv(run)
        case "hlog":
            return as_hlog(run).decode()
        case _:
            return _as_ycsb(run)


def _as_ycsb(run: Run) -> str:
    """YCSB's final text with the percentiles and series that the run's properties asked for."""
    from kvmark.records.export import YCSB_PERCENTILES, as_ycsb

    asked = run.manifest.spec.get("ycsb", {})
    percentiles = tuple(asked.get("percentiles", YCSB_PERCENTILES))
    measurement: Measured = asked.get("measurement", "op")
    return as_ycsb(run, percentiles, measurement)
