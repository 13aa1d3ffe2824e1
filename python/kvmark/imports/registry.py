"""Every format that is read, and which one a file is: told from its content, never its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvmark.imports.cassandra_stress import CASSANDRA_STRESS
from kvmark.imports.db_bench import DB_BENCH
from kvmark.imports.hdr_log import HDR_LOG
from kvmark.imports.latte import LATTE
from kvmark.imports.memtier import MEMTIER
from kvmark.imports.reading import Format
from kvmark.imports.redis_benchmark import REDIS_BENCHMARK
from kvmark.imports.source import Source
from kvmark.imports.tables import TABLE
from kvmark.imports.yb_console import YB_CONSOLE
from kvmark.imports.ycsb_json import YCSB_JSON
from kvmark.imports.ycsb_text import YCSB_TEXT

__all__ = ["FORMATS", "recognise"]

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
