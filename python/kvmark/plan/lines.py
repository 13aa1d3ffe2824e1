"""The lines of a user's file in the engine's format: each after its length in four bytes.

They are written once and cached under a digest of the file, as tapes are.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from kvmark.cache import tapes_folder
from kvmark.errors import RunError, SpecError
from kvmark.plan.model import LineFile
from kvmark.removal import remove_file
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.workload import LinesFrom

_LARGEST_FILE: Final = 1 << 30
_FORM: Final = 2
"""Increased when the same file gives other lines."""


def line_file(source: LinesFrom, *, are_keys: bool = False) -> LineFile:
    """The lines of a file; keys must be distinct UTF-8 texts.

    Raises:
        SpecError: the file can't be read, or one of its lines can't be a key or value.
        RunError: the lines can't be written to the cache.
    """
    path = Path(source.file)
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise SpecError("cannot be read: it is no regular file", file=source.file)
        status = path.stat()
        if status.st_size > _LARGEST_FILE:
            raise SpecError("is larger than 1 GiB; give a part of it", file=source.file)
        sha256 = _sha256(
            path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )
    except OSError as problem:
        raise SpecError(f"cannot be read: {_reason(problem)}", file=source.file) from problem
    except ValueError as problem:  # a NUL in the path
        raise SpecError(f"{shown(source.file)} is not the name of a file") from problem
    parts = json.dumps([_FORM, sha256, path.name, source.column, are_keys])
    lines = tapes_folder() / f"{hashlib.sha256(parts.encode()).hexdigest()}.lines"
    facts = lines.with_suffix(".lines.json")
    try:
        cached = LineFile.model_validate_json(facts.read_bytes())
        if lines.exists() and cached.path == str(lines):
            return cached
    except (OSError, ValidationError):
        pass
    try:
        count = _write(source, lines, are_keys=are_keys)
        made = LineFile(
            path=str(lines), name=path.name, column=source.column, sha256=sha256, count=count
        )
        facts.write_text(made.model_dump_json())
    except OSError as problem:
        raise RunError(
            f"the lines of {source.file} can't be written to {lines.parent}: {_reason(problem)};"
            " set XDG_CACHE_HOME to a folder with more room"
        ) from problem
    return made


@lru_cache(maxsize=16)
def _sha256(path: Path, *_state: int) -> str:
    """The digest of a file in this state: a study compiles hundreds of plans."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_lines(file: LineFile) -> frozenset[str]:
    """The lines of a file that are keys."""
    content, place, lines = Path(file.path).read_bytes(), 0, set()
    while place < len(content):
        start = place + 4
        place = start + int.from_bytes(content[place:start], "little")
        lines.add(content[start:place].decode())
    return frozenset(lines)


def _write(source: LinesFrom, target: Path, *, are_keys: bool) -> int:
    """Writes the lines, and returns their number."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Other processes may write the same lines.
    partial = target.with_suffix(f".{os.getpid()}")
    seen: dict[bytes, int] = {}
    count = 0
    try:
        with partial.open("wb") as output:
            for number, line in _texts(source) if source.column is None else _cells(source):
                if not line:
                    raise SpecError("is empty; remove the line", file=source.file, line=number)
                if are_keys:
                    _check_key(line, source.file, number, seen.setdefault(line, number))
                output.write(struct.pack("<I", len(line)) + line)
                count += 1
        if not count:
            raise SpecError("has no lines; add some", file=source.file)
        partial.rename(target)
    finally:
        remove_file(partial)
    return count


def _texts(source: LinesFrom) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1."""
    with Path(source.file).open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            yield number, text.removesuffix(b"\n").removesuffix(b"\r")


def _cells(source: LinesFrom) -> Iterator[tuple[int, bytes]]:
    """The cells of a column, with the numbers of the lines on which they end."""
    column = source.column or ""
    with Path(source.file).open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            names = next(rows, [])
            if column not in names:
                hint = did_you_mean(column, names)
                raise SpecError(f"no column {shown(column)}{hint}", file=source.file, line=1)
            place = names.index(column)
            for row in filter(None, rows):
                yield rows.line_num, row[place].encode() if place < len(row) else b""
        except UnicodeDecodeError as problem:
            raise SpecError("is not UTF-8 text", file=source.file) from problem
        except csv.Error as problem:
            line = rows.line_num
            raise SpecError(f"not CSV: {problem}", file=source.file, line=line) from problem


def _check_key(line: bytes, file: str, number: int, first: int) -> None:
    if first != number:
        text = f"{shown(line.decode(errors='replace'))} is on line {first}, too; keys must differ"
        raise SpecError(text, file=file, line=number)
    try:
        line.decode()
    except UnicodeDecodeError as problem:
        raise SpecError("is not UTF-8 text", file=file, line=number) from problem


def _reason(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()
