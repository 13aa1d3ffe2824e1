"""Runs on disk: made, closed, recovered, found and read. A closed run is never changed."""

from kvmark.records.model import (
    GroupRecord,
    Manifest,
    NoticeRecord,
    PhaseRecord,
    RunRecord,
    TimeName,
    TotalRecord,
    WorkerRecord,
)
from kvmark.records.recover import recover
from kvmark.records.run import Run
from kvmark.records.store import Entry, Records, State
from kvmark.records.writer import Header, RunFolder

__all__ = [
    "Entry",
    "GroupRecord",
    "Header",
    "Manifest",
    "NoticeRecord",
    "PhaseRecord",
    "Records",
    "Run",
    "RunFolder",
    "RunRecord",
    "State",
    "TimeName",
    "TotalRecord",
    "WorkerRecord",
    "recover",
]
