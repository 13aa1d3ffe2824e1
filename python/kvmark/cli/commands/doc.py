"""`kvmark doc`: documents whose marked blocks are made from runs, kept or stored beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kvmark.cli import options
from kvmark.cli.output import print_json
from kvmark.errors import AnswerIsNo, RunError, SpecError
from kvmark.outputs import write_output
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.cli.commands.doc_ledger import LedgerDocument
    from kvmark.cli.commands.doc_sources import Sources
    from kvmark.report.format.marks import MarkedBlock
    from kvmark.report.views.document_blocks import BlockContent

__all__ = ["doc"]

_LEDGER: Final = Path("docs/ledger.toml")

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Markdown files with marks; else those of the ledger."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing, and exit with 1 if a block is stale.")
]
LedgerFile = Annotated[
    Path, typer.Option("--ledger", metavar="FILE", help="Which documents show and cite results.")
]


@dataclass(frozen=True, slots=True)
class _Made:
    """A document, and what it is with its blocks made anew."""

    path: Path
    text: str
    blocks: tuple[MarkedBlock, ...]
    contents: tuple[BlockContent, ...]
    is_result: bool

    @property
    def filled(self) -> str:
        """The text with the blocks' content."""
        from kvmark.report.format.marks import filled

        return filled(self.text, self.blocks, [one.text for one in self.contents])

    @property
    def stale_lines(self) -> list[int]:
        """The lines of the blocks whose text or pictures aren't as they are made now."""
        from kvmark.report.format.marks import filled

        return [
            block.line
            for block, one in zip(self.blocks, self.contents, strict=True)
            if filled(self.text, [block], [one.text]) != self.text or list(self.stale(one))
        ]

    def stale(self, content: BlockContent) -> Iterator[tuple[Path, str]]:
        """Pictures that aren't there as they are made now."""
        for name, drawn in content.pictures.items():
            path = self.path.parent / name
            if not path.is_file() or path.read_text(encoding="utf-8") != drawn:
                yield path, drawn


def doc(
    files: Files = None,
    check: Check = False,
    ledger: LedgerFile = _LEDGER,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Makes the marked blocks of Markdown files anew, and leaves the rest as it is.

    Without files: of all documents of the ledger, which are also held against its rules.
    """
    from kvmark.cli.commands.doc_sources import Sources

    with Sources(Records.at(folder)) as sources:
        made, problems = (
            _of_files(files, sources) if files else _of_ledger(ledger, sources, quiet=quiet)
        )
    stale = [one for one in made if one.stale_lines]
    if json:
        each = [
            {"file": one.path, "blocks": len(one.blocks), "stale_lines": one.stale_lines}
            for one in made
        ]
        written = [] if check else [one.path for one in stale]
        print_json("doc", {"files": each, "written": written, "problems": problems})
    if not check:
        for one in stale:
            _write(one)
        if not (json or quiet):
            for one in made if files else stale:
                told = f"{len(one.stale_lines)} of {len(one.blocks)} blocks changed"
                typer.echo(f"{one.path}: {told}", err=True)
    _answer(stale if check else [], problems, quiet=quiet or json)


def _answer(stale: Sequence[_Made], problems: Sequence[str], *, quiet: bool) -> None:
    """Says what doesn't hold.

    Raises:
        AnswerIsNo: something doesn't.
    """
    if not quiet:
        for problem in problems:
            typer.echo(problem, err=True)
    if stale:
        first, others = stale[0], len(stale) - 1
        more = f", and so are blocks of {others} more files" if others else ""
        raise AnswerIsNo(
            f"{first.path}:{first.stale_lines[0]}: this block is stale{more}: run kvmark doc"
            f" {first.path}"
        )
    if problems:
        raise AnswerIsNo(
            f"{len(problems)} {'sentence is' if len(problems) == 1 else 'sentences are'} not borne"
            " out by stored records, as said above"
            if not quiet
            else problems[0]
        )


def _of_files(files: Sequence[Path], sources: Sources) -> tuple[list[_Made], list[str]]:
    return [_made(path, sources) for path in files], []


def _of_ledger(path: Path, sources: Sources, *, quiet: bool) -> tuple[list[_Made], list[str]]:
    """All documents of a ledger, and what doesn't hold of them."""
    from kvmark.cli.commands.doc_ledger import LedgerDocument, faults, read_ledger

    ledger = read_ledger(path)
    results, citing = ledger.documents()
    untraced = set(map(Path, ledger.untraced))
    made = [_made(one, sources, _Rules(is_result=True, lax=one in untraced)) for one in results]
    made += [_made(one, sources, _Rules(is_result=False, lax=one in untraced)) for one in citing]
    if not quiet:
        for name, reason in ledger.untraced.items():
            typer.echo(f"{name}: not traced to stored records yet: {reason}", err=True)
    documents: list[LedgerDocument] = [
        LedgerDocument(one.path, one.filled, *_found_again(one), one.is_result) for one in made
    ]
    return made, list(faults(ledger, documents))


def _found_again(made: _Made) -> tuple[tuple[MarkedBlock, ...], tuple[BlockContent, ...]]:
    """The blocks where they stand once they are filled."""
    from kvmark.report.format.marks import blocks

    return blocks(made.filled), made.contents


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds of a document of a ledger."""

    is_result: bool
    #: Whether a block whose records aren't stored yet stays as it is.
    lax: bool


def _made(path: Path, sources: Sources, rules: _Rules | None = None) -> _Made:
    from kvmark.report.format.marks import blocks

    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it isn't UTF-8"
        raise SpecError(f"it can't be read: {reason}", file=str(path)) from problem
    try:
        found = blocks(text)
        if not found and rules is None:
            raise SpecError(
                "it has no marks: put <!-- kvmark: table --> and <!-- /kvmark --> on lines of their"
                " own where a table belongs"
            )
        lax = rules is not None and rules.lax
        contents = tuple(_content(path, text, block, sources, lax=lax) for block in found)
    except SpecError as problem:
        raise problem.at(file=str(path), line=problem.line) from problem
    return _Made(path, text, found, contents, rules is not None and rules.is_result)


def _content(
    path: Path, text: str, block: MarkedBlock, sources: Sources, *, lax: bool
) -> BlockContent:
    from kvmark.report.views.document_blocks import BlockContent, content

    try:
        source = sources.of(block, path)
    except SpecError:
        if not lax:
            raise
        return BlockContent(text[block.start : block.end].replace("\r\n", "\n").strip("\n"))
    return content(block, source)


def _write(made: _Made) -> None:
    """Writes a document and its pictures.

    Raises:
        RunError: a file can't be written.
    """
    for content in made.contents:
        for path, drawn in made.stale(content):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise RunError(f"{path} can't be written because {problem.strerror}") from problem
            write_output(path, drawn)
    write_output(made.path, made.filled)
