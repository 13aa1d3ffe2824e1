"""The formats of a run's folder, by number: each that was ever written is read.

The number stands in `manifest.json` and `running.json`, and is that of all files of the folder.

1. kvmark 0.1.0. Columns of `intervals.parquet` and fields of the manifest were added meanwhile, and
   one was removed; those that aren't there are unknown.
2. How the engine counted is a number (`engine.counting`), a load says behind how many records it
   went on (`records_found`), and who writes a run holds the lock of `writer.lock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvmark.records.counting import counting_of_format_1

__all__ = ["NEWEST", "as_newest"]

NEWEST: Final = 2
"""The format that is written."""


def as_newest(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A manifest, or what stands in `running.json`, as the newest format has it.

    Raises:
        ValueError: a newer kvmark wrote it.
    """
    written = document.get("format")
    if isinstance(written, int) and written > NEWEST:
        raise ValueError(f"it has format {written} and this kvmark reads {NEWEST}: update kvmark")
    if written != 1:
        return document
    newest = {**document, "format": NEWEST}
    engine = document.get("engine")
    if isinstance(engine, Mapping) and document.get("imported") is None:
        newest["engine"] = {**engine, "counting": counting_of_format_1(engine)}
    return newest
