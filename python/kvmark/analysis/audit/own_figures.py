"""A tool's own figures beside those of the tap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kvmark.analysis.audit.observed import ALL
from kvmark.analysis.summary.imported import ImportedRow, imported_rows
from kvmark.records import ImportedRecord
from kvmark.records.audit import ComparedFigures
from kvmark.records.model import TIMES

_NAME: Final = re.compile(r"[A-Za-z]+")
_VERBS: Final = {"READ": ("SELECT",), "WRITE": ("INSERT", "UPDATE")}
"""The verbs of CQL by the operations of cassandra-stress."""


def with_own_figures(
    figures: Sequence[ComparedFigures], imported: ImportedRecord
) -> tuple[ComparedFigures, ...]:
    """The tap's figures with those that the tool gives, by commands; its others last."""
    rows = [row for row in imported_rows(imported) if row.throughput or row.times_ns]
    names = {one.name for one in figures}
    found: dict[str, ImportedRow] = {}
    by_operation = any(row.operation for row in rows)
    one_case = len({tuple(row.labels.items()) for row in rows}) == 1
    for row in rows:
        is_all = one_case and by_operation and not row.operation
        found.setdefault(ALL if is_all else _name(row, names), row)
    if len(rows) == 1:
        found.setdefault(ALL, rows[0])
    known = [_with(one, found[one.name]) if one.name in found else one for one in figures]
    others = (name for name in found if name not in names)
    empty = (ComparedFigures(name, None, None, None) for name in others)
    return (*known, *(_with(one, found[one.name]) for one in empty))


def _name(row: ImportedRow, names: Iterable[str]) -> str:
    """The tap's name for an operation or a case: `GET` of `Gets` and of `GET (10 keys)`."""
    text = row.operation or " ".join(row.labels.values())
    if not text:
        return ALL
    word = _NAME.match(text)
    verb = word[0].upper() if word else text
    verbs = (verb, verb.removesuffix("S"), *_VERBS.get(verb, ()))
    return next((one for one in verbs if one in names), text)


def _with(figures: ComparedFigures, row: ImportedRow) -> ComparedFigures:
    times = next((row.times_ns[time] for time in reversed(TIMES) if time in row.times_ns), {})
    return replace(
        figures,
        own_rate=row.throughput,
        own_p50_ns=times.get("p50"),
        own_p99_ns=times.get("p99"),
    )
