"""A ledger of documents: which show results, which cite them, and what must hold of them all.

    records = "docs/records"
    most_bytes = 20_000_000
    results = ["docs/results/*.md"]
    citing = ["README.md", "docs/guide/*.md"]

    [untraced]
    "docs/results/old.md" = "its runs are gone: measured anew next"

Results begin with a block that says commit, machine, date and verdicts, and have no number that
looks measured which none of their blocks gives. What cites them links to them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from kvmark.errors import SpecError
from kvmark.records.case import thing
from kvmark.report.format.marks import MarkedBlock
from kvmark.report.format.prose import GivenNumber, Prose, Said, numerals, prose_of
from kvmark.report.views.document_blocks import BlockContent
from kvmark.report.views.origin import NO_COMMIT

__all__ = ["Ledger", "LedgerDocument", "faults", "read_ledger"]

_OVER_TIME: Final = "history"
"""The kind of block that shows one thing more than once on purpose."""
_OF_ONE_RUN: Final = ("operations", "stress")
"""Kinds of blocks that show the newest run of those that another may show together."""
_TOP: Final = ("Measured", "Commit", "Machine", "Verdicts", "Command")
_FILE: Final = re.compile(r"[\w.-]+\.csv")
_PUBLISHED: Final = "kvmark.published"


class Ledger(BaseModel):
    """The file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The folder of stored records, and what they may take.
    records: Path
    most_bytes: int = 20_000_000
    #: Patterns of documents that show what was measured.
    results: tuple[str, ...]
    #: Patterns of documents that cite them.
    citing: tuple[str, ...] = ()
    #: Documents whose numbers no stored records give yet, and why.
    untraced: Mapping[str, str] = {}

    def documents(self) -> tuple[list[Path], list[Path]]:
        """Results, and what cites them."""
        results = _found(self.results)
        return results, [path for path in _found(self.citing) if path not in results]


@dataclass(frozen=True, slots=True)
class LedgerDocument:
    """A document with what belongs into its blocks."""

    path: Path
    text: str
    blocks: tuple[MarkedBlock, ...]
    contents: tuple[BlockContent, ...]
    is_result: bool

    @property
    def prose(self) -> Prose:
        """What stands outside the blocks."""
        return prose_of(self.text, self.blocks)

    @property
    def numbers(self) -> frozenset[str]:
        """All numbers that its blocks give."""
        return frozenset().union(*(numerals(one.text) for one in self.contents))


@dataclass
class _Shown:
    """Where one thing is shown, and by which of its measurements."""

    words: str
    places: dict[str, frozenset[str]] = field(default_factory=dict)


def read_ledger(path: Path) -> Ledger:
    """Reads the file.

    Raises:
        SpecError: it isn't there, or not of the form.
    """
    try:
        return Ledger.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise SpecError(
            f"{path} can't be read: {problem.strerror}; name files, or write it"
        ) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SpecError(f"{problem}", file=str(path)) from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise SpecError(f"{place}: {first['msg']}", file=str(path)) from problem


def faults(ledger: Ledger, documents: Sequence[LedgerDocument]) -> Iterator[str]:
    """All that doesn't hold, one sentence with its place each."""
    yield from _too_large(ledger)
    by_path = {one.path.resolve(): one for one in documents}
    untraced = {Path(name).resolve() for name in ledger.untraced}
    for path in untraced - by_path.keys():
        yield f"{path.name}: it is untraced in the ledger and no document of it: take it out there"
    for one in documents:
        if one.path.resolve() not in untraced:
            yield from _of_result(one) if one.is_result else _of_citing(one, by_path, untraced)
    yield from _contradictions(documents)


def _of_result(document: LedgerDocument) -> Iterator[str]:
    """A page of results: its top, its numbers, its pictures."""
    path, prose = document.path, document.prose
    first = document.contents[0].text if document.contents else ""
    missing = [word for word in _TOP if f"- {word}: " not in first]
    if missing:
        yield (
            f"{path}:1: its first block doesn't say {', '.join(missing)}: begin with the view top"
            " of a report or of peers"
        )
    elif f"- Commit: {NO_COMMIT}" in first:
        yield f"{path}:1: its runs name no commit: measure with --commit"
    given = [(one, numerals(one.text)) for one in prose.given]
    used = set()
    for said in prose.said:
        reasons = [one for one, known in given if one.text == said.text]
        used.update(reasons)
        unknown = [number for number in said.numbers if number not in document.numbers]
        if unknown and not reasons:
            yield _untold(path, said, "no block of the page gives it")
    for one in prose.given:
        if one not in used:
            yield f"{path}:{one.line}: '{one.text}' is given and not said on the page: take it out"
        elif (file := _contradicted(one)) is not None:
            yield f"{path}:{one.line}: '{one.text}' isn't in {file}: correct one of them"
    for line, picture in prose.pictures:
        yield f"{path}:{line}: no block makes the picture {picture}: show it by a report's view"


def _of_citing(
    document: LedgerDocument, by_path: Mapping[Path, LedgerDocument], untraced: Iterable[Path]
) -> Iterator[str]:
    """What cites results: a number with a link to them stands there."""
    path, prose = document.path, document.prose
    own = document.numbers.union(*(numerals(one.text) for one in prose.given))
    for said in prose.said:
        links = [(path.parent / link.partition("#")[0]).resolve() for link in said.links]
        cited = [by_path[link] for link in links if link in by_path and by_path[link].is_result]
        if any(one.path.resolve() in untraced for one in cited):
            continue
        known = own.union(*(one.numbers for one in cited))
        if (cited or said.surely) and not set(said.numbers) <= known:
            yield _untold(path, said, "neither a block nor a page of results linked beside it does")
    for line, picture in prose.pictures:
        target = (path.parent / picture).resolve()
        if any(
            one.is_result and target.parent == at.with_suffix("") for at, one in by_path.items()
        ):
            yield f"{path}:{line}: no block makes the picture {picture}: show it by a report's view"


def _untold(path: Path, said: Said, why: str) -> str:
    return (
        f"{path}:{said.line}: '{said.text}' looks measured and {why}: take it from stored records,"
        " or say in a comment where it is given"
    )


def _contradictions(documents: Sequence[LedgerDocument]) -> Iterator[str]:
    """Things of which two documents, or two blocks, show different measurements."""
    shown: dict[str, _Shown] = {}
    blocks = [
        (f"{document.path}:{block.line}", block.kind, content)
        for document in documents
        for block, content in zip(document.blocks, document.contents, strict=True)
    ]
    # Those of one run last: they are held against what shows all runs.
    for place, kind, content in sorted(blocks, key=lambda block: block[1] in _OF_ONE_RUN):
        if kind == _OVER_TIME:
            continue
        for key, (words, sources) in _things(content).items():
            places = shown.setdefault(key, _Shown(words)).places
            if kind not in _OF_ONE_RUN or not any(sources < known for known in places.values()):
                places[place] = sources
    for one in shown.values():
        first, *others = one.places
        for other in others:
            if one.places[other] != one.places[first]:
                yield (
                    f"{other}: {one.words}, has other figures than on {first}: make both of the"
                    " same records"
                )


def _things(content: BlockContent) -> dict[str, tuple[str, frozenset[str]]]:
    """What a block shows: in words, and of which measurements.

    A change is found within a repetition: it is no second figure of either case.
    """
    found: dict[str, tuple[str, set[str]]] = {}
    for run in content.runs:
        key, words = thing(run.manifest)
        if content.of_cases:
            found.setdefault(key, (words, set()))[1].add(run.id)
        if content.of_changes:
            found.setdefault(f"change {key}", (f"a change of {words}", set()))[1].add(run.id)
    if content.peers is not None:
        for one in content.peers.runs:
            words = f"{one.program} in {one.case}"
            source = sha256(one.model_dump_json().encode()).hexdigest()
            found.setdefault(words, (words, set()))[1].add(source)
    return {key: (words, frozenset(sources)) for key, (words, sources) in found.items()}


def _contradicted(given: GivenNumber) -> str | None:
    """The published file that a given number's reason names, where it hasn't the number."""
    named = _FILE.search(given.source)
    if named is None:
        return None
    file = resources.files(_PUBLISHED) / named[0]
    cells = file.read_text(encoding="utf-8").replace(",", " ") if file.is_file() else ""
    return None if numerals(given.text) <= numerals(cells) else named[0]


def _too_large(ledger: Ledger) -> Iterator[str]:
    taken = sum(path.stat().st_size for path in ledger.records.rglob("*") if path.is_file())
    if taken > ledger.most_bytes:
        yield (
            f"{ledger.records}: the records take {taken:,} bytes, more than {ledger.most_bytes:,}:"
            " store fewer repetitions, or shorter runs"
        )


def _found(patterns: Sequence[str]) -> list[Path]:
    """The files of patterns, each once.

    Raises:
        SpecError: a pattern finds nothing.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        paths = sorted(Path().glob(pattern))
        if not paths:
            raise SpecError(f"there is no document {pattern}: correct the ledger")
        found |= dict.fromkeys(paths)
    return list(found)
