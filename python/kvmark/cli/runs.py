"""Commands over runs on disk: list, show, export, report."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from kvmark.analysis import known_verdict, summarize
from kvmark.cli import options
from kvmark.cli.output import document, print_answer, print_json, terminal_width, write_report
from kvmark.errors import RunError, SpecError
from kvmark.records import Records, Run
from kvmark.records.export import YCSB_PERCENTILES, Measured, as_csv, as_hlog, as_json, as_ycsb
from kvmark.report.gather import run_answer, run_line
from kvmark.report.terminal import run_text, runs_text

__all__ = ["export", "report", "runs", "show"]


def runs(limit: options.Limit = 30, tag: options.Tag = None, json: options.Json = False) -> None:
    """Lists the runs, newest first."""
    records = Records.default()
    wanted = set(tag or ())
    entries = [entry for entry in records.list() if wanted <= set(entry.tags)][:limit]
    lines = [run_line(records, entry) for entry in entries]
    if json:
        print_json(lines)
    else:
        print_answer(runs_text(lines, terminal_width()))


def show(word: options.Word = "last", json: options.Json = False) -> None:
    """Shows one run: its load, its verdict and each operation."""
    records = Records.default()
    run = records.open(word)
    answer = run_answer(run, known_verdict(records, run))
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
    output: options.ReportPlace = None,
    format: options.ReportFormat = None,
    json: options.Json = False,
) -> None:
    """Writes a report on one or several runs."""
    path = _place(output, format)
    records = Records.default()
    runs = map(records.open, words)
    answers = [run_answer(run, known_verdict(records, run)) for run in runs]
    write_report(lambda page: page.runs_page(answers), path, format)
    if json:
        print_json({"runs": [answer.summary.id for answer in answers], "report": path})
        return
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
    if not path.parent.is_dir():
        raise SpecError(f"output: there is no folder {path.parent}; make it or name another")
    return path


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
