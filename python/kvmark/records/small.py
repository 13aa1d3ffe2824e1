"""Files of a run as a small archive has them: without what no document shows."""

from __future__ import annotations

import json
from typing import Any, Final

import polars as pl

from kvmark.records import files, histograms
from kvmark.records.intervals import to_parquet

__all__ = ["smaller"]

_WAITS: Final = "wait_ns_"
_SERVICE_DIGITS: Final = 2
"""Of service times, whose histograms are as large as those of response times and seldom shown."""


def smaller(name: str, content: bytes, *, waits: bool) -> bytes:
    """A file of a run as a small archive has it; what can't be read stays as it is."""
    try:
        if name == files.MANIFEST:
            return _without_histograms(json.loads(content), waits=waits)
        if name in {files.INTERVALS, files.RESOURCES}:
            table = pl.read_parquet(content)
            return to_parquet(table if waits else _without_waits(table), packed=False)
    except (ValueError, TypeError, KeyError, pl.exceptions.PolarsError):
        pass
    return content


def _without_waits(table: pl.DataFrame) -> pl.DataFrame:
    """A log of intervals in which no operation is said to have waited; others stay as they are."""
    waits = [name for name in table.columns if name.startswith(_WAITS)]
    return table.with_columns(pl.lit(None, table.schema[name]).alias(name) for name in waits)


def _without_histograms(manifest: dict[str, Any], *, waits: bool) -> bytes:
    """A manifest without the histograms of phases that don't count, and of waits if so wanted.

    Those of service times are made coarser: each of their values is known to 1 %.

    A wait is also that of an answer before the generator reads it.
    """
    engine = manifest["engine"]
    phases = [phase for phase in engine["phases"] if phase["stopped_by"] != "skipped"]
    names = {phase["name"] for phase in phases}
    counts = "measure" if "measure" in names else "load"
    counted = {phase["index"] for phase in phases if phase["name"] == counts}
    for total in engine["totals"]:
        for time in ("service", "response", "wait"):
            if total["phase"] not in counted or (time == "wait" and not waits):
                total[time]["histogram"] = ""
        total["service"]["histogram"] = _coarser(total["service"]["histogram"])
    for phase in engine["phases"]:
        if phase.get("generator_lag") and (phase["index"] not in counted or not waits):
            phase["generator_lag"]["histogram"] = ""
    return files.to_json(manifest)


def _coarser(encoded: str) -> str:
    """A histogram with fewer significant digits; none stays none."""
    return encoded and histograms.encode(histograms.decode(encoded), _SERVICE_DIGITS)
