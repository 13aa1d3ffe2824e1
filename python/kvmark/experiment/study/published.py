"""Published figures of a study's cases, and of ways through proxies, read from CSV files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from kvmark.spec.study import PublishedSpec, StudyFile
from kvmark.spec.yaml_file import read_text

_SPREAD: Final = (
    "mean", "min", "max", "stddev", "median", "p1", "p5", "p10", "p90", "p95", "p99",
)  # fmt: skip
"""The columns of an application's table."""
_WAYS: Final = (
    "proxy", "build", "threads", "ops_per_s", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "memory_mb",
)  # fmt: skip
Place = tuple[str | int, ...]
Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """The published figures of one case."""

    levels: Mapping[str, str]
    figures: dict[str, float] = field(default_factory=dict)
    """Operations or records per second as `throughput`, milliseconds as `p50_ms` and so on."""
    spreads: dict[str, Numbers] = field(default_factory=dict)
    """Rows of an application's table by their names: mean, min and so on over intervals."""
    operations: dict[str, Numbers] = field(default_factory=dict)
    """`mean_us` and `p99_us` of a workload's operations by their names."""
    table: str | None = None
    """The name of the published table."""


def read_published(file: StudyFile) -> tuple[PublishedCase, ...]:
    """The published figures that a study names, in the order of their files.

    Raises:
        SpecError: a file or column is missing, or a figure is no number.
    """
    return tuple(
        case
        for number, spec in enumerate(file.spec.published)
        for case in _read_cases(file, spec, ("published", number))
        if case.figures or case.spreads
    )


def read_published_ways(file: StudyFile) -> tuple[Mapping[str, str], ...]:
    """The published rows of ways through proxies, and of the direct way.

    Raises:
        SpecError: the file, a column or the direct way is missing.
    """
    spec = file.spec.through.published if file.spec.through else None
    if spec is None:
        return ()
    place = ("through", "published", "file")
    columns, rows = _read_rows(file, spec.file, place)
    missing = [name for name in _WAYS if name not in columns]
    if missing or all(row["proxy"] for row in rows):
        what = f"column '{missing[0]}'" if missing else "row without a proxy"
        raise file.document.problem(f"{spec.file} has no {what}", *place)
    return tuple(rows)


def _read_rows(
    file: StudyFile, name: str, place: Place
) -> tuple[Sequence[str], list[Mapping[str, str]]]:
    """The columns and rows of a file beside the study or among kvmark's own."""
    try:
        if file.folder is not None and (file.folder / name).exists():
            text = read_text(file.folder / name)
        else:
            own = resources.files("kvmark").joinpath("published", name)
            text = own.read_text(encoding="utf-8")
    except (OSError, ValueError):
        sentence = f"there is no file {name} beside the study or among kvmark's own"
        raise file.document.problem(sentence, *place) from None
    reader = csv.DictReader(text.splitlines())
    return reader.fieldnames or (), list(reader)


def _read_cases(file: StudyFile, spec: PublishedSpec, place: Place) -> list[PublishedCase]:
    """The cases of a file, in the order of their first rows."""
    columns, rows = _read_rows(file, spec.file, (*place, "file"))
    where = {column: column for column in spec.where}
    named: list[Any] = [
        (key, name, column)
        for key, names in (
            ("factors", spec.factors), ("figures", spec.figures), ("where", where),
            ("operations", spec.operations),
        )
        for name, column in names.items()
    ]  # fmt: skip
    named += [("table", spec.table)] if spec.table is not None else []
    if spec.quantity is not None:
        named += [("quantity", column) for column in (spec.quantity, *_SPREAD)]
    for *key, column in named:
        if column not in columns:
            sentence = f"{spec.file} has no column '{column}'"
            raise file.document.problem(sentence, *place, *key)

    def number(row: Mapping[str, str], column: str, *key: str) -> float:
        try:
            return float(row[column])
        except ValueError:
            sentence = f"{spec.file}: '{row[column]}' in column '{column}' is no number"
            raise file.document.problem(sentence, *place, *key) from None

    cases: dict[tuple[str, ...], PublishedCase] = {}
    for row in rows:
        levels = {name: row[column] for name, column in spec.factors.items()}
        table = row[spec.table] if spec.table else None
        case = cases.setdefault(tuple(levels.values()), PublishedCase(levels, table=table))
        if all(row[column] in values for column, values in spec.where.items()):
            # Several rows of a case add up, such as those of its readers and writers.
            for name, column in spec.figures.items():
                if row[column]:
                    figure = number(row, column, "figures", name)
                    case.figures[name] = case.figures.get(name, 0.0) + figure
        if spec.quantity is not None:
            spread = {name: number(row, name, "quantity") for name in _SPREAD}
            case.spreads[row[spec.quantity]] = spread
        if spec.operations:
            case.operations[row[spec.operations["operation"]]] = {
                name: number(row, column, "operations", name)
                for name, column in spec.operations.items()
                if name != "operation"
            }
    return list(cases.values())
