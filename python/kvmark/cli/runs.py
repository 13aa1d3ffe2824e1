"""Commands over runs on disk: list, show, export, report."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from kvmark.analysis import saved_judgement, summarize
from kvmark.cli import options
from kvmark.cli.output import document, print_answer, print_json, terminal_width, write_report
from kvmark.errors import RunError
from kvmark.records import Entry, Records, Run
from kvmark.records.export import YCSB_PERCENTILES, Measured, as_csv, as_hlog, as_json, as_ycsb
from kvmark.report.answers import RunLine
from kvmark.report.gather import run_answer
from kvmark.report.terminal import run_text, runs_text

__all__ = ["export", "report", "runs", "show"]


def runs(limit: options.Limit = 30, tag: options.Tag = None, json: options.Json = False) -> None:
    """Lists the runs, newest first."""
    records = Records.default()
    wanted = set(tag or ())
    entries = [entry for entry in records.list() if wanted <= set(entry.tags)][:limit]
    lines = [_line(records, entry) for entry in entries]
    if json:
        print_json(lines)
    else:
        print_answer(runs_text(lines, terminal_width()))


def show(word: options.Word = "last", json: options.Json = False) -> None:
    """Shows one run: its load, its verdict and each operation."""
    run = Records.default().open(word)
    answer = run_answer(run)
    if json:
        print_json({"run": run.id, "summary": answer.summary, "verdict": answer.verdict})
    else:
        print_answer(run_text(answer, terminal_width()))


def export(
    word: options.Word = "last",
    format: options.Format = "json",
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Writes a run as text that other programs read."""
    run = Records.default().open(word)
    text = _exported(run, format)
    if output is not None:
        _write(output, text)
    if json:
        shown = text if output is None else None
        print_json({"run": run.id, "format": format, "output": output, "text": shown})
    elif output is None:
        sys.stdout.write(text)


def report(
    words: options.Words,
    output: options.ReportFile = Path("kvmark-report.html"),
    json: options.Json = False,
) -> None:
    """Writes a report on one or several runs."""
    records = Records.default()
    answers = [run_answer(records.open(word)) for word in words]
    write_report(lambda page: page.runs_page(answers), output)
    if json:
        print_json({"runs": [answer.summary.id for answer in answers], "report": output})
        return
    typer.echo(f"The report is in {output.resolve()}", err=True)


def _line(records: Records, entry: Entry) -> RunLine:
    """A run with the verdict that stands beside it, and its figures where it is closed."""
    if entry.state != "closed":
        return RunLine(entry)
    run = Run.open(entry.path)
    summary = summarize(run)
    p99 = [
        operation.response.shown_ns("p99")
        for phase in summary.phases
        for operation in phase.operations
        if not operation.part
    ]
    rates = [phase.throughput.value for phase in summary.phases]
    known = [ns for ns in p99 if ns is not None]
    return RunLine(
        entry,
        throughput=rates[0] if rates else None,
        response_ns_p99=max(known, default=None),
        judgement=saved_judgement(records, entry.id),
    )


def _exported(run: Run, format: str) -> str:
    match format:
        case "json":
            return as_json(run, document(summarize(run)))
        case "csv":
            return as_csv(run)
        case "hlog":
            return as_hlog(run).decode()
        case _:
            return _as_ycsb(run)


def _as_ycsb(run: Run) -> str:
    """YCSB's final text with the percentiles and series that the run's properties asked for."""
    asked = run.manifest.spec.get("ycsb", {})
    percentiles = tuple(asked.get("percentiles", YCSB_PERCENTILES))
    measurement: Measured = asked.get("measurement", "op")
    return as_ycsb(run, percentiles, measurement)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise RunError(f"{path} can't be written because {problem.strerror}") from problem
