"""What a profile's CREATE TABLE and CREATE TYPE say of columns and their types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kvmark.errors import SpecError
from kvmark.spec.suggest import shown

_NAME: Final = r'"[^"]+"|\w+'
_HEAD: Final = rf"\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:(?:{_NAME})\s*\.\s*)?({_NAME})\s*\((.*)\)"
_TABLE: Final = re.compile(rf"\s*CREATE\s+(?:TABLE|COLUMNFAMILY){_HEAD}", re.IGNORECASE | re.DOTALL)
_TYPE: Final = re.compile(rf"\s*CREATE\s+TYPE{_HEAD}", re.IGNORECASE | re.DOTALL)
_CREATE: Final = re.compile(
    r"\s*(CREATE\s+(?:KEYSPACE|TABLE|COLUMNFAMILY|TYPE|(?:CUSTOM\s+)?INDEX|MATERIALIZED\s+VIEW))"
    r"\s+(?!IF\s+NOT\s+EXISTS)",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(r"--[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Type:
    """A type of CQL: its name in lower case, and those it is made of."""

    name: str
    of: tuple[Type, ...] = ()
    frozen: bool = False
    """Whether it can be written only whole."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns in order, and which of them are the key."""

    name: str
    columns: Mapping[str, Type]
    partition: tuple[str, ...]
    clustering: tuple[str, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that aren't part of the key, in the order that Cassandra has them in."""
        return tuple(sorted(self.columns.keys() - {*self.partition, *self.clustering}))


def create_if_missing(text: str) -> str:
    """The statement, so that it does nothing where its object is there already."""
    return _CREATE.sub(r"\1 IF NOT EXISTS ", text.strip().rstrip(";"), count=1)


def read_table(text: str) -> Table:
    """The table that a statement creates.

    Raises:
        SpecError: it creates none, or none that can be read.
    """
    match = _TABLE.match(_COMMENT.sub(" ", text))
    if match is None:
        raise SpecError("table_definition must be a CREATE TABLE statement")
    columns: dict[str, Type] = {}
    partition: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    for part in _parts(_first_group(match[2])):
        key = re.match(r"PRIMARY\s+KEY\s*\((.*)\)\s*$", part, re.IGNORECASE | re.DOTALL)
        if key is not None:
            partition, clustering = _key(key[1])
            continue
        name, kind = _column(part)
        own = re.search(r"\s+PRIMARY\s+KEY\s*$", kind, re.IGNORECASE)
        if own is not None:
            kind, partition = kind[: own.start()], (name,)
        columns[name] = _type(re.sub(r"\s+STATIC\s*$", "", kind, flags=re.IGNORECASE))
    for name in (*partition, *clustering):
        if name not in columns:
            raise SpecError(f"table_definition: the key's {shown(name)} is not one of its columns")
    if not partition:
        raise SpecError("table_definition names no PRIMARY KEY")
    return Table(_bare(match[1]), columns, partition, clustering)


def read_types(texts: tuple[str, ...]) -> Mapping[str, Mapping[str, Type]]:
    """The user-defined types that statements create: the fields of each."""
    types: dict[str, Mapping[str, Type]] = {}
    for text in texts:
        match = _TYPE.match(_COMMENT.sub(" ", text))
        if match is not None:
            fields = map(_column, _parts(_first_group(match[2])))
            types[_bare(match[1])] = {name: _type(kind) for name, kind in fields}
    return types


def _first_group(text: str) -> str:
    """The text up to the parenthesis that closes what it stands in."""
    depth = 0
    for place, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth < 0:
            return text[:place]
    return text


def _parts(text: str) -> Iterator[str]:
    """What commas separate that stand in no brackets."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()


def _column(text: str) -> tuple[str, str]:
    match = re.match(rf"({_NAME})\s+(.+)$", text, re.DOTALL)
    if match is None:
        raise SpecError(f"{shown(text)} is not a column and its type")
    return _bare(match[1]), match[2].strip()


def _key(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    first, *rest = _parts(text)
    inner = first[1:-1] if first.startswith("(") else first
    partition = tuple(_bare(name) for name in _parts(inner))
    return partition, tuple(map(_bare, rest))


def _type(text: str) -> Type:
    name, bracket, rest = text.strip().partition("<")
    if not bracket:
        return Type(_bare(name.strip()))
    inner = tuple(map(_type, _parts(rest.rsplit(">", 1)[0])))
    if name.strip().lower() == "frozen":
        return replace(inner[0], frozen=True)
    return Type(name.strip().lower(), inner)


def _bare(name: str) -> str:
    """A name as Cassandra keeps it: lower case unless quoted."""
    name = name.strip()
    return name[1:-1] if name.startswith('"') else name.rpartition(".")[2].lower()
