r"""YCSB's properties as text: property files, the parsers of values, and unsupported properties.

Files are parsed like `java.util.Properties`: the text is ISO 8859-1; a line whose first visible
character is `#` or `!` is a comment; an odd number of backslashes at a line's end continues it on
the next, whose leading blanks are dropped; the key ends at the first unescaped `=`, `:` or blank;
`\t`, `\n`, `\r`, `\f` and `\uXXXX` are escapes, any other escaped character is itself.

A value parser raises `SpecError` for an invalid value and `UnsupportedProperty` for a value that
only YCSB supports. The caller adds the place.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from kvmark.errors import SpecError, UnsupportedProperty
from kvmark.spec.quantity import LARGEST
from kvmark.spec.suggest import did_you_mean, is_text, shown

LARGEST_INT: Final = 2**31 - 1

_T = TypeVar("_T")

_BLANKS: Final = " \t\f"
_ENDING: Final = re.compile(r"\r\n|\r|\n")
_CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_KEY: Final = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.|\Z)", re.DOTALL)
_HEX: Final = re.compile(r"u[0-9A-Fa-f]{4}", re.ASCII)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Property:
    """A property and its place."""

    name: str
    value: str
    file: str
    """The file, or the option of the command line."""
    line: int | None = None

    def error(self, message: str) -> SpecError:
        """An error about this property."""
        return SpecError(message, file=self.file, line=self.line)


def read_properties(path: Path) -> tuple[Property, ...]:
    """The properties of a file, in order.

    Raises:
        SpecError: the file can't be read, is too large or has an invalid escape.
    """
    # Loaded on use: completion and help need no property file.
    from kvmark.spec.yaml_file import read_small

    return parse_properties(read_small(path).decode("iso-8859-1"), str(path))


def parse_properties(text: str, file: str) -> tuple[Property, ...]:
    """The properties of a text, in order; a name may occur twice."""
    properties = []
    for line, logical in _logical_lines(text):
        key = next(_KEY.finditer(logical))
        try:
            name, value = _unescaped(key["key"]), _unescaped(logical[key.end() :])
        except SpecError as problem:
            raise problem.at(file=file, line=line) from None
        properties.append(Property(name, value, file, line))
    return tuple(properties)


def parse_assignment(text: str) -> Property:
    """`key=value` of `-p`; everything after the first `=` is the value."""
    name, equals, value = text.partition("=")
    if not equals or not name or not is_text(text):
        raise SpecError(f"-p {shown(text)} is not an assignment; write -p key=value")
    return Property(name, value, "-p")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Continued lines joined, without leading blanks, each with the number of its first line."""
    lines = enumerate(_ENDING.split(text), start=1)
    for number, physical in lines:
        line = physical.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _CONTINUED.search(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, line


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


def text(value: str) -> str:
    """A text that is not empty."""
    if not value:
        raise SpecError("must not be empty")
    return value


def integer(low: int, high: int = LARGEST) -> Callable[[str], int]:
    """A whole number from `low` to `high`, both included."""

    def parse(value: str) -> int:
        plain = value.strip()
        if not _INTEGER.fullmatch(plain):
            raise SpecError(f"must be a whole number, not {shown(value)}")
        if not low <= int(plain) <= high:
            raise SpecError(f"must be a whole number from {low} to {high}, not {shown(value)}")
        return int(plain)

    return parse


def number(low: float, high: float = math.inf) -> Callable[[str], float]:
    """A finite decimal number from `low` to `high`, both included."""

    def parse(value: str) -> float:
        plain = value.strip()
        if not _NUMBER.fullmatch(plain) or not math.isfinite(float(plain)):
            raise SpecError(f"must be a number, not {shown(value)}")
        if not low <= float(plain) <= high:
            bound = f"not be below {low:g}" if high == math.inf else f"be from {low:g} to {high:g}"
            raise SpecError(f"must {bound}, not {shown(value)}")
        return float(plain)

    return parse


def boolean(value: str) -> bool:
    """`true` or `false`; YCSB silently reads any other value as false."""
    plain = value.strip().lower()
    if plain not in ("true", "false"):
        raise SpecError(f"must be true or false, not {shown(value)}")
    return plain == "true"


def choice(*values: str, reason: str = "") -> Callable[[str], str]:
    """One of several values; the reason is why others of YCSB's aren't supported."""

    def parse(value: str) -> str:
        plain = value.strip()
        if plain in values:
            return plain
        if reason:
            raise UnsupportedProperty(f"is not supported with the value {shown(plain)}: {reason}")
        raise SpecError(f"has no value {shown(plain)}{did_you_mean(plain, values)}")

    return parse


def percentiles(value: str) -> tuple[float, ...]:
    """Percentiles separated by commas, above 0 and up to 100."""
    parsed = tuple(map(number(0, 100), value.split(",")))
    if not all(parsed):
        raise SpecError("must be percentiles above 0")
    return parsed


def read_length_histogram(name: str) -> tuple[int, tuple[int, ...]]:
    """Block size and bucket weights of YCSB's histogram file.

    The first line is `BlockSize`, a tab and the size; each further line is a bucket's number, from
    0 upwards, a tab and its weight.
    """
    try:
        lines = Path(name).read_text("utf-8").splitlines()
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecError(f"names the file {shown(name)}, which cannot be read: {reason}") from None
    except ValueError:
        raise SpecError(f"names the file {shown(name)}, which is not text") from None
    rows = [line.split("\t") for line in lines]
    if not rows or len(rows[0]) != 2 or rows[0][0] != "BlockSize":
        raise SpecError("the first line must be BlockSize, a tab and a number", file=name, line=1)
    block_size = _in_line(integer(1, LARGEST_INT), rows[0][1], name, 1)
    weights = []
    for bucket, row in enumerate(rows[1:]):
        if len(row) != 2 or row[0].strip() != str(bucket):
            message = f"the line must be {bucket}, a tab and the bucket's weight"
            raise SpecError(message, file=name, line=bucket + 2)
        weights.append(_in_line(integer(0, LARGEST_INT), row[1], name, bucket + 2))
    if not any(weights):
        raise SpecError("one of the buckets must have a weight above 0", file=name)
    return block_size, tuple(weights)


def _in_line(parse: Callable[[str], _T], value: str, file: str, line: int) -> _T:
    try:
        return parse(value)
    except SpecError as problem:
        raise SpecError(f"the number {problem.message}", file=file, line=line) from None


_DECLARED: Final = tomllib.loads((files(__package__) / "properties.toml").read_text("utf-8"))
_TYPES: Final[Mapping[str, Callable[[str], object]]] = {
    "boolean": boolean,
    "text": str,
    "whole": integer(0, LARGEST_INT),
    "positive": integer(1, LARGEST_INT),
}
ALWAYS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {name: _TYPES[kind] for name, kind in _DECLARED["without_effect"].items()}
    | {
        name: choice(*one["values"], reason=one["reason"])
        for name, one in _DECLARED["only"].items()
    }
)
"""Properties whose accepted values all request kvmark's fixed behaviour."""
REFUSED: Final[Mapping[str, str]] = _DECLARED["unsupported"]
"""Unsupported properties, and why."""
REFUSED_PREFIXES: Final[Mapping[str, str]] = _DECLARED["unsupported_prefixes"]
CORE_WORKLOADS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        letter: {name: str(value) for name, value in (_DECLARED["common"] | workload).items()}
        for letter, workload in _DECLARED["workloads"].items()
    }
)
"""The properties of YCSB's six core workloads."""
STEPS: Final = ("load", *CORE_WORKLOADS, "delete", "run")
"""The steps of a sequence; `run` executes the transactions that the properties describe."""
