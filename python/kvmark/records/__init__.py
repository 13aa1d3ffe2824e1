"""Runs on disk: created, closed, recovered, listed and read. A closed run is never changed.

Listing runs needs few libraries, writing one needs the models of its files, and reading one needs
Polars, NumPy and SciPy. Each name is therefore imported on first use, so that a list is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvmark.records.case import Case, block_of, by_case, repetition_of
    from kvmark.records.files import TimeName, read_events
    from kvmark.records.model import (
        BucketsRecord,
        FigureRecord,
        GroupRecord,
        Header,
        ImportedCase,
        ImportedRecord,
        Manifest,
        ObservedServer,
        OriginRecord,
        PhaseRecord,
        RunRecord,
        TotalRecord,
    )
    from kvmark.records.recovery import close_run, recover_run
    from kvmark.records.run import OpenRun, Run
    from kvmark.records.store import Entry, Judgement, Records, RunLine
    from kvmark.records.writer import RunFolder

_MODULES: Final = {
    "case": "Case block_of by_case repetition_of",
    "files": "TimeName read_events",
    "model": (
        "BucketsRecord FigureRecord GroupRecord Header ImportedCase ImportedRecord"
        " Manifest ObservedServer OriginRecord PhaseRecord RunRecord TotalRecord"
    ),
    "recovery": "close_run recover_run",
    "run": "OpenRun Run",
    "store": "Entry Judgement Records RunLine",
    "writer": "RunFolder",
}
"""The names that each module of this package exports."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports an exported name on first use (PEP 562)."""
        for module, names in _MODULES.items():
            if name in names.split():
                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
