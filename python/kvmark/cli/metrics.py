"""The live metrics of a command's runs, where they were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import typer

from kvmark.run import Setting

__all__ = ["exported"]


@contextmanager
def exported(setting: Setting, port: int | None, *, quiet: bool) -> Iterator[Setting]:
    """The setting in which Prometheus is told of each run; the same one where no port was named.

    Raises:
        UsageError: the port can't be used.
    """
    if port is None:
        yield setting
        return
    # Only those who ask for metrics pay for the library.
    from kvmark.run.prometheus import exporting

    with exporting(port) as exporter:
        if not quiet:
            typer.echo(f"Metrics are at {exporter.address} while it measures", err=True)
        yield replace(setting, exporter=exporter)
