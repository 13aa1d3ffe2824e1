"""Options that several commands share, and the reading of their values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kvmark.spec.quantity import count, duration_ns, listed

__all__ = [
    "Interval",
    "Json",
    "Pin",
    "Quiet",
    "Report",
    "Seed",
    "System",
    "Tag",
    "Timeout",
    "command_line",
    "optional_count",
    "optional_duration_ns",
    "optional_path",
    "pins",
]

System = Annotated[
    str | None,
    typer.Option("--system", help="The system to measure, such as rocksdb:PATH or sim:?servers=1."),
]
Seed = Annotated[int, typer.Option("--seed", help="Fixes every source of chance.")]
Interval = Annotated[str, typer.Option("--interval", help="Length of a recorded interval.")]
Timeout = Annotated[
    str | None, typer.Option("--timeout", help="Limit on service time, such as 500ms.")
]
Pin = Annotated[
    str | None, typer.Option("--pin", help="Cores to bind workers to, in turn, such as 0,1.")
]
Tag = Annotated[list[str] | None, typer.Option("--tag", help="A word to find the run by.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
Report = Annotated[
    str | None, typer.Option("--report", help="Where the HTML report goes; 'none' for no report.")
]


def optional_count(text: str | None) -> int | None:
    """A count such as 10k, if one was given."""
    return None if text is None else count(text)


def optional_duration_ns(text: str | None) -> int | None:
    """A duration such as 30s, if one was given."""
    return None if text is None else duration_ns(text)


def optional_path(text: str | None, otherwise: Path | None) -> Path | None:
    """A path, or the default, or nothing for `none`."""
    if text is None:
        return otherwise
    return None if text == "none" else Path(text)


def pins(text: str | None) -> tuple[int, ...]:
    """Cores."""
    return () if text is None else tuple(listed(text, count))


def command_line() -> tuple[str, ...]:
    """The command as it was typed, for the manifest."""
    return ("kvmark", *sys.argv[1:])
