"""Figures that somebody else published for a study's cases, read from a file of columns."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from kvmark.spec.study import PublishedSpec, StudyFile
from kvmark.spec.yaml_file import read_text

__all__ = ["PublishedCase", "read_published"]


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """The figures of one case."""

    levels: Mapping[str, str]
    figures: Mapping[str, float]
    """Operations or records per second as `throughput`, milliseconds as `p50_ms` and so on."""


def read_published(file: StudyFile) -> tuple[PublishedCase, ...]:
    """The published figures that a study names, in the order of their file.

    Raises:
        SpecError: there is no such file or column, or a figure is no number.
    """
    asked = file.spec.published
    if asked is None:
        return ()
    reader = csv.DictReader(_text(file, asked).splitlines())
    columns = reader.fieldnames or ()
    needed: dict[str, Mapping[Any, str]] = {
        "factors": asked.factors,
        "figures": asked.figures,
        "where": {name: name for name in asked.where},
    }
    for key, named in needed.items():
        for name, column in named.items():
            if column not in columns:
                sentence = f"{asked.file} has no column '{column}'"
                raise file.document.problem(sentence, "published", key, name)
    found: dict[tuple[str, ...], PublishedCase] = {}
    for row in reader:
        if all(row[column] in values for column, values in asked.where.items()):
            case = _case(file, asked, row)
            place = tuple(case.levels.values())
            found[place] = _added(found[place], case) if place in found else case
    return tuple(found.values())


def _added(one: PublishedCase, other: PublishedCase) -> PublishedCase:
    """Two rows of one case: such as the operations of its readers and those of its writers."""
    figures = {
        name: one.figures.get(name, 0.0) + other.figures.get(name, 0.0) for name in one.figures
    }
    return PublishedCase(one.levels, figures)


def _case(file: StudyFile, asked: PublishedSpec, row: Mapping[str, str]) -> PublishedCase:
    levels = {name: row[column] for name, column in asked.factors.items()}
    figures: dict[str, float] = {}
    for name, column in asked.figures.items():
        if row[column]:
            try:
                figures[name] = float(row[column])
            except ValueError:
                sentence = f"{asked.file}: '{row[column]}' in column '{column}' is no number"
                place = ("published", "figures", name)
                raise file.document.problem(sentence, *place) from None
    return PublishedCase(levels, figures)


def _text(file: StudyFile, asked: PublishedSpec) -> str:
    if file.folder is not None and (file.folder / asked.file).exists():
        return read_text(file.folder / asked.file)
    try:
        own = resources.files("kvmark").joinpath("published", asked.file)
        return own.read_text(encoding="utf-8")
    except (OSError, ValueError):
        sentence = f"there is no file {asked.file} beside the study or among kvmark's own"
        raise file.document.problem(sentence, "published", "file") from None
