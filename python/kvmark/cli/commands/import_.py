"""`kvmark import`: results of other tools become runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.options import argument, option
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import ImportFileError, RunError, UsageError
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.imports.reading import Collector
    from kvmark.records import Run


def import_(
    files: list[Path] = argument("FILE...", "Results of other tools.", show_default=False),
    name: str | None = option("NAME", "Name of the run (default: the file's name)."),
    tag: options.Tag = None,
    folder: options.Runs = None,
    json: options.Json = False,
) -> None:
    """Imports results of other tools as runs.

    The format is recognised by the content. If a file can't be read, none is imported.
    """
    if name is not None and len(files) > 1:
        raise UsageError("--name is for one file: import the files one by one to name them")
    from kvmark.analysis.verdict.judge import judge, save_verdict
    from kvmark.imports.writing import keep

    records, read = Records.at(folder), _read(files)
    runs = keep(records, read, name=name, tags=tag or (), command=command_line())
    for run in runs:
        # Verdicts are made again on demand: the import doesn't depend on them.
        with suppress(RunError):
            save_verdict(records, run, judge(run))
    pairs = list(zip(read, runs, strict=True))
    if json:
        print_json("import", {"runs": [_document(file, run) for file, run in pairs]})
        return
    from kvmark.report.views.gather import run_answer
    from kvmark.report.views.run import run_text

    for file, run in pairs:
        typer.echo(f"{file.source.name} is {file.kind.name}, now run {run.id}\n")
        width = terminal_width()
        print_answer(run_text(run_answer(run, text_width=width), width))


def _read(files: Sequence[Path]) -> list[Collector]:
    """All files, read before any is imported.

    Raises:
        ImportFileError: a file can't be read; problems of other files are printed before.
    """
    from kvmark.imports.recognition import read_file

    read: list[Collector] = []
    problems: list[ImportFileError] = []
    for file in files:
        try:
            read.append(read_file(file))
        except ImportFileError as problem:
            problems.append(problem)
    for one in problems[:-1]:
        typer.echo(f"kvmark: {one}", err=True)
    if problems:
        raise problems[-1]
    return read


def _document(file: Collector, run: Run) -> dict[str, object]:
    from kvmark.analysis.summary.imported import imported_rows

    imported = run.manifest.imported
    return {
        "run": run.id, "file": file.source.name, "recognised_as": file.kind.code, "tool": file.tool,
        "version": file.version, "notes": file.notes,
        "rows": [] if imported is None else imported_rows(imported),
    }  # fmt: skip
