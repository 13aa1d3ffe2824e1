"""`kvmark workloads`: the ready workloads."""

from __future__ import annotations

import typer

from kvmark import catalog
from kvmark.cli import options
from kvmark.cli.output import print_json


def workloads(name: options.WorkloadName = None, json: options.Json = False) -> None:
    """Lists the ready workloads, or prints one to copy and change."""
    if json:
        if name:
            print_json("workload", {"name": name, "text": catalog.text(name)})
            return
        each = [{"name": one, "description": _described(one)} for one in catalog.names()]
        print_json("workloads", {"workloads": each})
        return
    typer.echo(catalog.text(name) if name else "\n".join(catalog.names()), nl=name is None)


def _described(name: str) -> str:
    return " ".join(catalog.load(name).description.split())
