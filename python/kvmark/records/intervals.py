"""The logs of intervals and resources as tables."""

from __future__ import annotations

import io
import json
from typing import Final

import polars as pl

_QUANTILES = ("min", "mean", "p50", "p90", "p95", "p99", "p999", "max")

#: Columns of ``intervals.parquet``, in order. Only ``TOTAL`` rows count arrivals. Times exclude the
#: completed operations that were ``carried`` over from the warm-up.
SCHEMA: dict[str, pl.DataType] = {
    "phase": pl.Int64(),
    "phase_name": pl.String(),
    "drain": pl.Boolean(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "group": pl.String(),
    "operation": pl.String(),
    "part": pl.Boolean(),
    "outcome": pl.String(),
    **dict.fromkeys(("count", "carried", "rows"), pl.Int64()),
    **{
        f"{time}_ns_{name}": pl.Float64() if name == "mean" else pl.Int64()
        for time in ("service", "response", "wait")
        for name in _QUANTILES
    },
    **dict.fromkeys(
        ("due", "issued", "late", "late_busy", "read_late", "backlog", "in_flight", "frontier"),
        pl.Int64(),
    ),
}


#: The number of operations in a row's times.
TIMED: Final = pl.col("count") - pl.col("carried").fill_null(0)


def with_all_columns(table: pl.DataFrame) -> pl.DataFrame:
    """The table with all columns; columns that it lacks become null."""
    missing = {name: kind for name, kind in SCHEMA.items() if name not in table.columns}
    return table.with_columns(**{name: pl.lit(None, kind) for name, kind in missing.items()})


def read_log(lines: bytes, schema: dict[str, pl.DataType] | None = None) -> pl.DataFrame:
    """The table of a log, without damaged lines; by default with the columns of the log."""
    if not lines.strip():
        return pl.DataFrame(schema=schema or {})
    try:
        return pl.read_ndjson(lines, schema=schema, infer_schema_length=None)
    except pl.exceptions.PolarsError:
        whole = b"".join(line for line in lines.splitlines(keepends=True) if _is_json(line))
        if whole == lines:
            raise
        return read_log(whole, schema)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def to_parquet(table: pl.DataFrame) -> bytes:
    """The table as a Parquet file."""
    file = io.BytesIO()
    table.write_parquet(file)
    return file.getvalue()
