"""`kvmark doc`: documents whose marked blocks are made from the newest runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvmark.cli import options
from kvmark.cli.output import print_json, write_text
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.report.format.marks import MarkedBlock

__all__ = ["doc"]

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Markdown files with marks.")]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing, and exit with 1 if a block is stale.")
]


def doc(
    files: Files,
    check: Check = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Makes the marked blocks of Markdown files anew, and leaves the rest as it is."""
    records = Records.at(folder)
    made = {path: _remade(path, records) for path in files}
    stale = {path: lines for path, (_, _, lines) in made.items() if lines}
    if not check:
        for path in stale:
            write_text(path, made[path][1])
    if json:
        each = [
            {"file": path, "blocks": len(found), "stale_lines": lines}
            for path, (found, _, lines) in made.items()
        ]
        print_json("doc", {"files": each, "written": [] if check else list(stale)})
    elif not (check or quiet):
        for path, (found, _, lines) in made.items():
            typer.echo(f"{path}: {len(lines)} of {len(found)} blocks changed", err=True)
    if check and stale:
        path, lines = next(iter(stale.items()))
        others = len(stale) - 1
        more = f", and so are blocks of {others} more files" if others else ""
        raise AnswerIsNo(f"{path}:{lines[0]}: this block is stale{more}: run kvmark doc {path}")


def _remade(path: Path, records: Records) -> tuple[tuple[MarkedBlock, ...], str, list[int]]:
    """A file's blocks, its text with them made anew, and the lines of those that are stale."""
    from kvmark.report.format.marks import blocks, filled
    from kvmark.report.views.document_blocks import content

    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it isn't UTF-8"
        raise SpecError(f"it can't be read: {reason}", file=str(path)) from problem
    try:
        found = blocks(text)
        if not found:
            raise SpecError(
                "it has no marks: put <!-- kvmark: table --> and <!-- /kvmark --> on lines of their"
                " own where a table belongs"
            )
        contents = [content(block, records) for block in found]
    except SpecError as problem:
        raise problem.at(file=str(path), line=problem.line) from problem
    stale = [
        block.line
        for block, one in zip(found, contents, strict=True)
        if filled(text, [block], [one]) != text
    ]
    return found, filled(text, found, contents), stale
