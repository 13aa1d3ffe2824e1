"""Files from which traces are made, and the rows of traces."""

from pathlib import Path

import polars as pl

from kvmark.trace import COLUMNS, Trace


def twitter(count: int, rate: int) -> str:
    """Operations in the format of twitter/cache-trace, one write among five."""
    return "".join(
        f"{number // rate},key{number * number % 37},12,{number % 500 + 1},{number % 7},"
        f"{'set' if number % 5 == 0 else 'get'},{3600 if number % 5 == 0 else 0}\n"
        for number in range(count)
    )


def rows(trace: Path, *optional: str) -> pl.DataFrame:
    """The operations of a trace."""
    return pl.concat(Trace.open(trace).batches((*COLUMNS, *optional)))
