r"""Java property files, read as `java.util.Properties` reads them, with the line of each value.

The rules, from the class's documentation: the text is ISO 8859-1; a line whose first visible
character is `#` or `!` is a comment; an odd number of backslashes at a line's end continues it on
the next, whose leading blanks are dropped; the key ends at the first unescaped `=`, `:` or blank;
`\t`, `\n`, `\r`, `\f` and `\uXXXX` are escapes, any other escaped character is itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.errors import SpecError
from kvmark.spec.suggest import is_text, shown

LARGEST_FILE: Final = 1 << 20

_BLANKS: Final = " \t\f"
_ENDING: Final = re.compile(r"\r\n|\r|\n")
_BACKSLASHES: Final = re.compile(r"\\*\Z")
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.|\Z)", re.DOTALL)
_HEX: Final = re.compile(r"u[0-9A-Fa-f]{4}", re.ASCII)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class Given:
    """One property as it was given, and where."""

    name: str
    value: str
    file: str
    """The file, or the option of the command line."""
    line: int | None = None

    def error(self, sentence: str) -> SpecError:
        """A complaint about this property."""
        return SpecError(sentence, file=self.file, line=self.line)


def read_properties(path: Path) -> tuple[Given, ...]:
    """The properties of a file, in order."""
    try:
        raw = path.read_bytes()
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(f"cannot be read: {reason}", file=str(path)) from problem
    except ValueError as problem:  # a NUL in the path
        raise SpecError(f"{shown(str(path))} is not the name of a file") from problem
    if len(raw) > LARGEST_FILE:
        raise SpecError("is larger than 1 MiB, which no property file is", file=str(path))
    return parse_properties(raw.decode("iso-8859-1"), str(path))


def parse_properties(text: str, file: str) -> tuple[Given, ...]:
    """The properties in a text, in order; a name given twice appears twice."""
    return tuple(_property(logical, file, line) for line, logical in _logical_lines(text))


def parse_assignment(text: str, option: str = "-p") -> Given:
    """`key=value` from the command line; everything after the first `=` is the value."""
    name, equals, value = text.partition("=")
    if not equals or not name or not is_text(text):
        raise SpecError(f"{option} {shown(text)} is not an assignment; write {option} key=value")
    return Given(name, value, option)


def merged(files: Sequence[Sequence[Given]], assigned: Sequence[Given]) -> dict[str, Given]:
    """What holds in the end: later files win over earlier ones, the command line over all."""
    everything = [given for file in files for given in file]
    return {given.name: given for given in [*everything, *assigned]}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines without leading blanks, and the number of the line each begins on."""
    lines = _ENDING.split(text)
    index = 0
    while index < len(lines):
        first, line = index, lines[index].lstrip(_BLANKS)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if index == len(lines):
                break
            line += lines[index].lstrip(_BLANKS)
            index += 1
        yield first + 1, line


def _continues(line: str) -> bool:
    backslashes = _BACKSLASHES.search(line)
    return backslashes is not None and len(backslashes[0]) % 2 == 1


def _property(logical: str, file: str, line: int) -> Given:
    key = _KEY.match(logical)
    end = key.end() if key else 0
    separator = _SEPARATOR.match(logical, end)
    rest = logical[separator.end() :] if separator else ""
    try:
        return Given(_unescaped(logical[:end]), _unescaped(rest), file, line)
    except SpecError as problem:
        raise problem.at(file=file, line=line) from None


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(_character, text)
    try:
        # Escapes are UTF-16 units, so a character above U+FFFF is written as two.
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise SpecError("an escape is half of a surrogate pair; write both halves") from None


def _character(escape: re.Match[str]) -> str:
    body: str = escape[1]
    if not body.startswith("u"):
        return _CONTROL.get(body, body)
    if not _HEX.fullmatch(body):
        raise SpecError(f"the escape {shown(escape[0])} is not \\u and four hexadecimal digits")
    return chr(int(body[1:], 16))
