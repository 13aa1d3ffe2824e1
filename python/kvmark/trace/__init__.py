"""Traces: the operations of clients on a store, as a folder of Parquet files.

A trace `X.trace/` has `trace.json` with its description, and `operations-NNNNNN.parquet` with one
row per operation in the order of their instants (`folder.COLUMNS`). Keys are hashes under a secret
key that isn't stored: equal keys have equal hashes, and nothing else can be derived. Contents of
keys and values are included only on request (`folder.Keep`).
"""

from kvmark.trace.folder import (
    COLUMNS,
    ENGINE_KINDS,
    FORMAT,
    HASHED,
    KINDS,
    Keep,
    Trace,
    TraceInfo,
    TraceWriter,
    sentences,
)
from kvmark.trace.recording import (
    RunRecording,
    TapProgress,
    about_tapes,
    are_tapes,
    import_tapes,
    record,
)
from kvmark.trace.tapes import TapePart, Tapes, tapes, tapes_folder
from kvmark.trace.text_files import (
    MONITOR,
    Layout,
    import_csv,
    import_monitor,
    is_monitor,
    layout_of,
)
