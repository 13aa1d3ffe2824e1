"""The output of Redis' MONITOR as a trace: what each client sent, with the server's clock.

MONITOR tells neither answers nor what a script's caller waited for. Commands that a script sent are
left out and counted: a replay of the script would send them again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from kvmark import _engine
from kvmark.errors import ImportFileError
from kvmark.trace.folder import HASHED, Keep, TraceInfo, TraceWriter
from kvmark.trace.making import Making

MONITOR: Final = "Redis' MONITOR"

_LINE: Final = re.compile(r'(\d+\.\d+) \[(\d+) ([^\]]*)\]((?: "(?:[^"\\]|\\.)*")+)\s*')
_WORD: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_SIGNS: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}
_BATCH: Final = 1 << 17
_COLUMNS: Final = ("row", "at", "client", "key", "kind", "key_size", "value_size", "ttl", "items")
_CONTENTS: Final = ("key_content", "value_content")


def is_monitor(path: Path) -> bool:
    """Whether a file begins as MONITOR's output does."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = [line for line in islice(file, 2) if line.strip() != "OK"]
    except OSError as problem:
        raise ImportFileError(f"{path} can't be read: {problem.strerror}") from problem
    return bool(first) and _LINE.fullmatch(first[0]) is not None


def import_monitor(
    path: Path, writer: TraceWriter, hash_key: bytes, keep: Keep = HASHED
) -> TraceInfo:
    """Reads a file into a trace.

    Raises:
        ImportFileError: a line isn't one of MONITOR's, with its number.
    """
    making = Making(hash_key, "s", lambda row: f"{path} line {row}", keep=keep)
    scripts = [0]
    for frame in making.frames(_batches(path, scripts)):
        writer.add(frame)
    if not making.rows:
        raise ImportFileError(f"{path} has no operations")
    left = [f"commands that scripts sent are left out: {scripts[0]:,}"] if scripts[0] else []
    return writer.close([*making.told(), "MONITOR tells no answers", *left])


def _batches(path: Path, scripts: list[int]) -> Iterator[pl.DataFrame]:
    """Rows of texts; counts what scripts sent."""
    lines = _rows(path, scripts)
    schema = {"row": pl.Int64, **dict.fromkeys(_COLUMNS[1:-1], pl.String), "items": pl.UInt16}
    schema |= dict.fromkeys(_CONTENTS, pl.Binary)
    while rows := list(islice(lines, _BATCH)):
        yield pl.DataFrame(rows, schema=schema, orient="row")


def _rows(path: Path, scripts: list[int]) -> Iterator[tuple[object, ...]]:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                if line.strip() in {"", "OK"}:
                    continue
                found = _LINE.fullmatch(line)
                if found is None:
                    raise ImportFileError(
                        f"{path} line {number}: this isn't a line of MONITOR, such as"
                        ' 1339518083.107412 [0 127.0.0.1:60866] "get" "x"'
                    )
                at, _, client, words = found.groups()
                if client == "lua":
                    scripts[0] += 1
                    continue
                for said in _said(words):
                    yield (number, at, client, *said)
    except OSError as problem:
        raise ImportFileError(f"{path} can't be read: {problem.strerror}") from problem


def _said(words: str) -> Sequence[_CommandRow]:
    return _redis_command([_bytes(word) for word in _WORD.findall(words)])


def _bytes(word: str) -> bytes:
    """A word without its escapes."""
    if "\\" not in word:
        return word.encode(errors="surrogateescape")

    def plain(found: re.Match[str]) -> str:
        sign = found[1]
        # Bytes beyond ASCII pass as Python writes those that are no text.
        if len(sign) == 3:
            code = int(sign[1:], 16)
            return chr(code) if code < 128 else chr(0xDC00 + code)
        return _SIGNS.get(sign, sign)

    return _ESCAPE.sub(plain, word).encode(errors="surrogateescape")


class _CommandRow(NamedTuple):
    """A row of an operation, as texts; none is what it doesn't say."""

    key: str
    kind: str
    key_size: str
    value_size: str | None
    ttl: str | None
    items: int
    key_content: bytes
    value_content: bytes | None


def _redis_command(words: Sequence[bytes]) -> Sequence[_CommandRow]:
    """The rows of a command of Redis: one for each of its keys, and at least one."""
    places, values, value, ttl_ms = _engine.redis_command(words)
    keys = [words[place] for place in places] or [b""]
    written = b"".join(words[place] for place in values) if values else None
    return [
        _CommandRow(
            # Bytes that are no text are told apart by their code.
            key.decode(errors="backslashreplace"),
            words[0].decode(errors="replace").upper(),
            str(len(key)),
            None if value is None else str(value),
            None if ttl_ms is None else str(ttl_ms / 1000),
            len(keys) if place == 0 else 0,
            key,
            written if place == 0 else None,
        )
        for place, key in enumerate(keys)
    ]
