"""Figures that somebody else published for a study's cases, read from files of columns."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, Final

from kvmark.spec.study import PublishedSpec, StudyFile
from kvmark.spec.yaml_file import read_text

_SPREAD: Final = (
    "mean", "min", "max", "stddev", "median", "p1", "p5", "p10", "p90", "p95", "p99",
)  # fmt: skip
"""The columns of an application's table."""
Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """The figures of one case."""

    levels: Mapping[str, str]
    figures: Numbers
    """Operations or records per second as `throughput`, milliseconds as `p50_ms` and so on."""
    spreads: Mapping[str, Numbers] = field(default_factory=dict)
    """Rows of an application's table by their names: mean, min and so on over intervals."""
    operations: Mapping[str, Numbers] = field(default_factory=dict)
    """`mean_us` and `p99_us` of a workload's operations by their names."""
    table: str | None = None
    """The name of the published table in which it stands."""


def read_published(file: StudyFile) -> tuple[PublishedCase, ...]:
    """The published figures that a study names, in the order of their files.

    Raises:
        SpecError: there is no such file or column, or a figure is no number.
    """
    tables = enumerate(file.spec.published)
    return tuple(case for number, asked in tables for case in _Table(file, asked, number).cases())


@dataclass(frozen=True, slots=True)
class _Table:
    """One of the files."""

    file: StudyFile
    asked: PublishedSpec
    number: int

    def cases(self) -> tuple[PublishedCase, ...]:
        """The cases in the order in which they first stand in the file."""
        reader = csv.DictReader(self._text().splitlines())
        self._check(tuple(reader.fieldnames or ()))
        found: dict[tuple[str, ...], PublishedCase] = {}
        for row in reader:
            levels = {name: row[column] for name, column in self.asked.factors.items()}
            place = tuple(levels.values())
            case = found.get(place, PublishedCase(levels, {}))
            found[place] = replace(
                case,
                figures=self._added(case, row),
                spreads=self._spreads(case, row),
                operations=self._operations(case, row),
                table=row[self.asked.table] if self.asked.table else None,
            )
        return tuple(case for case in found.values() if case.figures or case.spreads)

    def _check(self, columns: tuple[str, ...]) -> None:
        asked = self.asked
        named: list[tuple[tuple[str, ...], str]] = [
            *((("factors", name), column) for name, column in asked.factors.items()),
            *((("figures", name), column) for name, column in asked.figures.items()),
            *((("where", column), column) for column in asked.where),
            *((("operations", name), column) for name, column in asked.operations.items()),
        ]
        if asked.table is not None:
            named.append((("table",), asked.table))
        if asked.quantity is not None:
            wanted = (asked.quantity, *_SPREAD)
            named += [(("quantity",), column) for column in wanted]
        for key, column in named:
            if column not in columns:
                raise self._problem(f"{asked.file} has no column '{column}'", *key)

    def _added(self, case: PublishedCase, row: Mapping[str, str]) -> Numbers:
        """The case's figures and a row's: such as those of its readers and of its writers."""
        asked = self.asked
        if not all(row[column] in values for column, values in asked.where.items()):
            return case.figures
        figures = dict(case.figures)
        for name, column in asked.figures.items():
            if row[column]:
                figures[name] = figures.get(name, 0.0) + self._number(row, column, "figures", name)
        return figures

    def _spreads(self, case: PublishedCase, row: Mapping[str, str]) -> Mapping[str, Numbers]:
        """The case's rows of the application's table, and this one."""
        quantity = self.asked.quantity
        if quantity is None:
            return case.spreads
        numbers = {name: self._number(row, name, "quantity") for name in _SPREAD}
        return {**case.spreads, row[quantity]: numbers}

    def _operations(self, case: PublishedCase, row: Mapping[str, str]) -> Mapping[str, Numbers]:
        """The times of the case's operations, and those of this row's."""
        columns = self.asked.operations
        if not columns:
            return case.operations
        times: dict[str, float] = {
            name: self._number(row, column, "operations", name)
            for name, column in columns.items()
            if name != "operation"
        }
        return {**case.operations, row[columns["operation"]]: times}

    def _number(self, row: Mapping[str, str], column: str, *key: str) -> float:
        try:
            return float(row[column])
        except ValueError:
            sentence = f"{self.asked.file}: '{row[column]}' in column '{column}' is no number"
            raise self._problem(sentence, *key) from None

    def _text(self) -> str:
        folder, name = self.file.folder, self.asked.file
        if folder is not None and (folder / name).exists():
            return read_text(folder / name)
        try:
            own = resources.files("kvmark").joinpath("published", name)
            return own.read_text(encoding="utf-8")
        except (OSError, ValueError):
            sentence = f"there is no file {name} beside the study or among kvmark's own"
            raise self._problem(sentence, "file") from None

    def _problem(self, sentence: str, *key: str) -> Any:
        return self.file.document.problem(sentence, "published", self.number, *key)
