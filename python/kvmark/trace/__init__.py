"""Traces: what clients asked of a store, operation by operation, as a folder of Parquet files.

A trace `X.trace/` holds `trace.json`, what is known of the whole, and `operations-NNNNNN.parquet`,
one row an operation in the order of their instants (`folder.COLUMNS`). Keys are hashes under a key
that isn't kept: equal keys are equal, and no more can be told. What they were, and what was
written, is there only where that was asked for (`folder.Keep`).
"""

from kvmark.trace.csv import Layout, import_csv, layout_of
from kvmark.trace.folder import (
    COLUMNS,
    FORMAT,
    HASHED,
    KINDS,
    Keep,
    Trace,
    TraceInfo,
    TraceWriter,
    sentences,
)
from kvmark.trace.monitor import MONITOR, import_monitor, is_monitor
from kvmark.trace.recording import about_tapes, are_tapes
from kvmark.trace.run_log import RunRecording
from kvmark.trace.tap import TapProgress, TapSettings, import_tapes, record
from kvmark.trace.tapes import TapePart, Tapes, tapes, tapes_folder
