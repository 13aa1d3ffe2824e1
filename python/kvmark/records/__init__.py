"""Runs on disk: made, closed, recovered, found and read. A closed run is never changed.

Listing runs needs next to nothing, making one needs models of its files, and reading one brings
Polars, NumPy and SciPy. So each name is loaded when it is first asked for: a list is there at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvmark.records.block import Block, block_of, repetition_of
    from kvmark.records.case import Case, by_case
    from kvmark.records.events import read_events
    from kvmark.records.going import GoingRun
    from kvmark.records.imported import (
        BucketsRecord,
        FigureRecord,
        ImportedCase,
        ImportedRecord,
        OriginRecord,
    )
    from kvmark.records.listed import Entry, Judgement, RunLine, State
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
    from kvmark.records.recovery import recover
    from kvmark.records.run import Run
    from kvmark.records.store import Records
    from kvmark.records.writer import Header, RunFolder

__all__ = [
    "AgentRecord",
    "Block",
    "BucketsRecord",
    "Case",
    "Entry",
    "FigureRecord",
    "GoingRun",
    "GroupRecord",
    "Header",
    "ImportedCase",
    "ImportedRecord",
    "Judgement",
    "Manifest",
    "NoticeRecord",
    "OriginRecord",
    "PhaseRecord",
    "Records",
    "Run",
    "RunFolder",
    "RunLine",
    "RunRecord",
    "State",
    "TimeName",
    "TotalRecord",
    "WorkerRecord",
    "block_of",
    "by_case",
    "read_events",
    "recover",
    "repetition_of",
]

_PARTS: Final = {
    "AgentRecord": "model",
    "Block": "block",
    "BucketsRecord": "imported",
    "Case": "case",
    "Entry": "listed",
    "FigureRecord": "imported",
    "GoingRun": "going",
    "GroupRecord": "model",
    "Header": "writer",
    "ImportedCase": "imported",
    "ImportedRecord": "imported",
    "Judgement": "listed",
    "Manifest": "model",
    "NoticeRecord": "model",
    "OriginRecord": "imported",
    "PhaseRecord": "model",
    "Records": "store",
    "Run": "run",
    "RunFolder": "writer",
    "RunLine": "listed",
    "RunRecord": "model",
    "State": "listed",
    "TimeName": "names",
    "TotalRecord": "model",
    "WorkerRecord": "model",
    "block_of": "block",
    "by_case": "case",
    "read_events": "events",
    "recover": "recovery",
    "repetition_of": "block",
}
"""Each name, and the module of this package that has it."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name of `_PARTS`, from its module (PEP 562)."""
        if name not in _PARTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_PARTS[name]}"), name)
