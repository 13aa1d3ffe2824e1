"""Runs on disk: made, closed, recovered, found and read. A closed run is never changed.

Listing runs needs next to nothing, making one needs models of its files, and reading one brings
Polars, NumPy and SciPy. So each name is loaded when it is first asked for: a list is there at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvmark.records.case import Block, Case, block_of, by_case, repetition_of
    from kvmark.records.files import TimeName, read_events
    from kvmark.records.model import (
        AgentRecord,
        BucketsRecord,
        FigureRecord,
        GroupRecord,
        ImportedCase,
        ImportedRecord,
        Manifest,
        NoticeRecord,
        OriginRecord,
        PhaseRecord,
        RunRecord,
        TotalRecord,
        WorkerRecord,
    )
    from kvmark.records.recovery import recover
    from kvmark.records.run import GoingRun, Run
    from kvmark.records.store import Records
    from kvmark.records.verdicts import Entry, Judgement, RunLine, State
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
    "Block": "case",
    "BucketsRecord": "model",
    "Case": "case",
    "Entry": "verdicts",
    "FigureRecord": "model",
    "GoingRun": "run",
    "GroupRecord": "model",
    "Header": "writer",
    "ImportedCase": "model",
    "ImportedRecord": "model",
    "Judgement": "verdicts",
    "Manifest": "model",
    "NoticeRecord": "model",
    "OriginRecord": "model",
    "PhaseRecord": "model",
    "Records": "store",
    "Run": "run",
    "RunFolder": "writer",
    "RunLine": "verdicts",
    "RunRecord": "model",
    "State": "verdicts",
    "TimeName": "files",
    "TotalRecord": "model",
    "WorkerRecord": "model",
    "block_of": "case",
    "by_case": "case",
    "read_events": "files",
    "recover": "recovery",
    "repetition_of": "case",
}
"""Each name, and the module of this package that has it."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name of `_PARTS`, from its module (PEP 562)."""
        if name not in _PARTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_PARTS[name]}"), name)
