"""`kvmark doc`: fills marked blocks of Markdown files from runs or stored archives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvmark.cli import options
from kvmark.cli.options import argument
from kvmark.cli.output import print_json
from kvmark.errors import AnswerIsNo, RunError, SpecError
from kvmark.outputs import write_output
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.cli.commands.doc_sources import Sources
    from kvmark.report.document_blocks import BlockContent, MarkedBlock


@dataclass(frozen=True, slots=True)
class _Document:
    """A file, and the content of its blocks."""

    path: Path
    text: str
    blocks: tuple[MarkedBlock, ...]
    contents: tuple[BlockContent, ...]

    @property
    def stale_lines(self) -> list[int]:
        """The lines of the blocks whose text or pictures differ from their content."""
        from kvmark.report.document_blocks import filled

        return [
            block.line
            for block, one in zip(self.blocks, self.contents, strict=True)
            if filled(self.text, [block], [one.text]) != self.text or list(self.stale_pictures(one))
        ]

    def stale_pictures(self, content: BlockContent) -> Iterator[tuple[Path, str]]:
        """Pictures that are missing or differ, with their SVG."""
        for name, drawn in content.pictures.items():
            path = self.path.parent / name
            if not path.is_file() or path.read_text(encoding="utf-8") != drawn:
                yield path, drawn


def doc(
    files: Annotated[list[Path], argument("FILE", "Markdown files with marks.")],
    check: Annotated[
        bool, options.flag("Write nothing, and exit 1 if a block is stale.", "--check")
    ] = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fills the marked blocks of Markdown files from runs."""
    from kvmark.cli.commands.doc_sources import Sources

    with Sources(Records.at(folder)) as sources:
        documents = [_read(path, sources) for path in files]
    stale = [one for one in documents if one.stale_lines]
    if json:
        each = [
            {"file": one.path, "blocks": len(one.blocks), "stale_lines": one.stale_lines}
            for one in documents
        ]
        print_json("doc", {"files": each, "written": [] if check else [one.path for one in stale]})
    if check and stale:
        first, others = stale[0], len(stale) - 1
        more = f", and so are blocks of {others} more files" if others else ""
        raise AnswerIsNo(
            f"{first.path}:{first.stale_lines[0]}: this block is stale{more}: run kvmark doc"
            f" {first.path}"
        )
    for one in stale:
        _write(one)
    if not (check or json or quiet):
        for one in documents:
            changed = f"{len(one.stale_lines)} of {len(one.blocks)} blocks changed"
            typer.echo(f"{one.path}: {changed}", err=True)


def _read(path: Path, sources: Sources) -> _Document:
    """A file with the content of its blocks.

    Raises:
        SpecError: the file has no readable marks, or a mark names something that doesn't exist.
    """
    from kvmark.report.document_blocks import blocks, content

    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it isn't UTF-8"
        raise SpecError(f"it can't be read: {reason}", file=str(path)) from problem
    try:
        marked = blocks(text)
        if not marked:
            raise SpecError(
                "it has no marks: put <!-- kvmark: table --> and <!-- /kvmark --> on lines of their"
                " own where a table belongs"
            )
        contents = tuple(content(block, sources.of(block, path)) for block in marked)
    except SpecError as problem:
        raise problem.at(file=str(path), line=problem.line) from problem
    return _Document(path, text, marked, contents)


def _write(document: _Document) -> None:
    """Writes a document and its pictures.

    Raises:
        RunError: a file can't be written.
    """
    from kvmark.report.document_blocks import filled

    for content in document.contents:
        for path, drawn in document.stale_pictures(content):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise RunError(f"{path} can't be written because {problem.strerror}") from problem
            write_output(path, drawn)
    contents = [one.text for one in document.contents]
    write_output(document.path, filled(document.text, document.blocks, contents))
