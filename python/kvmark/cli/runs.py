"""Commands over runs on disk: list, show, export, report."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kvmark import catalog
from kvmark.analysis import Judgement, summarize
from kvmark.cli import options
from kvmark.cli.output import document, print_answer, print_json, terminal_width, write_report
from kvmark.errors import RunError, SpecError
from kvmark.records import Entry, Records, Run
from kvmark.records.export import YCSB_PERCENTILES, Measured, as_csv, as_hlog, as_json, as_ycsb
from kvmark.report.answers import RunLine
from kvmark.report.gather import run_answer
from kvmark.report.terminal import run_text, runs_text

__all__ = ["export", "report", "runs", "show", "workloads"]

Word = Annotated[str, typer.Argument(metavar="RUN", help="An id, its beginning, or last, last~1.")]


def runs(
    limit: Annotated[int, typer.Option(help="How many to list, the newest first.")] = 30,
    tag: options.Tag = None,
    json: options.Json = False,
) -> None:
    """Lists the runs, newest first."""
    if limit < 1:
        raise SpecError(f"limit: must be at least 1, not {limit}")
    records = Records.default()
    wanted = set(tag or ())
    entries = [entry for entry in records.list() if wanted <= set(entry.tags)][:limit]
    lines = [_line(records, entry) for entry in entries]
    if json:
        print_json(lines)
    else:
        print_answer(runs_text(lines, terminal_width()))


def show(word: Word = "last", json: options.Json = False) -> None:
    """Shows one run: what was asked, whether it can be believed, what each operation did."""
    run = Records.default().open(word)
    answer = run_answer(run)
    if json:
        print_json({"run": run.id, "summary": answer.summary, "verdict": answer.verdict})
    else:
        print_answer(run_text(answer, terminal_width()))


def export(
    word: Word = "last",
    format: Annotated[str, typer.Option(help="ycsb, json, csv or hlog.")] = "json",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
    ] = None,
) -> None:
    """Writes a run as text that other programs read."""
    run = Records.default().open(word)
    match format:
        case "ycsb":
            text = _as_ycsb(run)
        case "json":
            text = as_json(run, document(summarize(run)))
        case "csv":
            text = as_csv(run)
        case "hlog":
            text = as_hlog(run).decode()
        case _:
            raise SpecError(f"format: '{format}' is not known; give ycsb, json, csv or hlog")
    if output is None:
        sys.stdout.write(text)
        return
    _write(output, text)


def report(
    words: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs to report on.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A file that ends in .html or .md.")
    ] = Path("kvmark-report.html"),
) -> None:
    """Writes a report on one or several runs."""
    records = Records.default()
    answers = [run_answer(records.open(word)) for word in words]
    write_report(lambda page: page.runs_page(answers), output)
    typer.echo(f"The report is in {output.resolve()}", err=True)


def workloads(
    name: Annotated[str | None, typer.Argument(help="Print this workload's file.")] = None,
) -> None:
    """Lists the ready workloads, or prints one to copy and change."""
    sys.stdout.write(catalog.text(name) if name else "".join(f"{n}\n" for n in catalog.names()))


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
        judgement=_kept_judgement(records, entry),
    )


def _kept_judgement(records: Records, entry: Entry) -> Judgement | None:
    try:
        kept: dict[str, Any] = json_text.loads(records.verdict_path(entry.id).read_bytes())
        return Judgement(kept["judgement"])
    except (OSError, ValueError, KeyError):
        return None


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
