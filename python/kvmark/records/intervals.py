"""The log of intervals as a table."""

from __future__ import annotations

import io
import json
from typing import Final

import polars as pl

_QUANTILES = ("min", "mean", "p50", "p90", "p95", "p99", "p999", "max")

#: Columns of ``intervals.parquet``, in order. Counts of arrivals are only in rows ``TOTAL``. Of the
#: operations that completed, those that were ``carried`` from the warm-up have their times there.
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
    "count": pl.Int64(),
    "carried": pl.Int64(),
    "rows": pl.Int64(),
    **{
        f"{time}_ns_{name}": pl.Float64() if name == "mean" else pl.Int64()
        for time in ("service", "response", "wait")
        for name in _QUANTILES
    },
    "due": pl.Int64(),
    "issued": pl.Int64(),
    "late": pl.Int64(),
    "late_busy": pl.Int64(),
    "read_late": pl.Int64(),
    "backlog": pl.Int64(),
    "in_flight": pl.Int64(),
    "frontier": pl.Int64(),
}


#: The operations whose times a row has.
TIMED: Final = pl.col("count") - pl.col("carried").fill_null(0)


def with_all_columns(table: pl.DataFrame) -> pl.DataFrame:
    """The table with all columns; those that it was written without have no values."""
    missing = {name: kind for name, kind in SCHEMA.items() if name not in table.columns}
    return table.with_columns(**{name: pl.lit(None, kind) for name, kind in missing.items()})


def read_intervals(lines: bytes) -> pl.DataFrame:
    """The table of a log; lines that aren't whole are passed over."""
    return _read(lines, SCHEMA)


def read_resources(lines: bytes) -> pl.DataFrame:
    """The table of a log of resources; its columns are what the sampler wrote."""
    return _read(lines, None)


def to_parquet(table: pl.DataFrame) -> bytes:
    """The table as a Parquet file."""
    file = io.BytesIO()
    table.write_parquet(file)
    return file.getvalue()


def _read(lines: bytes, schema: dict[str, pl.DataType] | None) -> pl.DataFrame:
    if not lines.strip():
        return pl.DataFrame(schema=schema or {})
    try:
        return pl.read_ndjson(lines, schema=schema, infer_schema_length=None)
    except pl.exceptions.PolarsError:
        whole = [line for line in lines.splitlines(keepends=True) if _is_json(line)]
        if not whole:
            return pl.DataFrame(schema=schema or {})
        return pl.read_ndjson(b"".join(whole), schema=schema, infer_schema_length=None)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
