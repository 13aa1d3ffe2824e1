"""Commands that read runs: show, export, report, history, scaling, serve."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from kvmark.cli import completion, options
from kvmark.cli.command_line import command_line
from kvmark.cli.options import argument, choice, flag, option
from kvmark.cli.output import json_text, print_result, save_report, terminal_width, write_report
from kvmark.errors import SpecError, UsageError
from kvmark.outputs import check_output, refuse_existing, write_output
from kvmark.records import Records
from kvmark.records.archive import ENDING
from kvmark.records.store import USABLE, entries_of
from kvmark.secret import Secret

if TYPE_CHECKING:
    from kvmark.analysis.compare.selection import ExcludedRun
    from kvmark.records import Run

_SERVED_BY: Final = frozenset({"starlette", "uvicorn"})
"""The libraries of the extra `serve`."""
_RunName = Annotated[
    str,
    argument("RUN", "Run: id, start of an id, last, or last~1.", autocompletion=completion.one_run),
]


def show(
    word: _RunName = "last",
    notes: bool = flag("All reasons with advice, and service and wait times.", "--notes"),
    charts: bool = flag("Response times on an axis, and the run over time.", "--charts"),
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Prints one run with its verdict."""
    from kvmark.analysis.verdict.judge import known_verdict
    from kvmark.report.model.tables import stacked
    from kvmark.report.views.gather import run_answer
    from kvmark.report.views.run import charts_text, run_text
    from kvmark.report.views.screen import audit_screen, run_screen

    records, width = Records.at(folder), terminal_width()
    run = records.open(word)
    verdict = known_verdict(records, run)
    answer = run_answer(run, verdict, text_width=width if charts else None)
    if json:
        document = {"run": run.id, "summary": answer.summary, "verdict": answer.verdict}
        print_result("shown-run", document)
        return
    screen = run_screen
    if answer.imported is not None:
        screen = run_text if answer.imported.audit is None else audit_screen
    screen = run_text if notes else screen
    print_result("shown-run", stacked(width, screen(answer, width), charts_text(answer, width)))


def export(
    word: _RunName = "last",
    format: Literal["ycsb", "json", "csv", "hlog"] = choice("json", "Format of the text."),
    output: Path | None = option("FILE", "File (default: standard output).", "--output", "-o"),
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
        print_result("export", {"run": run.id, "format": format, "output": output, "text": printed})
    elif output is None:
        sys.stdout.write(text)


def _exported(run: Run, format: str) -> str:
    from kvmark.analysis.summary.run import summarize
    from kvmark.records.export import YCSB_PERCENTILES, as_hlog, as_ycsb

    match format:
        case "json":
            manifest = run.manifest.model_dump(mode="json")
            return json_text("exported-run", {"manifest": manifest, "summary": summarize(run)})
        case "csv":
            return run.intervals.write_csv()
        case "hlog":
            return as_hlog(run).decode()
    # The percentiles and series of the run's own properties.
    properties = run.manifest.spec.get("ycsb", {})
    percentiles = tuple(properties.get("percentiles", YCSB_PERCENTILES))
    return as_ycsb(run, percentiles, properties.get("measurement", "op"))


def report(
    words: list[str] = argument(
        "RUN",
        f"Runs, tag:NAME, study:ID or IMPORT#CASE; or archives, NAME{ENDING}.",
        autocompletion=completion.one_run,
    ),
    output: Path | None = option(
        "FILE", "File or folder to write (default: kvmark-report.html).", "--output", "-o"
    ),
    format: Literal["html", "md", "png", "svg", "pdf", "csv"] | None = choice(
        None, "Page, or folder of figures or tables (default: by the file's ending)."
    ),
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Writes a report on runs or archives."""
    from kvmark.analysis.summary.imported import case_runs
    from kvmark.cli.commands.doc import report_of, unpacked
    from kvmark.cli.judged import judge_and_keep
    from kvmark.report.views.gather import run_answers

    path = _report_path(output, format)
    if all(word.endswith(ENDING) for word in words):
        with ExitStack() as until:
            records = unpacked([Path(word) for word in words], until)
            page = report_of(records)
            write_report(lambda _: page, path, format)
            _print_report([entry.id for entry in records.list()], path, json=json, quiet=quiet)
        return
    records = Records.at(folder)
    chosen = {
        (entry.id, *labels): entry
        for name, *labels in (word.split("#") for word in words)
        for entry in reversed(entries_of(records, name, USABLE, bare_tags=False))
    }
    judged = judge_and_keep(records, dict.fromkeys(entry.id for entry in chosen.values()))
    runs = (
        case
        for (_, *labels), entry in chosen.items()
        for run in [records.open_entry(entry)]
        for case in (case_runs(run, labels) if labels else [run])
    )
    answers = run_answers(runs, len(chosen), judged)
    write_report(lambda page: page.runs_page(answers), path, format)
    _print_report([answer.summary.id for answer in answers], path, json=json, quiet=quiet)


def _print_report(runs: list[str], path: Path, *, json: bool, quiet: bool) -> None:
    if json:
        print_result("report", {"runs": runs, "report": path})
    elif not quiet:
        print(f"The report is in {path.resolve()}", file=sys.stderr)


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
    metric: str = option(
        "NAME", "Metric: throughput, p50, p99, READ.p99, service.p99, ….", default="throughput"
    ),
    tag: options.Tag = None,
    workload: str = option("NAME", "Only this workload.", default=""),
    store: str = option("NAME", "Only this system, such as Redis.", default=""),
    limit: int = option("N", "Largest number of runs per case.", default=30, min=1),
    every: bool = flag("Include INVALID runs.", "--all"),
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
    document = {"histories": cases, "invalid": len(excluded), "excluded": excluded}
    print_result(
        "history", document if json else history_text(cases, terminal_width(), limit, excluded)
    )


def scaling(
    words: options.RunNames,
    over: str = option(
        "FACTOR", "Factor that varies: clients, nodes, or a factor of a study.", default="clients"
    ),
    report: options.RunReport = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fits the Universal Scalability Law to runs, and reports when they cannot support a fit."""
    from kvmark.analysis.compare.selection import runs_of
    from kvmark.analysis.scaling import scaling_laws
    from kvmark.report.views import scaling as views

    laws = scaling_laws(runs_of(Records.at(folder), words), over)
    title = f"Scaling over {over.replace('_', ' ')}"
    sentences = [{"law": law, "sentence": views.scaling_sentence(law)} for law in laws]
    document = {"laws": sentences, "report": report}
    print_result("scaling", document if json else views.scaling_text(title, laws, terminal_width()))
    save_report(
        lambda _: views.scaling_page(title, laws, command_line()), report, quiet=json or quiet
    )


def serve(
    folder: options.KeptRuns = None,
    port: int = option("PORT", "Port of 127.0.0.1; 0: any free.", default=8765, min=0, max=65535),
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Serves the runs to a browser on this machine, read-only."""
    try:
        from kvmark.serve import app
    except ModuleNotFoundError as problem:
        if problem.name not in _SERVED_BY:
            raise
        raise UsageError(
            f"serve needs {problem.name}, which isn't installed; add the extra serve, as in"
            " pip install 'kvmark[serve]'"
        ) from problem

    def ready(address: Secret) -> None:
        # The address has the token, and is printed nowhere else.
        url = address.reveal()
        if json:
            print(json_text("serve", {"address": url}, indent=None), flush=True)
        else:
            print(url if quiet else f"The runs are at {url} until Ctrl-C", flush=True)

    app.serve(Records.at(folder), port, ready)
