"""`kvmark runs import`: other tools' results become runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvmark import __version__
from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import ImportFileError, RunError, UsageError
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.imports.recognition import ReadFile
    from kvmark.records import Run

_Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Results of other tools.", show_default=False),
]
_Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="The run's name; else that of the file.")
]


def import_(
    files: _Files,
    name: _Name = None,
    tag: options.Tag = None,
    folder: options.Runs = None,
    json: options.Json = False,
) -> None:
    """Makes runs of other tools' results, told from their content; all of the files or none."""
    if name is not None and len(files) > 1:
        raise UsageError("--name is for one file: import the files one by one to name them")
    from kvmark.analysis import judge, save_verdict
    from kvmark.imports.writing import Import, keep

    records, read = Records.at(folder), _read(files)
    kept = keep(
        records,
        [
            Import(file.source, file.kind, file.reading, name or Path(file.source.name).stem)
            for file in read
        ],
        tags=tag or (),
        command=command_line(),
        versions={"kvmark": __version__},
    )
    for run in kept:
        # It is made anew whenever somebody wants it: no reason to say that the import failed.
        with suppress(RunError):
            save_verdict(records, run, judge(run))
    runs = list(zip(read, kept, strict=True))
    if json:
        print_json("import", {"runs": [_document(file, run) for file, run in runs]})
        return
    from kvmark.report.format.terminal import run_text
    from kvmark.report.views.gather import run_answer

    for file, run in runs:
        typer.echo(f"{file.source.name} is {file.kind.name}, now run {run.id}\n")
        print_answer(run_text(run_answer(run), terminal_width()))


def _read(files: Sequence[Path]) -> list[ReadFile]:
    """All files, read before any is kept.

    Raises:
        ImportFileError: one can't be read; what is wrong with the others is told before.
    """
    from kvmark.imports.recognition import read_file

    read: list[ReadFile] = []
    problems: list[ImportFileError] = []
    for file in files:
        try:
            read.append(read_file(file))
        except ImportFileError as problem:
            problems.append(problem)
    for told in problems[:-1]:
        typer.echo(f"kvmark: {told}", err=True)
    if problems:
        raise problems[-1]
    return read


def _document(file: ReadFile, run: Run) -> dict[str, object]:
    from kvmark.analysis import imported_rows

    imported = run.manifest.imported
    return {
        "run": run.id,
        "file": file.source.name,
        "recognised_as": file.kind.code,
        "tool": file.reading.tool,
        "version": file.reading.version,
        "notes": file.reading.notes,
        "rows": [] if imported is None else imported_rows(imported),
    }
