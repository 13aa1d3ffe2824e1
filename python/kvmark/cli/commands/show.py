"""Commands that read runs: show, export, report, history, scaling."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvmark.cli import completion, options
from kvmark.cli.command_line import command_line
from kvmark.cli.options import argument, flag, option
from kvmark.cli.output import (
    json_text,
    print_answer,
    print_json,
    tell_report,
    terminal_width,
    write_report,
)
from kvmark.errors import SpecError
from kvmark.outputs import check_output, refuse_existing, write_output
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.analysis.compare.selection import ExcludedRun
    from kvmark.records import Run

_RunName = Annotated[
    str,
    argument(
        "RUN", "Run: id, beginning of an id, last, or last~1.", autocompletion=completion.one_run
    ),
]


def show(
    word: _RunName = "last", folder: options.KeptRuns = None, json: options.Json = False
) -> None:
    """Prints one run with its verdict."""
    from kvmark.analysis.verdict.judge import known_verdict
    from kvmark.report.views.gather import run_answer
    from kvmark.report.views.run import run_text

    records = Records.at(folder)
    run = records.open(word)
    verdict = known_verdict(records, run)
    answer = run_answer(run, verdict, text_width=None if json else terminal_width())
    if json:
        document = {"run": run.id, "summary": answer.summary, "verdict": answer.verdict}
        print_json("shown-run", document)
    else:
        print_answer(run_text(answer, terminal_width()))


def export(
    word: _RunName = "last",
    format: Annotated[
        Literal["ycsb", "json", "csv", "hlog"], typer.Option(help="Format of the text.")
    ] = "json",
    output: Annotated[
        Path | None, option("FILE", "File to write (default: standard output).", "--output", "-o")
    ] = None,
    force: options.Force = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Exports a run in another format."""
    if output is not None:
        check_output(output, "output: ", page=False)
        refuse_existing(output, "output: ", force=force)
    run = Records.at(folder).open(word)
    text = _exported(run, format)
    if output is not None:
        write_output(output, text)
    if json:
        printed = text if output is None else None
        print_json("export", {"run": run.id, "format": format, "output": output, "text": printed})
    elif output is None:
        sys.stdout.write(text)


def _exported(run: Run, format: str) -> str:
    from kvmark.analysis.summary.run import summarize
    from kvmark.records.export import YCSB_PERCENTILES, as_csv, as_hlog, as_ycsb

    match format:
        case "json":
            manifest = run.manifest.model_dump(mode="json")
            return json_text("exported-run", {"manifest": manifest, "summary": summarize(run)})
        case "csv":
            return as_csv(run)
        case "hlog":
            return as_hlog(run).decode()
    # The percentiles and series of the run's own properties.
    properties = run.manifest.spec.get("ycsb", {})
    percentiles = tuple(properties.get("percentiles", YCSB_PERCENTILES))
    return as_ycsb(run, percentiles, properties.get("measurement", "op"))


def report(
    words: Annotated[
        list[str], argument("RUN", "Runs to report on.", autocompletion=completion.one_run)
    ],
    output: Annotated[
        Path | None,
        option("FILE", "File or folder to write (default: kvmark-report.html).", "--output", "-o"),
    ] = None,
    format: Annotated[
        Literal["html", "md", "png", "svg", "pdf", "csv"] | None,
        typer.Option(help="Page, or folder of figures or tables (default: by the file's ending)."),
    ] = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Writes a report on runs."""
    from kvmark.cli.judged import judge_and_keep
    from kvmark.report.views.gather import run_answers

    path = _report_path(output, format)
    records = Records.at(folder)
    entries = [records.find(word) for word in words]
    judged = judge_and_keep(records, [entry.id for entry in entries])
    answers = run_answers(map(records.open_entry, entries), len(entries), judged)
    write_report(lambda page: page.runs_page(answers), path, format)
    if json:
        print_json("report", {"runs": [answer.summary.id for answer in answers], "report": path})
    elif not quiet:
        typer.echo(f"The report is in {path.resolve()}", err=True)


def _report_path(output: Path | None, format: str | None) -> Path:
    """The file of a page, or the folder of figures or tables."""
    if format not in {None, "html", "md"}:
        return output or Path("kvmark-report")
    path = output or Path(f"kvmark-report.{format or 'html'}")
    if format is None and path.suffix not in options.REPORT_ENDINGS:
        raise SpecError(
            f"output: {path} ends in neither {' nor '.join(options.REPORT_ENDINGS)}; give its"
            " format with --format"
        )
    check_output(path, "output: ")
    return path


def history(
    metric: Annotated[
        str, option("NAME", "Metric: throughput, p50, p99, READ.p99, service.p99, ….")
    ] = "throughput",
    tag: options.Tag = None,
    workload: Annotated[str, option("NAME", "Only this workload.")] = "",
    store: Annotated[str, option("NAME", "Only this system, such as Redis.")] = "",
    limit: Annotated[int, option("N", "Largest number of runs per case.", min=1)] = 30,
    every: Annotated[bool, flag("Include INVALID runs.", "--all")] = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Prints a metric over time for each case, with change points."""
    from kvmark.analysis.compare.history import histories
    from kvmark.analysis.compare.selection import select_lines, why_excluded
    from kvmark.analysis.summary.metrics import operations_of
    from kvmark.cli.judged import judged_lines
    from kvmark.report.views.comparison import history_text
    from kvmark.spec.metric import check_operations, parse_comparable

    parsed = parse_comparable(metric)
    records = Records.at(folder)
    lines = select_lines(records, tag or (), workload, store)
    excluded: list[ExcludedRun] = []
    operations: dict[str, None] = {}

    def used() -> Iterator[Run]:
        for line in lines if every else judged_lines(records, lines):
            run = records.open_entry(line.entry)
            reason = why_excluded(records, run, line.judgement, invalid=not every)
            if reason is None:
                operations.update(dict.fromkeys(operations_of([run])))
                yield run
            else:
                excluded.append(reason)

    cases = histories(used(), parsed)
    if len(excluded) < len(lines):
        check_operations([parsed], tuple(operations), "the runs have")
    if json:
        print_json("history", {"histories": cases, "invalid": len(excluded), "excluded": excluded})
    else:
        print_answer(history_text(cases, terminal_width(), limit, excluded))


def scaling(
    words: options.RunNames,
    over: Annotated[
        str, option("FACTOR", "Factor that varies: clients, nodes, or a factor of a study.")
    ] = "clients",
    report: options.RunReport = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fits the Universal Scalability Law to runs, and reports when they cannot support a fit."""
    from kvmark.analysis.compare.selection import runs_of
    from kvmark.analysis.scaling import scaling_laws
    from kvmark.report.views.scaling import ScalingAnswer, scaling_sentence, scaling_text

    laws = scaling_laws(runs_of(Records.at(folder), words), over)
    answer = ScalingAnswer(f"Scaling over {over.replace('_', ' ')}", laws)
    if report is not None:
        # Figures load a library for a second.
        from kvmark.report.views.scaling import scaling_page

        page = scaling_page(answer, command_line())
        write_report(lambda _: page, report)
    if json:
        sentences = [{"law": law, "sentence": scaling_sentence(law)} for law in laws]
        print_json("scaling", {"laws": sentences, "report": report})
        return
    print_answer(scaling_text(answer, terminal_width()))
    if not quiet:
        tell_report(report)
