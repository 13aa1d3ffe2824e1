"""Recognises a file of another tool's results by its content, and reads all of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from kvmark.frontends import front_ends
from kvmark.imports.db_bench import DB_BENCH
from kvmark.imports.hdr_log import HDR_LOG
from kvmark.imports.latte import LATTE
from kvmark.imports.memtier import MEMTIER
from kvmark.imports.reading import Collector, Format
from kvmark.imports.source import Source, read_source
from kvmark.imports.tables import REDIS_BENCHMARK, TABLE

_OF_CORE: Final = (MEMTIER, LATTE, REDIS_BENCHMARK, DB_BENCH, HDR_LOG)


@cache
def formats() -> tuple[Format, ...]:
    """All formats in the order in which they are looked for, tables last."""
    of_front_ends = (one for front_end in front_ends() for one in front_end.formats())
    return (*of_front_ends, *_OF_CORE, TABLE)


def read_file(path: Path) -> Collector:
    """Reads a file of another tool's results.

    Raises:
        ImportFileError: it can't be read, is of no known kind, or isn't whole.
    """
    source = read_source(path)
    return recognise(source).read(source)


def recognise(source: Source) -> Format:
    """The format of a file.

    Raises:
        ImportFileError: it is none of them, or more than one.
    """
    whole = next((each for each in formats() if each.is_json and each.begins(source)), None)
    if whole is not None:
        return whole
    texts = [each for each in formats() if not each.is_json] if source.document is None else []
    begins = {each: line for each in texts if (line := each.begins(source)) is not None}
    # A tool's own CSV is a table too.
    if begins.get(TABLE) in [line for each, line in begins.items() if each is not TABLE]:
        del begins[TABLE]
    if not begins:
        *names, last = (each.name for each in formats())
        message = f"it is of no known kind: known are {', '.join(names)} and {last}"
        raise source.error(1, message)
    first, *others = sorted(begins, key=lambda each: begins[each])
    if others:
        message = f"{others[0].name} begins here inside {first.name}: import one result per file"
        raise source.error(begins[others[0]], message)
    return first
