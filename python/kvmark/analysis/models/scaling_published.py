"""Published figures over clients and nodes, and the laws that they bear."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

from kvmark.analysis.models.scaling import ScalingLaw, scaling_law
from kvmark.errors import UsageError

__all__ = ["PUBLISHED_SCALING", "PublishedTable", "published_laws"]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published file of figures at several levels."""

    #: As a report names it.
    source: str
    throughput: str
    #: Columns whose levels are counts; the first one is meant when none is named.
    over: tuple[str, ...]
    #: Columns that tell one case from another, beside the axes.
    cases: tuple[str, ...]


PUBLISHED_SCALING: Final[Mapping[str, PublishedTable]] = MappingProxyType(
    {
        "hydra-cassandra-3.0.6": PublishedTable(
            "hCassandra scale test, Cassandra 3.0.6",
            "ops_per_s",
            ("clients",),
            ("table", "operation", "replication_factor", "consistency", "node_down"),
        ),
        "cassandra-initial": PublishedTable(
            "first Cassandra benchmarks, throughput in records per second",
            "throughput_records_s",
            ("nodes", "in_flight"),
            ("study",),
        ),
    }
)
"""Published reports by the name of their file."""

_YES: Final = {"yes": True, "no": False}


def published_laws(name: str, over: str | None = None) -> tuple[ScalingLaw, ...]:
    """The laws of a published report, one for each of its cases.

    Raises:
        UsageError: there is no such report, or it has no such column.
    """
    table = PUBLISHED_SCALING.get(name)
    if table is None:
        known = " and ".join(PUBLISHED_SCALING)
        raise UsageError(f"there is no published report '{name}'; there are {known}")
    axis = over or table.over[0]
    if axis not in table.over:
        raise UsageError(f"{name} has figures over {' and '.join(table.over)}, not over {axis}")
    cases: dict[str, list[tuple[float, float]]] = {}
    for row in csv.DictReader(_text(name).splitlines()):
        title = _title(row, table, axis)
        cases.setdefault(title, []).append((float(row[axis]), float(row[table.throughput])))
    return tuple(scaling_law(title, axis, its) for title, its in cases.items())


def _text(name: str) -> str:
    return resources.files("kvmark").joinpath("published", f"{name}.csv").read_text("utf-8")


def _title(row: Mapping[str, str], table: PublishedTable, axis: str) -> str:
    """A case in words: the columns that tell it from others."""
    others = (*table.cases, *(column for column in table.over if column != axis))
    return ", ".join(filter(None, (_told(column, row[column]) for column in others)))


def _told(column: str, value: str) -> str:
    match column:
        case "table" | "operation" | "consistency" | "study":
            return value
        case "node_down":
            return "a node down" if _YES[value] else ""
        case "replication_factor":
            return f"RF {value}"
        case _:
            return f"{column.replace('_', ' ')} {value}"
