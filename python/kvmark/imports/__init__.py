"""Other tools' results, read into runs. One file per format, one registry.

`read_file` recognises a file by its content and reads all of it or refuses it with a sentence;
`keep` makes runs of such files, of all or of none. What a file doesn't say stays unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvmark.imports.reading import Format, Reading
from kvmark.imports.registry import FORMATS, recognise
from kvmark.imports.source import Source, read_source
from kvmark.imports.writing import TAG, Import, keep

__all__ = [
    "FORMATS", "TAG", "Format", "Import", "ReadFile", "Reading", "Source", "keep", "read_file",
]  # fmt: skip


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
