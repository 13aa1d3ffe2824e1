"""What the text of a CQL statement says of its key, and of what it writes, without a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

__all__ = ["CqlStatement", "statement_of"]

Where: TypeAlias = int | bytes
"""The number of a bound value, or what the text itself says."""

_TOKEN: Final = re.compile(
    r"""\s+ | --[^\n]* | //[^\n]* | /\*.*?\*/
    | (?P<text>'(?:[^']|'')*'|\$\$.*?\$\$) | (?P<mark>\?|:\w+)
    | (?P<name>"(?:[^"]|"")+"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|-?[\w.]+)
    | (?P<sign>[<>!]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {"SELECT": "read", "INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_ENDS: Final = frozenset({"IF", "ORDER", "GROUP", "LIMIT", "PER", "ALLOW", "USING", ";"})
"""What ends a WHERE clause."""
_SYSTEM: Final = ("system.", "system_")
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class CqlStatement:
    """A statement about the records of a table."""

    kind: str
    table: str
    equal: Mapping[str, Where]
    """Columns that must be, or become, one value, in the order of the text."""
    written: Sequence[tuple[str, Where]]
    ttl: Where | None
    is_conditional: bool
    marks: int
    """Places for bound values."""


class _Token(NamedTuple):
    word: str
    """As it is compared: names without quotes and case, signs as they are."""
    where: Where | None
    """Of a value."""
    depth: int
    """How many brackets are open."""


@lru_cache(maxsize=4096)
def statement_of(text: str) -> CqlStatement | str:
    """What a statement says; the name of one that isn't about records whose key it says."""
    tokens = list(_tokens(text))
    verb = tokens[0].word.upper() if tokens else "nothing"
    if verb not in _KINDS:
        return verb
    words = [token.word.upper() if token.depth == 0 else "" for token in tokens]
    name = {"INSERT": "INTO", "UPDATE": "UPDATE"}.get(verb, "FROM")
    if name not in words or words.index(name) + 1 >= len(tokens):
        return f"{verb} that can't be read"
    place = words.index(name) + 1
    table = tokens[place].word
    if words[place + 1 : place + 2] == ["."]:
        table = f"{table}.{''.join(token.word for token in tokens[place + 2 : place + 3])}"
        place += 2
    if table.startswith(_SYSTEM):
        return "queries of the system's own tables"
    ttl, marks = _ttl(tokens, words), sum(token.word == "?" for token in tokens)
    is_conditional = "IF" in words
    if verb == "INSERT":
        pairs = _inserted(tokens, words, place + 1)
        if pairs is None:
            return "INSERT of JSON" if "JSON" in words else "INSERT that can't be read"
        return CqlStatement("insert", table, dict(pairs), pairs, ttl, is_conditional, marks)
    if "WHERE" not in words:
        return f"{verb} without WHERE"
    at = words.index("WHERE")
    ends = [number for number in range(at, len(words)) if words[number] in _ENDS]
    clause = tokens[at + 1 : ends[0] if ends else None]
    equal = dict(_equalities(clause, "AND"))
    written: list[tuple[str, Where]] = []
    if verb == "UPDATE" and "SET" in words:
        written = list(_equalities(tokens[words.index("SET") + 1 : at], ","))
    return CqlStatement(_KINDS[verb], table, equal, written, ttl, is_conditional, marks)


def _tokens(text: str) -> Iterator[_Token]:
    marks = depth = 0
    for found in _TOKEN.finditer(text):
        kind, word = found.lastgroup, found[0]
        if kind is None:
            continue
        if word in _CLOSE:
            depth -= 1
        if kind == "mark":
            yield _Token("?", marks, depth)
            marks += 1
        elif kind == "text":
            quoted = word[2:-2] if word[0] == "$" else word[1:-1].replace("''", "'")
            yield _Token("", quoted.encode(errors="surrogateescape"), depth)
        elif kind == "name":
            plain = word[1:-1].replace('""', '"') if word[0] == '"' else word.lower()
            yield _Token(plain, plain.encode(errors="surrogateescape"), depth)
        else:
            yield _Token(word, None, depth)
        if word in _OPEN:
            depth += 1


def _equalities(tokens: Sequence[_Token], between: str) -> Iterator[tuple[str, Where]]:
    """Columns that are said to be one value: a place for one, or a constant."""
    for part in _divided(tokens, between):
        if len(part) == 3 and part[1].word == "=" and part[2].where is not None:
            yield part[0].word, part[2].where
        elif between == ",":
            # As in SET tags = tags + ?: what is bound there is written, too.
            for token in part[1:]:
                if isinstance(token.where, int):
                    yield part[0].word, token.where


def _inserted(
    tokens: Sequence[_Token], words: Sequence[str], place: int
) -> list[tuple[str, Where]] | None:
    """Columns of an INSERT with their values; None where it has another form."""
    if "VALUES" not in words[place:]:
        return None
    at = words.index("VALUES", place)
    columns = _divided(_bracketed(tokens[place:at]), ",")
    values = _divided(_bracketed(tokens[at + 1 :]), ",")
    if len(columns) != len(values) or not all(len(column) == 1 for column in columns):
        return None
    pairs: list[tuple[str, Where]] = []
    for (column,), value in zip(columns, values, strict=True):
        bound = [token.where for token in value if isinstance(token.where, int)]
        constant = b"".join(token.where for token in value if isinstance(token.where, bytes))
        pairs += [(column.word, where) for where in bound] or [(column.word, constant)]
    return pairs


def _bracketed(tokens: Sequence[_Token]) -> Sequence[_Token]:
    """What stands in the brackets with which the tokens begin."""
    if not tokens or tokens[0].word != "(":
        return ()
    outside = tokens[0].depth
    inside = []
    for token in tokens[1:]:
        if token.depth == outside:
            break
        inside.append(token)
    return inside


def _divided(tokens: Sequence[_Token], between: str) -> list[list[_Token]]:
    """Parts between words that stand in no further brackets."""
    parts: list[list[_Token]] = [[]]
    least = min((token.depth for token in tokens), default=0)
    for token in tokens:
        if token.depth == least and token.word.upper() == between:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _ttl(tokens: Sequence[_Token], words: Sequence[str]) -> Where | None:
    """The time to live behind USING."""
    if "USING" not in words:
        return None
    behind = words.index("USING")
    places = [number for number in range(behind, len(words) - 1) if words[number] == "TTL"]
    return tokens[places[0] + 1].where if places else None
