"""Other tools' results, read into runs. One file per format, one registry.

`read_file` recognises a file by its content and reads all of it or refuses it with a sentence;
`keep` makes runs of such files, of all or of none. What a file doesn't say stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.imports.cassandra_stress import CASSANDRA_STRESS
from kvmark.imports.db_bench import DB_BENCH
from kvmark.imports.hdr_log import HDR_LOG
from kvmark.imports.latte import LATTE
from kvmark.imports.memtier import MEMTIER
from kvmark.imports.reading import Format, Reading
from kvmark.imports.source import Source, read_source
from kvmark.imports.tables import REDIS_BENCHMARK, TABLE
from kvmark.imports.writing import TAG, Import, keep
from kvmark.imports.yb_console import YB_CONSOLE
from kvmark.imports.ycsb import YCSB_JSON, YCSB_TEXT

__all__ = [
    "FORMATS",
    "TAG",
    "Format",
    "Import",
    "ReadFile",
    "Reading",
    "Source",
    "keep",
    "read_file",
    "recognise",
]

_JSON: Final = (YCSB_JSON, MEMTIER, LATTE)
_TEXT: Final = (
    YCSB_TEXT,
    CASSANDRA_STRESS,
    YB_CONSOLE,
    REDIS_BENCHMARK,
    DB_BENCH,
    HDR_LOG,
)

FORMATS: Final[tuple[Format, ...]] = (*_JSON, *_TEXT, TABLE)
"""In the order in which the guide names them."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file, what it was recognised as, and what it said."""

    source: Source
    kind: Format
    reading: Reading


def read_file(path: Path) -> ReadFile:
    """Reads a file of another tool's results.

    Raises:
        ImportFileError: it can't be read, is of no known kind, or isn't whole.
    """
    source = read_source(path)
    kind = recognise(source)
    return ReadFile(source, kind, kind.read(source))


def recognise(source: Source) -> Format:
    """The format of a file.

    Raises:
        ImportFileError: it is none of them, or more than one.
    """
    found = sorted(_begins(source), key=lambda each: each[0])
    if not found:
        names = ", ".join(each.name for each in FORMATS[:-1])
        message = f"it is of no known kind: known are {names} and {FORMATS[-1].name}"
        raise source.error(1, message)
    if len(found) > 1:
        (_, first), (line, second) = found[:2]
        message = f"{second.name} begins here inside {first.name}: import one result per file"
        raise source.error(line, message)
    return found[0][1]


def _begins(source: Source) -> Iterator[tuple[int, Format]]:
    """The formats that are in a file, with the lines where they begin."""
    if YCSB_JSON.begins(source) is not None:
        yield 1, YCSB_JSON
        return
    formats = _TEXT if source.document is None else _JSON
    found = [(line, each) for each in formats if (line := each.begins(source)) is not None]
    yield from found
    # A tool's own CSV is a table too.
    line = TABLE.begins(source)
    if line is not None and line not in {begin for begin, _ in found}:
        yield line, TABLE
