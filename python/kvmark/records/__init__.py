"""Runs on disk: made, closed, recovered, found and read. A closed run is never changed.

Making a run needs little; reading one brings Polars, NumPy and SciPy. So the names that read are
loaded when they are first asked for, and a process that measures has none of those libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from kvmark.records.events import read_events
from kvmark.records.imported import (
    BucketsRecord,
    FigureRecord,
    ImportedCase,
    ImportedRecord,
    OriginRecord,
)
from kvmark.records.model import (
    AgentRecord,
    GroupRecord,
    Manifest,
    NoticeRecord,
    PhaseRecord,
    RunRecord,
    TotalRecord,
    WorkerRecord,
)
from kvmark.records.names import TimeName
from kvmark.records.store import Entry, Records, State
from kvmark.records.writer import Header, RunFolder

if TYPE_CHECKING:
    from kvmark.records.going import GoingRun
    from kvmark.records.recovery import recover
    from kvmark.records.run import Run

__all__ = [
    "AgentRecord",
    "BucketsRecord",
    "Entry",
    "FigureRecord",
    "GoingRun",
    "GroupRecord",
    "Header",
    "ImportedCase",
    "ImportedRecord",
    "Manifest",
    "NoticeRecord",
    "OriginRecord",
    "PhaseRecord",
    "Records",
    "Run",
    "RunFolder",
    "RunRecord",
    "State",
    "TimeName",
    "TotalRecord",
    "WorkerRecord",
    "read_events",
    "recover",
]

_READING: Final = {"GoingRun": "going", "Run": "run", "recover": "recovery"}
"""Names that wait, and the module of this package that has each."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name of `_READING`, from its module (PEP 562)."""
        if name not in _READING:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_READING[name]}"), name)
