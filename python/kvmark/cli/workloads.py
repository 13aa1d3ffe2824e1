"""`kvmark workloads`: the ready workloads."""

from __future__ import annotations

import typer

from kvmark import catalog
from kvmark.cli import options

__all__ = ["workloads"]


def workloads(name: options.WorkloadName = None) -> None:
    """Lists the ready workloads, or prints one to copy and change."""
    typer.echo(catalog.text(name) if name else "\n".join(catalog.names()), nl=name is None)
